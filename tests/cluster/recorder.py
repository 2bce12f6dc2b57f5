"""Our agent loop as verl's workers run it in a test: it also notes what vLLM answered, token by
token, in the file that RECORDED names, and lets a test hold the training: where HELD_AFTER names a
file, nothing is drawn once it is there."""

import asyncio
import json
import os

from common.backends.verl.agent import RawPrompt


class Recorder(RawPrompt):
    async def run(self, sampling_params: dict, priority: int = 0, **row):
        after = os.environ.get("HELD_AFTER")
        while after and os.path.exists(after):
            await asyncio.sleep(0.1)
        answer = await super().run(sampling_params, priority, **row)
        line = {
            "source": row["data_source"],
            "prompt": answer.prompt_ids,
            "response": answer.response_ids,
            "log_probs": answer.response_logprobs,
        }
        with open(os.environ["RECORDED"], "a") as file:
            file.write(json.dumps(line) + "\n")
        return answer
