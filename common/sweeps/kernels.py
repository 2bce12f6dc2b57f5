"""How long vLLM's steps take by kernels that were measured on H100s: configs/kernels.yaml, which
bench/kernels.py writes. Other models and GPUs are taken to reach the share of the roofline that the
nearest one of the table reaches."""

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
    step_ms: list[list[float]]  # by batch and context


@dataclass(frozen=True)
class Kernels:
    source: str
    batches: list[float]  # sequences that are decoded at once
    contexts: list[float]  # tokens of each
    engines: list[Engine]


@cache
def kernels_of_h100() -> Kernels:
    return strict(Kernels, read(FILE))


@dataclass(frozen=True)
class Measured:
    """The engine of the table that is nearest to a model, and the GPU of its measurements."""

    engine: Engine
    size: Size
    table: Kernels
    tflops: float  # of all its GPUs
    bandwidth_gb_s: float

    def share(self, batch: float, tokens: float) -> float:
        """Of the roofline, for so many sequences of so many tokens."""
        least = roofline_s([self.size], batch, tokens, self.tflops, self.bandwidth_gb_s)
        return least / self._step_s(batch, tokens)

    def prefill_share(self) -> float:
        """Of the peak of operations, in a pass over prompts."""
        return self.engine.prefill_tokens_s * 2 * self.size.parameters / (self.tflops * 1e12)

    def _step_s(self, batch: float, tokens: float) -> float:
        table, rows = self.table, self.engine.step_ms
        at = [_between(table.contexts, row, tokens) for row in rows]
        return _between(table.batches, at, batch) / 1000


def nearest(
    table: Kernels, sizes: dict[str, Size], size: Size, gpus: int, tflops: float, bandwidth: float
) -> Measured:
    """Of the engines on as many `gpus`, or the next fewer: the model whose weights and cache are
    nearest to those of `size`. `tflops` and `bandwidth` (GB/s) are of one GPU of the table's."""
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
    """Of one step for `batch` sequences of `tokens`: all weights and the batch's keys and values
    are read once, in bfloat16, or 2 operations a weight and sequence are computed, if that takes
    longer. Several `models` are run one after the other (DLC)."""
    weights = sum(2 * one.parameters for one in models)
    cache = tokens * sum(map(token_bytes, models))  # of a sequence
    return max((weights + batch * cache) / (bandwidth * 1e9), weights * batch / (tflops * 1e12))


def _between(places: list[float], values: list[float], at: float) -> float:
    """Linear between the two places around `at`, and beyond the ends as between the last two."""
    i = min(max(bisect(places, at), 1), len(places) - 1)
    (x0, x1), (y0, y1) = list(pairwise(places))[i - 1], list(pairwise(values))[i - 1]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
