"""One response to one prompt from verl's vLLM server, with the token ids that our engines use.

verl's own agent loops render a chat template. Our prompts are rendered already, and encoded as in
`common/rollout/local.py`, without special tokens.
"""

from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.utils.profiler import simple_timer
from vllm.sampling_params import RequestOutputKind

from common.errors import UserError
from common.models.load import input_ids
from common.seeds import generator


class RawPrompt:
    """An agent loop, run once for each response; verl's AgentLoopBase needs a chat template."""

    def __init__(self, *, server_manager, tokenizer, trainer_config, **_):
        self.server, self.tokenizer = server_manager, tokenizer
        self.rollout = trainer_config.config.actor_rollout_ref.rollout

    async def run(self, sampling_params: dict, priority: int = 0, **row) -> AgentLoopOutput:
        """Generate the response to a row of data.py, and what the reward function keeps of it."""
        text, limit = row["raw_prompt"][0]["content"], row["extra_info"]["max_tokens"]
        prompt = input_ids(self.tokenizer, [text])[0]
        # No text and no part of an answer is read, and vLLM's one Python thread would make them.
        brief = {"detokenize": False, "output_kind": RequestOutputKind.FINAL_ONLY}
        sampling_params = sampling_params | brief | {"flat_logprobs": True, "max_tokens": limit}
        if self.rollout.full_determinism:
            # verl would give all requests of a server one seed: a group of copies
            place = (row[key] for key in ("global_steps", "data_source", "session_id"))
            of_it = generator(self.rollout.seed, row["extra_info"]["index"], *place)
            sampling_params = sampling_params | {"seed": of_it.initial_seed()}
        timing = {}
        with simple_timer("generate_sequences", timing):
            answer = await self.server.generate(
                request_id=uuid4().hex,
                prompt_ids=prompt,
                sampling_params=sampling_params,
                priority=int(priority),
            )
        if answer.stop_reason == "aborted" or not answer.token_ids:
            raise UserError(f"prompt {text[:80]!r}: vLLM gave no response ({answer.stop_reason})")
        ids, log_probs = answer.token_ids[:limit], answer.log_probs[:limit]
        measured = {
            "tokens": len(ids),
            "log_prob": round(float(sum(log_probs)), 4),
            "stopped": len(ids) < limit or ids[-1] == self.tokenizer.eos_token_id,
        }
        return AgentLoopOutput(
            prompt_ids=prompt,
            response_ids=ids,
            response_mask=[1] * len(ids),
            response_logprobs=log_probs,
            num_turns=2,
            metrics=AgentLoopMetrics(**timing),
            extra_fields=answer.extra_fields | measured,
        )
