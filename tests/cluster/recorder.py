"""Our agent loop as verl's workers run it in a test: it also notes what vLLM answered, token by
token, in the file that RECORDED names."""

import json
import os

from common.backends.verl.agent import RawPrompt


class Recorder(RawPrompt):
    async def run(self, sampling_params: dict, priority: int = 0, **row):
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
