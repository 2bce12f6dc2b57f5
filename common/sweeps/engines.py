"""How long engines (vLLM or the local loop) take to sample responses, predicted from bytes that are
read and operations. `end` is the low (0) or the high (1) end of a prediction (cost.py)."""

import math
from dataclasses import dataclass

from common.backends.verl import layout
from common.models.size import Size
from common.sweeps.assumptions import Accelerator, Vllm


@dataclass(frozen=True)
class Workload:
    """Responses that are drawn together, in batches that each wait for their longest response."""

    responses: float
    mean: float  # tokens of a response
    prompts: float  # different prompts; each is read once
    prompt: float  # tokens of a prompt
    limit: int  # tokens of the longest possible response
    batches: float  # each ends with its longest response

    def longest(self, end: int) -> float:
        """Return the tokens of a batch's longest response, at the low (0) or the high (1) `end`."""
        likely = self.mean * math.log(max(math.e, self.responses / max(1, self.batches)))
        return self.limit if end else min(self.limit, likely)


@dataclass(frozen=True)
class Engine:
    """`count` engines on `width` GPUs each. An engine decodes at most `batch` sequences at once."""

    unit: Accelerator
    width: int
    count: float
    batch: float
    share: float  # of the unit's memory, for weights and cache
    vllm: Vllm | None  # None: the local loop

    def step_s(self, models: list[Size], batch: float, tokens: float, end: int) -> float:
        """Return the seconds in which one engine decodes a token for each of `batch` sequences of
        `tokens` tokens: it reads weights, keys and values once, in bfloat16, makes 2 operations per
        weight and sequence, and sums the states over its GPUs twice a layer."""
        weights = sum(2 * one.parameters for one in models)
        read = weights + batch * tokens * sum(map(layout.token_bytes, models))
        read_s = read / (self.width * self.unit.bandwidth_gb_s * 1e9)
        computed_s = weights * batch / (self.width * self.unit.tflops * 1e12)
        if self.vllm is None:
            return (read_s + computed_s) / self.unit.decode_efficiency[1 - end]
        kernels_s = self.vllm.step_s + read_s / self.vllm.bandwidth + computed_s
        for one in models if self.width > 1 else ():
            sent_s = 2 * batch * one.hidden / (self.vllm.link_gb_s * 1e9)
            kernels_s += 2 * one.layers * (self.vllm.sum_s + sent_s)
        return kernels_s / self.vllm.efficiency[1 - end]

    def sampling_s(self, part: Workload, models: list[Size], end: int) -> float:
        """Return the seconds to sample `part`. Steps of a full batch decode all tokens; then each
        batch waits for its longest response, decoded alone. (The time of a step is affine in the
        number of sequences, so this is also the time of a batch that empties slowly.)"""
        tokens, longest = part.prompt + part.mean, part.longest(end)
        weights = sum(2 * one.parameters for one in models)
        room = self.share * self.width * self.unit.memory_gb * 1e9 - weights
        cache = tokens * sum(map(layout.token_bytes, models))
        batch = max(1.0, min(self.batch, max(1.0, room) / cache))
        full = self.step_s(models, batch, tokens, end)
        seconds = part.responses * part.mean / (self.count * batch) * full
        alone = self.step_s(models, 1, part.prompt + longest, end)
        seconds += part.batches * max(0, longest - part.mean) * alone
        if self.vllm:
            rate = self.vllm.prefill * self.vllm.efficiency[1 - end] * self.unit.tflops * 1e12
            gpus = self.count * self.width
            seconds += part.prompts * part.prompt * weights / (gpus * rate)
        return seconds
