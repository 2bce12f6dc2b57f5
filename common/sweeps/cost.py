"""What a run will take, from tokens, model size and accelerator, and what cannot run at all.

vLLM's steps are those of measured kernels (configs/kernels.yaml), training runs at the share of
the peak that others measured, and what is not known (mean response length, what vLLM's server adds,
the pause between steps) is a span of configs/cost.yaml, with its source. The wait for the longest
response of a batch is a term of its own. At the low end responses are shorter, the shares better
and lengths exponential, so that the longest of n has mean * ln(n) tokens; at the high end one
always reaches the limit. No torch, no GPU, no network. Left out: queueing, attention's part of
training's operations (it counts from some 16,000 tokens on), communication between nodes, what is
kept in main memory and moved, a slow verifier.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from common.backends import backend, snapshots
from common.backends.verl import cache, layout, tuning
from common.backends.verl.layout import HELD_BYTES, STATE_BYTES
from common.datasets.prompts import stated
from common.errors import require
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.sweeps.assumptions import (
    FILE,
    Accelerator,
    Assumptions,
    Size,
    accelerator,
    memory_network,
    model_size,
)
from common.sweeps.kernels import Measured, kernels_of_h100, nearest, roofline_s
from common.sweeps.memory import laid_out, peak_gb
from common.sweeps.profiles import Profile

CHUNKS = 8  # of an evaluation, for each GPU that it asks for


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
    """Of one job, all its attempts together."""

    hours: Range  # wall clock
    gpus: int
    gpu_hours: Range
    usd: Range
    disk_gb: float  # at most
    memory_gb: float  # of the fullest accelerator, at its peak
    tokens: Range  # sampled
    attempts: int  # under the time limit, at most
    tensor_parallel: int = 1  # GPUs that share one vLLM of an evaluation
    network: "Network | None" = None  # a training's memory network (DLC)
    kept_gb: float = 0.0  # of the disk: models of steps before the last
    # of a training, where responses have the middle of their expected lengths
    at_middle_lengths: Range | None = None
    cache: "Held | None" = None  # of a training that samples with vLLM


@dataclass(frozen=True)
class Network:
    """What DLC's memory network adds to a training."""

    parameters: float
    training_gb: float  # a GPU: weights, gradients and moments
    sampler_gb: float  # a GPU: weights in the sampler; the cache comes beside
    cache_share: float  # of the sampler's cache
    gpu_hours: Range  # of the training's
    sampling: Range  # share of the steps' sampling


@dataclass(frozen=True)
class Held:
    """The cache of one vLLM in a training."""

    tokens: int
    whole: float  # responses of full length at once
    preemptions: Range  # a step, over all engines


@dataclass(frozen=True)
class Sampled:
    """Responses that are drawn together, and what is waited for."""

    responses: float
    mean: float  # tokens of one
    prompts: float  # different ones; each is read once
    prompt: float  # tokens
    limit: int  # tokens of the longest
    batches: float  # each ends with its longest response

    def longest(self, end: int) -> float:
        """Tokens of the longest response of a batch."""
        likely = self.mean * math.log(max(math.e, self.responses / max(1, self.batches)))
        return self.limit if end else min(self.limit, likely)


def estimate(x: Experiment, profile: Profile, a: Assumptions) -> Estimate:
    """The cost of one training. Raises UserError where it cannot run, with the key to change."""
    size, unit = model_size(x, a), accelerator(profile, a)
    profile = profile.of(size.parameters)
    gpus = max(1, profile.gpus) if backend(x.backend).needs_gpu else 1
    longest = _longest_prompt(x, a)
    _check(x, profile, size, longest, gpus)
    network = memory_network(x, size, a)
    memory = peak_gb(x, size, network, longest, unit, profile, a.usable_memory)
    ends = [_training(x, profile, a, size, gpus, end) for end in (0, 1)]
    _check_time(x, profile, a, ends[0])
    _check_main_memory(x, profile, a, ends[1])
    stored = ends[1].evaluated * a.samples_bytes_per_token + 2 * size.parameters
    # a checkpoint lives until the next is whole; older ones are deleted before, also of a resumed
    # run, so the number of attempts does not matter
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
    """Of exponential lengths."""
    unit, longest = accelerator(profile, a), _longest_prompt(x, a)
    memory = memory_network(x, size, a)
    one = laid_out(x, size, memory, longest, unit, profile, a.usable_memory)
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
    """One end of a training: seconds of all its steps and of all its evaluations, tokens that
    steps and evaluations sample."""

    steps_s: float
    curve_s: float
    rollout: float
    evaluated: float
    memory_s: float  # of them, DLC's memory network's: sampling beside the policy, training
    memory_share: float  # of the steps' seconds of sampling


def _training(
    x: Experiment, profile: Profile, a: Assumptions, size: Size, gpus: int, end: int
) -> Training:
    """At one end: 0 the low, 1 the high."""
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
    seconds += x.optim.steps * (a.step_overhead_s[end] if _kind(profile) == "gpu" else 0)
    # vLLM's joint model computes both also where mu = 0 leaves the policy alone
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


def estimate_evaluation(
    e: Evaluate, trained: Experiment, profile: Profile, a: Assumptions
) -> Estimate:
    """The cost of one evaluation of a model that `trained` makes: its chunks are drawn by as many
    engines as its GPUs (`evaluation_gpus`) make. Raises as `estimate`."""
    size, unit = model_size(trained, a), accelerator(profile, a)
    prompts = a.prompts(e.eval.name, trained.data.name)
    _check_prompt("prompt_tokens", prompts.longest, size, e.model.name)
    width = evaluation_width(e, size, unit, profile, a)
    memory = 2 * size.parameters / width / 1e9
    require(
        memory <= a.usable_memory * unit.memory_gb,
        "accelerator",
        profile.accelerator,
        f"the weights of {e.model.name} take {width * memory:.0f} GB, and an engine has {width} "
        f"GPU(s) of {unit.memory_gb:g} GB: choose a profile with more memory",
    )
    asked = stated(e.eval.prompts) or a.benchmark_problems
    gpus, chunks = evaluation_gpus(e, profile, a, width), math.ceil(asked / e.per_chunk)
    engines = gpus // width
    _check_engine(e, size, gpus, profile, a)
    rounds = math.ceil(chunks / engines)  # of the one that has most; the last is not full
    responses = min(asked, rounds * e.per_chunk) * e.n
    batch = min(a.decode_batch, e.per_chunk * e.n)
    kernels = measured_kernels(size, width, a) if e.engine == "vllm" else None
    engine = Engine(_joined(unit, width), 1, batch, a.usable_memory, kernels)
    ends = a.responses(trained.model, e.eval.name, e.max_tokens)
    drawn = [
        Sampled(responses, mean, responses / e.n, prompts.typical, e.max_tokens, rounds)
        for mean in ends
    ]
    seconds = [sampling_s([one], size, None, engine, end) for end, one in enumerate(drawn)]
    least = a.start_s[_kind(profile)] + seconds[0] / rounds
    require(
        least < 60 * profile.time_min,
        "batch",
        e.batch,
        f"a chunk of so many samples takes {least / 60:,.0f} minutes at least, and an attempt on "
        f"profile {profile.name} ends after {profile.time_min}; lower it, or raise time_min",
    )
    tokens = [asked * e.n * mean for mean in ends]
    stored = tokens[1] * a.samples_bytes_per_token
    one = priced(seconds, gpus, stored, memory, tokens, profile, a)
    return replace(one, tensor_parallel=width)


def evaluation_width(
    e: Evaluate, size: Size, unit: Accelerator, profile: Profile, a: Assumptions
) -> int:
    """GPUs that share one vLLM: as the evaluation says, else as few as training would take. Raises
    UserError for more than a node has."""
    if e.engine != "vllm":
        return 1
    node = max(1, profile.gpus_per_node)
    share = a.usable_memory * unit.memory_gb
    width = e.tensor_parallel or layout.fewest(size.parameters, node, share)
    remedy = f"a node of profile {profile.name} has {node} GPU(s); lower it"
    require(width <= node, "tensor_parallel", width, remedy)
    return width


def evaluation_gpus(e: Evaluate, profile: Profile, a: Assumptions, width: int = 1) -> int:
    """GPUs of one node that an evaluation asks for: as many engines of `width` as have `CHUNKS`
    chunks each, so that few are idle in the last round. Without SLURM one: others run beside it."""
    chunks = math.ceil((stated(e.eval.prompts) or a.benchmark_problems) / e.per_chunk)
    several = e.engine == "vllm" and profile.executor == "slurm"
    most = profile.gpus_per_node // width if several else 1
    return width * max(1, min(most, chunks // CHUNKS))


@dataclass(frozen=True)
class Engine:
    """What samples: `units` engines of `unit`, each with at most `batch` sequences at once."""

    unit: Accelerator
    units: int
    batch: float
    share: float = 0.6  # of its memory, for weights and cache; the rest is the trainer's
    kernels: Measured | None = None  # of vLLM; None: the accelerator's share of the roofline

    def efficiency(self, end: int) -> float:
        return (self.unit.vllm_efficiency if self.kernels else self.unit.decode_efficiency)[1 - end]


def _width(x: Experiment, size: Size, profile: Profile, a: Assumptions) -> int:
    """Accelerators that sample as one engine: tensor parallelism."""
    if not backend(x.backend).needs_gpu:
        return 1
    unit, longest = accelerator(profile, a), _longest_prompt(x, a)
    return laid_out(
        x, size, memory_network(x, size, a), longest, unit, profile, a.usable_memory
    ).parallel


def _engine(
    x: Experiment,
    size: Size,
    width: int,
    profile: Profile,
    gpus: int,
    responses: float,
    a: Assumptions,
) -> Engine:
    """Of a training, on `gpus` accelerators."""
    units = max(1, gpus // width)
    batch = max(1, min(a.decode_batch, responses / units))
    vllm = backend(x.backend).engine == "vllm" and _kind(profile) == "gpu"
    kernels = measured_kernels(size, width, a) if vllm else None
    return Engine(_joined(accelerator(profile, a), width), units, batch, kernels=kernels)


def measured_kernels(size: Size, width: int, a: Assumptions) -> Measured:
    """vLLM's, of a model of this `size` on `width` GPUs; they were measured on an H100."""
    h100 = a.accelerators["h100"]
    return nearest(kernels_of_h100(), a.models, size, width, h100.tflops, h100.bandwidth_gb_s)


def _joined(unit: Accelerator, width: int) -> Accelerator:
    """`width` of them as one; what they tell each other is not counted."""
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
    """Seconds for `parts`, at one end. The step of a full batch decodes all tokens; then each batch
    waits for its longest response, which is alone. (A step is affine in its sequences, so this is
    also the time of a batch that empties slowly.)"""
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
    """Tokens a second of one engine with sequences of `tokens`, at this share of the speed of its
    kernels, or, where they are not measured, of the roofline. A memory network (DLC) is read and
    computed beside."""
    unit, models = engine.unit, [size, *([memory] if memory else [])]
    cache = tokens * sum(map(layout.token_bytes, models))  # of a sequence
    weights = sum(2 * one.parameters for one in models)
    room = max(1.0, engine.share * unit.memory_gb * 1e9 - weights)
    batch = max(1.0, min(engine.batch, room / cache))
    reached = engine.kernels.share(batch, tokens) if engine.kernels else 1.0
    least = roofline_s(models, batch, tokens, unit.tflops, unit.bandwidth_gb_s)
    return efficiency * reached * batch / least


def priced(
    seconds: list[float],
    gpus: int,
    stored: float,
    memory: float,
    tokens: list[float],
    profile: Profile,
    a: Assumptions,
) -> Estimate:
    """Of a job that computes for `seconds` (low, high) on `gpus` GPUs, with the starts of all its
    attempts."""
    start = a.start_s[_kind(profile)]
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


def _kind(profile: Profile) -> str:
    return "cpu" if profile.accelerator == "cpu" else "gpu"


def _longest_prompt(x: Experiment, a: Assumptions) -> int:
    """Of the training's set, unless it drops longer ones, and of the curve's benchmarks."""
    kept = x.data.train.get("max_prompt_tokens")
    longest = a.prompts(x.data.name).longest
    sets = [
        a.prompts(_name(key, node), x.data.name).longest for key, node in x.data.benchmarks.items()
    ]
    return max(min(longest, kept) if kept else longest, *sets) if sets else longest


def _name(key: str, node: dict) -> str:
    """A benchmark's set: the tables may call it otherwise."""
    return node.get("name", key)


def _curve(x: Experiment, a: Assumptions, end: int) -> Iterable[Sampled]:
    """What is sampled on the training curve, and after the last step with all n."""
    points = max(0, math.ceil(x.optim.steps / x.eval.every) - 1)
    for key, node in x.data.benchmarks.items():
        name = _name(key, node)
        asked = stated(node) or a.benchmark_problems
        mean = a.responses(x.model, name, x.eval.max_tokens)[end]
        share = 1 / len(x.data.benchmarks)  # all sets of a point are drawn together
        yield Sampled(
            asked * (x.eval.n + points * x.eval.curve_n),
            mean,
            asked * (points + 1),
            a.prompts(name, x.data.name).typical,
            x.eval.max_tokens,
            batches=share * (points + 1),
        )


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
    needed = layout.reserved_cpus(profile.gpus_per_node)
    require(
        profile.gpus_per_node == 0 or profile.cpus_per_node >= needed,
        "cpus_per_node",
        profile.cpus_per_node,
        f"verl reserves {needed} CPUs of a node with {profile.gpus_per_node} GPU(s), and Ray would "
        f"wait for ever for what is missing; set at least {needed} in profile {profile.name}",
    )
    each = x.sampling.prompts * x.sampling.group_size // x.optim.mini_batches
    shared = tuning.sequence_parallel(tuning.chosen(x))
    ranks = gpus // shared
    require(
        each % ranks == 0 and profile.gpus_per_node % shared == 0,
        "sampling.prompts",
        x.sampling.prompts,
        f"{each} responses a mini-batch do not divide over {gpus} GPUs of profile {profile.name}; "
        f"make prompts x group_size / mini_batches a multiple of {ranks}, or let more GPUs share "
        f"a sequence: verl.{tuning.SEQUENCE}",
    )


def _check_time(x: Experiment, profile: Profile, a: Assumptions, least: Training) -> None:
    """An attempt must reach a checkpoint, or no attempt ever gets further."""
    if x.optim.steps == 0:
        return
    points = math.ceil(x.optim.steps / x.eval.every)
    needed = a.start_s[_kind(profile)] + least.curve_s / points
    needed += min(x.checkpoint_every, x.optim.steps) * least.steps_s / x.optim.steps
    require(
        needed < 60 * profile.time_min,
        "checkpoint_every",
        x.checkpoint_every,
        f"so many steps and an evaluation take {needed / 60:,.0f} minutes at least, and an attempt "
        f"on profile {profile.name} ends after {profile.time_min}; lower it, or raise time_min",
    )


def _check_main_memory(x: Experiment, profile: Profile, a: Assumptions, most: Training) -> None:
    """verl's TransferQueue holds a rollout, and an evaluation, whole, in main memory."""
    if not backend(x.backend).needs_gpu:
        return
    problems = sum(stated(node) or a.benchmark_problems for node in x.data.benchmarks.values())
    draws = problems * (
        x.eval.n + max(0, math.ceil(x.optim.steps / x.eval.every) - 1) * x.eval.curve_n
    )
    largest = most.evaluated / max(1, draws) * problems * max(x.eval.n, x.eval.curve_n)
    held = a.queue_bytes_per_token * max(largest, most.rollout / max(1, x.optim.steps)) / 1e9
    room = profile.nodes * profile.memory_gb
    require(
        held < 0.5 * room,
        "eval.n",
        x.eval.n,
        f"an evaluation or a rollout takes about {held:,.0f} GB of main memory, and profile "
        f"{profile.name} has {room:,} GB for everything; lower eval.n, eval.curve_n or "
        "sampling.prompts, or raise memory_gb",
    )


def _check_engine(e: Evaluate, size: Size, gpus: int, profile: Profile, a: Assumptions) -> None:
    """One vLLM is first compared with the trainer's model, in float32 in main memory."""
    if e.engine != "vllm":
        return
    held, share = 4 * size.parameters / 1e9, gpus / max(1, profile.gpus_per_node)
    require(
        held <= a.usable_memory * share * profile.memory_gb,
        "memory_gb",
        profile.memory_gb,
        f"{e.model.name} takes {held:.0f} GB of main memory to be compared with vLLM's, and "
        f"{gpus} GPU(s) have {share * profile.memory_gb:.0f} of it on profile {profile.name}; "
        "raise it, or tensor_parallel",
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
