"""Predicts how long vLLM's steps take, from kernels that bench/kernels.py measured on H100s and
wrote to configs/kernels.yaml. Other models and GPUs are assumed to reach the same share of the
roofline as the nearest engine in that table."""

import math
from bisect import bisect
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from common.backends.verl.layout import token_bytes
from common.config.files import ROOT, read
from common.config.strict import strict
from common.models.size import Size

FILE = ROOT / "configs" / "kernels.yaml"


@dataclass(frozen=True)
class Engine:
    model: str  # its sizes are in configs/cost.yaml
    tensor_parallel: int
    prefill_tokens_s: float
    step_ms: list[list[float]]  # a row for each batch, a column for each context


@dataclass(frozen=True)
class Kernels:
    source: str
    batches: list[float]  # sequences that are decoded at once
    contexts: list[float]  # tokens of each sequence
    engines: list[Engine]


@cache
def kernels_of_h100() -> Kernels:
    return strict(Kernels, read(FILE))


@dataclass(frozen=True)
class Measured:
    """The engine of the table that is nearest to a model, and the speed of its GPUs."""

    engine: Engine
    size: Size
    table: Kernels
    tflops: float  # of all the engine's GPUs together
    bandwidth_gb_s: float

    def share(self, batch: float, tokens: float) -> float:
        """Return the share of the roofline reached with `batch` sequences of `tokens` tokens."""
        least = roofline_s([self.size], batch, tokens, self.tflops, self.bandwidth_gb_s)
        return least / self._step_s(batch, tokens)

    def prefill_share(self) -> float:
        """Return the share of the peak of operations reached in a pass over prompts (prefill)."""
        return self.engine.prefill_tokens_s * 2 * self.size.parameters / (self.tflops * 1e12)

    def _step_s(self, batch: float, tokens: float) -> float:
        table, rows = self.table, self.engine.step_ms
        at = [_between(table.contexts, row, tokens) for row in rows]
        return _between(table.batches, at, batch) / 1000


def nearest(
    table: Kernels, sizes: dict[str, Size], size: Size, gpus: int, tflops: float, bandwidth: float
) -> Measured:
    """Return the measured engine nearest to a model of this `size`: among the engines on `gpus`
    GPUs, or on the next smaller number, the one whose weights and cache are closest in size.
    `tflops` and `bandwidth` (GB/s) describe one GPU of the table."""
    width = max(e.tensor_parallel for e in table.engines if e.tensor_parallel <= gpus)

    def away(one: Engine) -> float:
        other = sizes[one.model]
        ratios = other.parameters / size.parameters, token_bytes(other) / token_bytes(size)
        return sum(abs(math.log(ratio)) for ratio in ratios)

    found = min((e for e in table.engines if e.tensor_parallel == width), key=away)
    return Measured(found, sizes[found.model], table, width * tflops, width * bandwidth)


def roofline_s(
    models: list[Size], batch: float, tokens: float, tflops: float, bandwidth: float
) -> float:
    """Return the seconds of one decoding step for `batch` sequences of `tokens` tokens each. All
    weights and the batch's keys and values are read once, in bfloat16; or 2 operations per weight
    and sequence are computed, if that takes longer. Several `models` run one after the other
    (DLC)."""
    weights = sum(2 * one.parameters for one in models)
    cache = tokens * sum(map(token_bytes, models))  # bytes of a sequence
    return max((weights + batch * cache) / (bandwidth * 1e9), weights * batch / (tflops * 1e12))


def _between(places: list[float], values: list[float], at: float) -> float:
    """Interpolate linearly between the two places around `at`; beyond an end, extrapolate from the
    last two."""
    i = min(max(bisect(places, at), 1), len(places) - 1)
    (x0, x1), (y0, y1) = list(pairwise(places))[i - 1], list(pairwise(values))[i - 1]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
