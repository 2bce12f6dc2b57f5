"""Speeds measured in a run with backend=verl, from verl's own metrics, and the efficiencies with
which the dry run would have predicted them.

`rlvr gpu-smoke` writes FILE on a machine with GPUs. Where FILE exists, `assumptions.py` takes an
accelerator's efficiencies from it. A small model or a short run reaches less than a large one, so
the file states what was measured.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from common.config.files import ROOT, read
from common.config.strict import strict

FILE = ROOT / "results" / "gpu_smoke" / "efficiency.yaml"


@dataclass(frozen=True)
class Measured:
    """The contents of FILE: what was measured on one accelerator."""

    accelerator: str  # key of `accelerators` in configs/cost.yaml
    compute_efficiency: float
    vllm_efficiency: float  # share of the speed of vLLM's kernels
    model: str
    gpus: int
    samples: int  # per step
    commit: str | None


@dataclass(frozen=True)
class Speed:
    """The speed of a training step: medians over steps. None: verl did not report it."""

    seconds: dict[str, float]  # by phase; `step` is all of them
    prompt_tokens: float  # per sample
    response_tokens: float
    samples: int
    rollout_tokens_s: float | None  # response tokens per second and GPU
    training_tokens_s: float | None  # prompt and response tokens, in the update
    mfu: float | None  # of the update, by verl's own count of operations
    memory_gb: float | None  # peak of one trainer process


def speed(lines: list[dict], first: set[int], gpus: int) -> Speed:
    """Return the speed from the lines of a run's verl.jsonl. `first` holds the first step after
    each start of verl: these are slower than others and left out where there are others. Raises
    ValueError if there is no step."""
    steps = [line for line in lines if "timing_s/step" in line["data"]]
    warm = [line["data"] for line in steps if line["step"] not in first]
    rows = warm or [line["data"] for line in steps]
    if not rows:
        raise ValueError("no training step in verl's metrics")

    def typical(key: str) -> float | None:
        values = [row[key] for row in rows if math.isfinite(row.get(key, math.nan))]
        return median(values) if values else None

    names = sorted({key for row in rows for key in row if key.startswith("timing_s/")})
    seconds = {name.removeprefix("timing_s/"): typical(name) for name in names}
    prompt, response = typical("prompt_length/mean"), typical("response_length/mean")
    tokens = typical("perf/total_num_tokens")
    samples = round(tokens / (prompt + response))
    return Speed(
        seconds=seconds,
        prompt_tokens=prompt,
        response_tokens=response,
        samples=samples,
        rollout_tokens_s=_rate(samples * response, seconds.get("gen"), gpus),
        training_tokens_s=_rate(tokens, seconds.get("update_actor"), gpus),
        mfu=typical("perf/mfu/actor") or None,  # 0 where verl does not know the device
        memory_gb=typical("perf/max_memory_allocated_gb"),
    )


def _rate(tokens: float, seconds: float | None, gpus: int) -> float | None:
    return tokens / (seconds * gpus) if seconds else None


def compute_efficiency(found: Speed, parameters: float, tflops: float, gpus: int) -> float | None:
    """Return the share of a GPU's peak `tflops` that forward and backward passes reach: 6
    operations per weight and token in the update, 2 for each model that computes log-probabilities.
    None if the time of the update is unknown."""
    passes = {"update_actor": 6, "old_log_prob": 2, "ref": 2}
    spent = {name: found.seconds[name] for name in passes if found.seconds.get(name)}
    if "update_actor" not in spent:
        return None
    tokens = found.samples * (found.prompt_tokens + found.response_tokens)
    operations = tokens * parameters * sum(passes[name] for name in spent)
    return operations / (sum(spent.values()) * gpus * tflops * 1e12)


def with_measured(accelerators: dict, path: Path = FILE) -> dict:
    """Return the accelerators of configs/cost.yaml. If the file `path` exists, its efficiencies
    become the low ends of the spans of its accelerator, since larger models reach more. Raises
    UserError for a bad file."""
    if not path.exists():
        return accelerators
    got = strict(Measured, read(path))
    if got.accelerator not in accelerators:
        return accelerators
    stated = accelerators[got.accelerator]
    changed = replace(
        stated,
        compute_efficiency=_at_least(got.compute_efficiency, stated.compute_efficiency),
        vllm_efficiency=_at_least(got.vllm_efficiency, stated.vllm_efficiency),
    )
    return accelerators | {got.accelerator: changed}


def _at_least(found: float, span: tuple[float, float]) -> tuple[float, float]:
    return found, max(found, span[1])
