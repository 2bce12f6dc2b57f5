"""Predicts how long an engine takes to sample responses. The time of vLLM's steps comes from
measured kernels (kernels.py); the local loop reaches a share of the roofline. Needs no torch and no
GPU."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from common.backends.verl import layout
from common.models.size import Size
from common.sweeps.assumptions import Accelerator, Assumptions
from common.sweeps.kernels import Measured, kernels_of_h100, nearest, roofline_s


@dataclass(frozen=True)
class Sampled:
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
    """`units` engines on a `unit` each, each of which samples at most `batch` sequences at once."""

    unit: Accelerator
    units: int
    batch: float
    share: float = 0.6  # of the unit's memory, for weights and cache; the rest is the trainer's
    kernels: Measured | None = None  # vLLM's; None: a share of the roofline

    def efficiency(self, end: int) -> float:
        return (self.unit.vllm_efficiency if self.kernels else self.unit.decode_efficiency)[1 - end]


def measured_kernels(size: Size, width: int, a: Assumptions) -> Measured:
    """Return the kernels of vLLM, measured on H100s, for a model of this `size` on `width` GPUs."""
    h100 = a.accelerators["h100"]
    return nearest(kernels_of_h100(), a.models, size, width, h100.tflops, h100.bandwidth_gb_s)


def joined(unit: Accelerator, width: int) -> Accelerator:
    """Return `width` accelerators as one. The communication between them is not counted."""
    return replace(
        unit,
        memory_gb=width * unit.memory_gb,
        tflops=width * unit.tflops,
        bandwidth_gb_s=width * unit.bandwidth_gb_s,
    )


def sampling_s(
    parts: Iterable[Sampled],
    size: Size,
    memory: Size | None,
    engine: Engine,
    end: int,
) -> float:
    """Return the seconds to sample `parts`, at the low (0) or the high (1) `end`. Steps of a full
    batch decode all tokens; then each batch waits for its longest response, which is alone. (The
    time of a step is affine in the number of sequences, so this is also the time of a batch that
    empties slowly.)"""
    share, one = engine.efficiency(end), replace(engine, batch=1)
    seconds = 0.0
    for part in parts:
        longest = part.longest(end)
        rate = decode_rate(size, memory, engine, part.prompt + part.mean, share)
        alone = decode_rate(size, memory, one, part.prompt + longest, share)
        seconds += part.responses * part.mean / (engine.units * rate)
        seconds += part.batches * max(0, longest - part.mean) / alone
        if engine.kernels:
            read = engine.unit.tflops * 1e12 * engine.kernels.prefill_share() * share
            operations = 2 * (size.parameters + (memory.parameters if memory else 0))
            seconds += part.prompts * part.prompt * operations / (engine.units * read)
    return seconds


def decode_rate(
    size: Size, memory: Size | None, engine: Engine, tokens: float, efficiency: float
) -> float:
    """Return the tokens per second of one engine with sequences of `tokens` tokens, at the share
    `efficiency` of the speed of its kernels or, where they are not measured, of the roofline. A
    memory network (DLC) is read and computed in addition."""
    unit, models = engine.unit, [size, *([memory] if memory else [])]
    cache = tokens * sum(map(layout.token_bytes, models))  # bytes of a sequence
    weights = sum(2 * one.parameters for one in models)
    room = max(1.0, engine.share * unit.memory_gb * 1e9 - weights)
    batch = max(1.0, min(engine.batch, room / cache))
    reached = engine.kernels.share(batch, tokens) if engine.kernels else 1.0
    least = roofline_s(models, batch, tokens, unit.tflops, unit.bandwidth_gb_s)
    return efficiency * reached * batch / least
