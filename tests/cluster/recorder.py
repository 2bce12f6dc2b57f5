"""Our agent loop as verl's workers run it in a test: it also notes what vLLM answered, token by
token, in the file that RECORDED names, and lets a test hold the training: HELD names two files, and
once the first is there, nothing is drawn before the second is."""

import asyncio
import json
import os

from common.backends.verl.agent import RawPrompt


class Recorder(RawPrompt):
    async def run(self, sampling_params: dict, priority: int = 0, **row):
        after, until = os.environ["HELD"].split(":")
        while os.path.exists(after) and not os.path.exists(until):
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
