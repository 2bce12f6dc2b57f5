"""Predicts what a training run will take, from tokens, model size and accelerator.

sampling_time.py times the sampling, cost_checks.py refuses what cannot run at all, and evaluations
and scoring have files of their own (cost_of_evaluation.py, cost_of_scoring.py). Training runs at
the share of the accelerator's peak that others measured. What is not known (mean response length,
what vLLM's server adds, the pause between steps) is a span in configs/cost.yaml, with its source.
At the low end of the prediction, responses are shorter, the shares are better and response lengths
are exponential, so that the longest of n has mean * ln(n) tokens. At the high end, one response of
a batch always reaches the limit. The prediction needs no torch, no GPU and no network.

Left out: queueing time, the attention operations of training (they count from some 16,000 tokens
on), communication between nodes, moving what is kept in main memory, a slow verifier.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from common.backends import backend, snapshots
from common.backends.verl import cache, layout
from common.backends.verl.layout import HELD_BYTES, STATE_BYTES
from common.datasets.prompts import stated
from common.experiment import Experiment
from common.models.size import Size
from common.sweeps.assumptions import Assumptions, accelerator, memory_network, model_size
from common.sweeps.cost_checks import check_layout, check_main_memory, check_time
from common.sweeps.memory import laid_out, peak_gb
from common.sweeps.profiles import Profile
from common.sweeps.sampling_time import Engine, Sampled, joined, measured_kernels, sampling_s


@dataclass(frozen=True)
class Range:
    low: float
    high: float

    def __str__(self) -> str:
        low, high = (
            f"{end:,.0f}" if end >= 1000 else f"{end:.3g}" for end in (self.low, self.high)
        )
        return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class Estimate:
    """The predicted cost of one job, all its attempts together."""

    hours: Range  # wall clock
    gpus: int
    gpu_hours: Range
    usd: Range
    disk_gb: float  # at most
    memory_gb: float  # peak of the fullest accelerator
    tokens: Range  # sampled by all steps and evaluations
    attempts: int  # at most, under the profile's time limit
    tensor_parallel: int = 1  # GPUs that share one vLLM of an evaluation
    network: "Network | None" = None  # a training's memory network (DLC)
    kept_gb: float = 0.0  # part of disk_gb: models of steps before the last
    # GPU hours of a training whose responses have the middle of their expected lengths
    at_middle_lengths: Range | None = None
    cache: "Held | None" = None  # only for a training that samples with vLLM


@dataclass(frozen=True)
class Network:
    """What DLC's memory network adds to a training."""

    parameters: float
    training_gb: float  # per GPU: weights, gradients and moments
    sampler_gb: float  # per GPU: weights in the sampler, without its cache
    cache_share: float  # its share of the sampler's cache
    gpu_hours: Range  # part of the training's GPU hours
    sampling: Range  # its share of the time that training steps sample


@dataclass(frozen=True)
class Held:
    """The cache of one vLLM in a training."""

    tokens: int
    whole: float  # how many responses of full length fit at once
    preemptions: Range  # per step, over all engines


def estimate(x: Experiment, profile: Profile, a: Assumptions) -> Estimate:
    """Return the predicted cost of one training run. Raises UserError where it cannot run, with
    the key to change."""
    size, unit = model_size(x, a), accelerator(profile, a)
    profile = profile.of(size.parameters)
    gpus = max(1, profile.gpus) if backend(x.backend).needs_gpu else 1
    longest = _longest_prompt(x, a)
    check_layout(x, profile, size, longest, gpus)
    network = memory_network(x, size, a)
    memory = peak_gb(x, size, network, longest, unit, profile, a.usable_memory)
    ends = [_training(x, profile, a, size, gpus, end) for end in (0, 1)]
    check_time(x, profile, a, steps_s=ends[0].steps_s, curve_s=ends[0].curve_s)
    check_main_memory(x, profile, a, rollout=ends[1].rollout, evaluated=ends[1].evaluated)
    stored = ends[1].evaluated * a.samples_bytes_per_token + 2 * size.parameters
    # a checkpoint is kept until the next one is complete; older ones are deleted before that, in a
    # resumed run too, so the number of attempts does not matter
    stored += 2 * HELD_BYTES * (size.parameters + (network.parameters if network else 0))
    kept = 2 * size.parameters * len(snapshots.steps(x))

    def taken(ends: list[Training]) -> Estimate:
        seconds = [end.steps_s + end.curve_s for end in ends]
        tokens = [end.rollout + end.evaluated for end in ends]
        return priced(seconds, gpus, stored + kept, memory, tokens, profile, a)

    middle = a.at_middle_lengths()
    alike = taken([_training(x, profile, middle, size, gpus, end) for end in (0, 1)]).gpu_hours
    held = _held(x, profile, a, size) if backend(x.backend).needs_gpu and x.optim.steps else None
    one = replace(taken(ends), kept_gb=kept / 1e9, at_middle_lengths=alike, cache=held)
    if network is None:
        return one
    width = _width(x, size, profile, a)
    caches = [layout.token_bytes(model) for model in (network, size)]
    beside = Network(
        parameters=network.parameters,
        training_gb=STATE_BYTES * network.parameters / gpus / 1e9,
        sampler_gb=2 * network.parameters / width / 1e9,
        cache_share=caches[0] / sum(caches),
        gpu_hours=Range(*(gpus * end.memory_s / 3600 for end in ends)),
        sampling=Range(*sorted(end.memory_share for end in ends)),
    )
    return replace(one, network=beside)


def _held(x: Experiment, profile: Profile, a: Assumptions, size: Size) -> Held:
    """Return the cache of one vLLM and its preemptions, for exponential response lengths."""
    unit, longest = accelerator(profile, a), _longest_prompt(x, a)
    memory = memory_network(x, size, a)
    one = _laid_out(x, size, profile, a)
    load = layout.load_of(x, size, prompt=longest, memory=memory)
    found = cache.cache_of(load, one, unit.memory_gb)
    engines = max(1, profile.gpus // one.parallel)
    responses = math.ceil(x.sampling.prompts * x.sampling.group_size / engines)
    prompt = a.prompts(x.data.name).typical
    limit = min(x.sampling.max_tokens, size.context - prompt)
    ends = [
        engines * cache.preemptions(responses, mean, limit, prompt, found.tokens)
        for mean in a.responses(x.model, x.data.name, limit)
    ]
    return Held(found.tokens, found.whole, Range(*ends))


@dataclass(frozen=True)
class Training:
    """One end of the prediction for a training: the seconds of all its steps and of all its
    evaluations, and the tokens that the steps (`rollout`) and the evaluations sample."""

    steps_s: float
    curve_s: float
    rollout: float
    evaluated: float
    memory_s: float  # part of both that DLC's memory network takes: sampling, training
    memory_share: float  # its share of the seconds that the steps sample


def _training(
    x: Experiment, profile: Profile, a: Assumptions, size: Size, gpus: int, end: int
) -> Training:
    """Predict one end of a training: 0 is the low end, 1 the high end."""
    unit, prompts = accelerator(profile, a), a.prompts(x.data.name)
    mean = a.responses(x.model, x.data.name, x.sampling.max_tokens)[end]
    draws = (1 + (x.sampling.dynamic_batches - 1) / 2 * end) * x.optim.steps
    responses = x.sampling.prompts * x.sampling.group_size
    rollout = Sampled(
        draws * responses,
        mean,
        prompts=draws * x.sampling.prompts,
        prompt=prompts.typical,
        limit=x.sampling.max_tokens,
        batches=draws,
    )
    curve = list(_curve(x, a, end))
    memory = memory_network(x, size, a)
    engine = _engine(x, size, _width(x, size, profile, a), profile, gpus, responses, a)
    both, alone = (sampling_s([rollout], size, other, engine, end) for other in (memory, None))
    passes = 6 + 2 + 2 * (x.method.kl_coef > 0)  # update; old and reference log-probabilities
    trained = x.optim.steps * responses * (prompts.typical + mean)
    weight_s = trained / (gpus * unit.tflops * 1e12 * unit.compute_efficiency[1 - end])
    learned = 6 * weight_s * memory.parameters if memory else 0
    seconds = both + weight_s * passes * size.parameters + learned
    seconds += x.optim.steps * (a.step_overhead_s[end] if profile.accelerator != "cpu" else 0)
    # vLLM's joint model computes both networks even where mu = 0 samples from the policy alone
    beside = memory if backend(x.backend).engine == "vllm" else None
    curve_s = sampling_s(curve, size, beside, engine, end)
    return Training(
        steps_s=seconds,
        curve_s=curve_s,
        rollout=rollout.responses * mean,
        evaluated=sum(part.responses * part.mean for part in curve),
        memory_s=both - alone + learned + curve_s - sampling_s(curve, size, None, engine, end),
        memory_share=1 - alone / both if both else 0.0,
    )


def _width(x: Experiment, size: Size, profile: Profile, a: Assumptions) -> int:
    """Return how many accelerators sample as one engine (tensor parallelism)."""
    if not backend(x.backend).needs_gpu:
        return 1
    return _laid_out(x, size, profile, a).parallel


def _laid_out(x: Experiment, size: Size, profile: Profile, a: Assumptions) -> layout.Layout:
    """Return the layout that the verl backend will choose on this profile."""
    memory, unit = memory_network(x, size, a), accelerator(profile, a)
    return laid_out(x, size, memory, _longest_prompt(x, a), unit, profile, a.usable_memory)


def _engine(
    x: Experiment,
    size: Size,
    width: int,
    profile: Profile,
    gpus: int,
    responses: float,
    a: Assumptions,
) -> Engine:
    """Return the sampling engine of a training on `gpus` accelerators."""
    units = max(1, gpus // width)
    batch = max(1, min(a.decode_batch, responses / units))
    vllm = backend(x.backend).engine == "vllm" and profile.accelerator != "cpu"
    kernels = measured_kernels(size, width, a) if vllm else None
    return Engine(joined(accelerator(profile, a), width), units, batch, kernels=kernels)


def priced(
    seconds: list[float],
    gpus: int,
    stored: float,
    memory: float,
    tokens: list[float],
    profile: Profile,
    a: Assumptions,
) -> Estimate:
    """Return the cost of a job that computes for `seconds` (low, high) on `gpus` GPUs, including
    the start-up time of all its attempts."""
    start = a.start(profile)
    limit = 60 * profile.time_min - profile.signal_lead_s - start
    tries = [max(1, math.ceil(one / max(1.0, limit))) for one in seconds]
    hours = [(one + n * start) / 3600 for one, n in zip(seconds, tries, strict=True)]
    price = accelerator(profile, a).usd_per_hour
    return Estimate(
        hours=Range(*hours),
        gpus=gpus,
        gpu_hours=Range(*(one * gpus for one in hours)),
        usd=Range(*(one * gpus * price for one in hours)),
        disk_gb=stored / 1e9,
        memory_gb=memory,
        tokens=Range(*tokens),
        attempts=tries[1],
    )


def _longest_prompt(x: Experiment, a: Assumptions) -> int:
    """Return the tokens of the longest prompt in the training set (at most `max_prompt_tokens`,
    where the set drops longer ones) and in the benchmarks of the training curve."""
    kept = x.data.train.get("max_prompt_tokens")
    longest = a.prompts(x.data.name).longest
    sets = [
        a.prompts(_name(key, node), x.data.name).longest for key, node in x.data.benchmarks.items()
    ]
    return max(min(longest, kept) if kept else longest, *sets) if sets else longest


def _name(key: str, node: dict) -> str:
    """Return the name of a benchmark's set, which the tables may print under another name."""
    return node.get("name", key)


def _curve(x: Experiment, a: Assumptions, end: int) -> Iterable[Sampled]:
    """Yield, for each benchmark, what is sampled at the points of the training curve and, with all
    n samples, after the last step."""
    points = max(0, math.ceil(x.optim.steps / x.eval.every) - 1)
    for key, node in x.data.benchmarks.items():
        name = _name(key, node)
        asked = stated(node) or a.benchmark_problems
        mean = a.responses(x.model, name, x.eval.max_tokens)[end]
        share = 1 / len(x.data.benchmarks)  # all sets of a curve point are drawn together
        yield Sampled(
            asked * (x.eval.n + points * x.eval.curve_n),
            mean,
            asked * (points + 1),
            a.prompts(name, x.data.name).typical,
            x.eval.max_tokens,
            batches=share * (points + 1),
        )
