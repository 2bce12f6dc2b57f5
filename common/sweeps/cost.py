"""What a run will take, from tokens, model size and accelerator, and what cannot run at all.

A roofline with the assumptions of configs/cost.yaml, good to a factor of two; no torch, no GPU, no
network. Left out: queueing, tensor parallelism, communication, CPU offloading.
"""

import math
from dataclasses import dataclass

from common.backends import backend
from common.datasets.prompts import stated
from common.errors import require
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.sweeps.assumptions import FILE, Accelerator, Assumptions, Size, accelerator, model_size
from common.sweeps.memory import STATE_BYTES, peak_gb
from common.sweeps.profiles import Profile

CHUNKS = 8  # of an evaluation, for each GPU that it asks for


@dataclass(frozen=True)
class Estimate:
    """Of one job, all its attempts together."""

    hours: float  # wall clock
    gpus: int
    gpu_hours: float
    usd: float
    disk_gb: float
    memory_gb: float  # of the fullest accelerator, at its peak
    tokens: float  # sampled
    attempts: int  # under the time limit


def estimate(x: Experiment, profile: Profile, a: Assumptions) -> Estimate:
    """The cost of one training. Raises UserError where it cannot run, with the key to change."""
    size, unit = model_size(x, a), accelerator(profile, a)
    gpus = max(1, profile.gpus) if backend(x.backend).needs_gpu else 1
    prompt = a.prompt_tokens.get(x.data.name, a.prompt_tokens["default"])
    _check(x, profile, size, prompt, gpus)
    memory = peak_gb(x, size, prompt, gpus, unit, profile, a.usable_memory)
    rollout = x.sampling.prompts * x.sampling.group_size * x.sampling.max_tokens
    rollout *= a.response_fraction * x.optim.steps
    evaluated = _evaluated(x, a)
    sampled = rollout * (1 + (x.sampling.dynamic_batches - 1) / 2) + evaluated
    mean = prompt + a.response_fraction * x.sampling.max_tokens
    trained = rollout * mean / max(1.0, a.response_fraction * x.sampling.max_tokens)
    seconds = sampled / (gpus * decode_rate(size, unit, a, mean))
    passes = 6 + 2 * a.forward_passes  # forward 2, backward 4 floating-point operations a weight
    flops = unit.tflops * 1e12 * unit.compute_efficiency
    seconds += trained * passes * size.parameters / (gpus * flops)
    seconds += x.optim.steps * (a.step_overhead_s if _kind(profile) == "gpu" else 0)
    stored = evaluated * a.samples_bytes_per_token + (STATE_BYTES + 2) * size.parameters
    if x.keep_checkpoints:
        stored += 2 * size.parameters * (x.optim.steps // x.eval.every)
    held = max(1, profile.gpus)  # an allocation is paid whole, used or not
    return _estimate(seconds, held, stored, memory, sampled, profile, a)


def estimate_evaluation(e: Evaluate, profile: Profile, a: Assumptions, size: Size) -> Estimate:
    """The cost of one evaluation of a model of `size`. Raises as `estimate`.

    Its chunks are drawn by as many engines as it has GPUs (`evaluation_gpus`). At the end of a
    chunk the longest answers are alone, on average for as long as they are longer than the mean.
    """
    unit, prompt = accelerator(profile, a), a.prompt_tokens["default"]
    prompt = a.prompt_tokens.get(e.eval.name.partition("_")[0], prompt)
    _check_prompt("prompt_tokens", prompt, size, e.model.name)
    memory = 2 * size.parameters / 1e9
    require(
        memory <= a.usable_memory * unit.memory_gb,
        "accelerator",
        profile.accelerator,
        f"the weights of {e.model.name} take {memory:.0f} GB, and an engine has one GPU "
        f"({unit.memory_gb:g} GB): choose a profile with more memory",
    )
    asked = stated(e.eval.prompts) or a.benchmark_problems
    sampled = asked * e.n * e.max_tokens * a.response_fraction
    seconds = sampled / decode_rate(size, unit, a, prompt + a.response_fraction * e.max_tokens)
    seconds *= 1 + a.decode_batch / (e.n * e.per_chunk) * (1 / a.response_fraction - 1)
    gpus, chunks = evaluation_gpus(e, profile, a), -(-asked // e.per_chunk)
    seconds *= -(-chunks // gpus) / chunks  # the last round is not full
    stored = sampled * a.samples_bytes_per_token
    return _estimate(seconds, gpus, stored, memory, sampled, profile, a)


def evaluation_gpus(e: Evaluate, profile: Profile, a: Assumptions) -> int:
    """GPUs of one node that an evaluation asks for: as many as have `CHUNKS` chunks each, so that
    few of them are idle in the last round. Without SLURM one: others run beside it."""
    chunks = -(-(stated(e.eval.prompts) or a.benchmark_problems) // e.per_chunk)
    several = e.engine == "vllm" and profile.executor == "slurm"
    most = profile.gpus_per_node if several else 1
    return max(1, min(most, chunks // CHUNKS))


def _estimate(
    seconds: float,
    held: int,
    stored: float,
    memory: float,
    sampled: float,
    profile: Profile,
    a: Assumptions,
) -> Estimate:
    """Of a job that computes for `seconds` on `held` GPUs, with the starts of all its attempts."""
    start = a.start_s[_kind(profile)]
    limit = 60 * profile.time_min - profile.signal_lead_s - start
    tries = max(1, math.ceil(seconds / max(1.0, limit)))
    hours = (seconds + tries * start) / 3600
    return Estimate(
        hours=hours,
        gpus=held,
        gpu_hours=hours * held,
        usd=hours * held * accelerator(profile, a).usd_per_hour,
        disk_gb=stored / 1e9,
        memory_gb=memory,
        tokens=sampled,
        attempts=tries,
    )


def _kind(profile: Profile) -> str:
    return "cpu" if profile.accelerator == "cpu" else "gpu"


def decode_rate(size: Size, unit: Accelerator, a: Assumptions, mean_tokens: float) -> float:
    """Tokens a second that one accelerator samples: a step reads all weights and the batch's keys
    and values once, in bf16, or computes 2 operations a weight and sequence, if that is longer."""
    cache = 2 * 2 * size.layers * size.kv_width * mean_tokens  # bytes a sequence
    room = max(1.0, 0.6 * unit.memory_gb * 1e9 - 2 * size.parameters)
    batch = max(1.0, min(a.decode_batch, room / cache))
    read = (2 * size.parameters + batch * cache) / (unit.bandwidth_gb_s * 1e9)
    compute = 2 * size.parameters * batch / (unit.tflops * 1e12)
    return unit.decode_efficiency * batch / max(read, compute)


def _evaluated(x: Experiment, a: Assumptions) -> float:
    """Tokens sampled by evaluations: the curve, then the last one with all n."""
    known = (stated(node) for node in x.data.benchmarks.values())
    asked = sum(number or a.benchmark_problems for number in known)
    points = max(0, math.ceil(x.optim.steps / x.eval.every) - 1)
    each = asked * x.eval.max_tokens * a.response_fraction
    return each * (x.eval.n + points * x.eval.curve_n)


def _check(x: Experiment, profile: Profile, size: Size, prompt: int, gpus: int) -> None:
    _check_prompt("prompt_tokens", prompt, size, x.model.name)
    if not backend(x.backend).needs_gpu:
        require(
            profile.nodes == 1,
            "nodes",
            profile.nodes,
            f"backend={x.backend} is one process; "
            f"choose a profile with one node, not {profile.name}",
        )
        return
    each = x.sampling.prompts * x.sampling.group_size // x.optim.mini_batches
    require(
        each % gpus == 0,
        "sampling.prompts",
        x.sampling.prompts,
        f"{each} responses a mini-batch do not divide over {gpus} GPUs of profile {profile.name}; "
        f"make prompts x group_size / mini_batches a multiple of {gpus}",
    )


def _check_prompt(key: str, prompt: int, size: Size, name: str) -> None:
    """A long prompt gets shorter responses; one that fills the context gets none."""
    require(
        prompt < size.context,
        key,
        prompt,
        f"prompts of so many tokens leave no room for a response in the context of {name}, "
        f"{size.context}; take a model with a longer one, or correct prompt_tokens in {FILE}",
    )
