"""Predicts what trainings, evaluations and scoring will take, from tokens, model size and
accelerator: no torch, no GPU, no network.

GPU-hours are tokens over tokens per second (engines.py). What is not known is a span in
configs/cost.yaml, so the prediction is a range. At its low end responses are shorter, the shares of
the accelerator's speed are better and response lengths are exponential: the longest of n has
mean * ln(n) tokens. At its high end one response of each batch reaches the limit. `training_factor`
is verl's time measured over predicted; docs/speed.md compares the range with what others measured.

Left out: queueing time, restarts, the attention operations of training (they count from some 16,000
tokens on), communication between GPUs in training, moving what is in main memory, checkpoints.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from common.backends import backend, snapshots
from common.backends.verl import layout
from common.backends.verl.tuning import STORE, tuned
from common.datasets.prompts import stated
from common.errors import UserError, require
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.models.size import Size
from common.models.teacher_forcing import LOGITS, TOKENS
from common.sweeps import fits
from common.sweeps.assumptions import (
    Accelerator,
    Assumptions,
    accelerator,
    assumptions,
    longest_prompt,
    model_size,
    model_sizes,
)
from common.sweeps.engines import Engine, Workload
from common.sweeps.profiles import Profile

GAIN = 1.25  # a wider vLLM must be so many times faster; our choice
CHUNKS = 8  # at least so many chunks of an evaluation for each engine


@dataclass(frozen=True)
class Range:
    low: float
    high: float

    def __str__(self) -> str:
        """Return the ends with the digits that a prediction deserves: two, and 4.5k, 1.2M."""
        ends = [float(f"{end:.2g}") for end in (self.low, self.high)]
        units = [
            (1e6, "M") if end >= 1e6 else (1e3, "k") if end >= 1e3 else (1, "") for end in ends
        ]
        said = [f"{end / by:g}{unit}" for end, (by, unit) in zip(ends, units, strict=True)]
        return " to ".join(dict.fromkeys(said))

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> "Range":
        return Range(self.low * factor, self.high * factor)


def total(ranges: Iterable[Range]) -> Range:
    """Return the sum, each end by itself: all of them low, all of them high."""
    return sum(ranges, Range(0, 0))


@dataclass(frozen=True)
class Estimate:
    """The predicted cost of one job, all its attempts together."""

    hours: Range  # wall clock
    gpus: int
    disk_gb: float  # at most, for good
    memory_gb: float  # peak of the fullest accelerator
    tensor_parallel: int = 1  # GPUs that share one vLLM of an evaluation
    passing_gb: float = 0.0  # of disk while it runs: checkpoints
    step_s: Range | None = None  # of a step or, of an evaluation, of its longest chunk
    layout: str = ""  # of a training with verl on the GPUs

    @property
    def gpu_hours(self) -> Range:
        return self.hours * self.gpus


# ---- a training


def estimate(x: Experiment, profile: Profile, a: Assumptions) -> Estimate:
    """Return the predicted cost of a training. Raises UserError with the key to change."""
    models, prompt = model_sizes(x, a), longest_prompt(x, a)
    size = models[0]
    profile = profile.of(size.parameters)
    gpus = max(1, profile.gpus) if backend(x.backend).needs_gpu else 1
    fits.check_layout(x, profile, size, prompt)
    one = fits.laid_out(x, models, prompt, profile, a)
    width, memory = (one.parallel, one.peak_gb) if one else (1, 0.0)
    ends = [training_s(x, profile, a, models, gpus, width, end) for end in (0, 1)]
    fits.check_time(x, profile, a, *ends[0])
    stored = sum(one.responses * one.mean for one in _curve(x, a, 1)) * a.samples_bytes_per_token
    stored += 2 * size.parameters * (1 + len(snapshots.steps(x)))  # the last and the kept models
    found = priced([sum(end) for end in ends], gpus, stored, memory, profile, a)
    # a checkpoint is kept until the next one is complete
    passing = 2 * layout.HELD_BYTES * sum(one.parameters for one in models) / 1e9
    if x.optim.steps == 0:
        return replace(found, passing_gb=passing)
    steps = Range(*(end[0] / x.optim.steps for end in ends))
    return replace(found, passing_gb=passing, step_s=steps, layout=str(one or ""))


def on(x: Experiment, profile: Profile, words: dict) -> Experiment:
    """Return `x` with verl's keys for memory and speed from the profile, from `x` itself and from
    the command line (`words`), where the later ones win. Where none says how many GPUs share one
    vLLM in training, it is the fewest that hold the weights, or more where whole heads and the node
    allow it and each widening makes the training faster by a quarter (GAIN) at both ends of the
    prediction. Raises UserError for any other key."""
    if x.backend != "verl":
        return x
    x = replace(x, verl=tuned(profile.verl) | tuned(x.verl) | tuned(words))
    remedy = "a Ray cluster of several nodes is started by the job, before verl; drop the key"
    require(profile.nodes == 1 or STORE not in x.verl, f"verl.{STORE}", x.verl.get(STORE), remedy)
    a = assumptions()
    if layout.SPLIT in x.verl:
        return x
    try:
        models, prompt = model_sizes(x, a), longest_prompt(x, a)
        profile = profile.of(models[0].parameters)
        one = fits.laid_out(x, models, prompt, profile, a)
    except UserError:  # the row is refused with the key to change, by `estimate`
        return x

    def seconds(width: int) -> list[float]:
        rest = (x, profile, a, models, max(1, profile.gpus), width)
        return [sum(training_s(*rest, end)) for end in (0, 1)]

    best = one.parallel if one else 1
    least = seconds(best)
    for width in layout.whole_heads(models, max(1, profile.gpus_per_node)):
        found = seconds(width)
        gains = all(GAIN * new <= old for new, old in zip(found, least, strict=True))
        best, least = (width, found) if width > best and gains else (best, least)
    return replace(x, verl=x.verl | {layout.SPLIT: best})


def training_s(
    x: Experiment,
    profile: Profile,
    a: Assumptions,
    models: list[Size],
    gpus: int,
    width: int,
    end: int,
) -> tuple[float, float]:
    """Return the seconds of all steps and of all evaluations of a training on `gpus` GPUs, `width`
    of which share one vLLM, at the low (0) or the high (1) `end` of the prediction."""
    unit, prompt = accelerator(profile, a), a.prompts(x.data.name).typical
    mean = a.responses(x.model, x.data.name, x.sampling.max_tokens)[end]
    draws = (1 + (x.sampling.dynamic_batches - 1) / 2 * end) * x.optim.steps
    responses = x.sampling.prompts * x.sampling.group_size
    prompts, longest = draws * x.sampling.prompts, x.sampling.max_tokens
    rollout = Workload(draws * responses, mean, prompts, prompt, longest, batches=draws)
    count = max(1, gpus // width)
    batch = max(1, min(a.decode_batch, responses / count))
    vllm = backend(x.backend).engine == "vllm"
    served = a.vllm if vllm and profile.accelerator != "cpu" else None
    engine = Engine(unit, width, count, batch, layout.SHARE, served)
    passes = 2 + 2 * (x.method.kl_coef > 0)  # old and reference log-probabilities
    # the update takes three passes; DLC's memory network is updated too
    work = passes * models[0].parameters + 6 * sum(one.parameters for one in models)
    trained = x.optim.steps * responses * (prompt + mean)
    seconds = engine.sampling_s(rollout, models, end)
    seconds += trained * work / (gpus * unit.tflops * 1e12 * unit.compute_efficiency[1 - end])
    if profile.accelerator != "cpu":
        sent_gb = sum(2 * one.parameters for one in models) / 1e9
        rest = a.step_overhead_s[end] + (sent_gb / a.weights_gb_s[1 - end] if vllm else 0)
        seconds += x.optim.steps * rest
    cpus = profile.nodes * profile.cpus_per_node
    seconds += draws * responses * a.verdict(x.data.verifier)[end] / cpus
    # vLLM's joint model computes both networks even where mu = 0 samples only from the policy
    evaluates = models if vllm else models[:1]
    curve = sum(engine.sampling_s(part, evaluates, end) for part in _curve(x, a, end))
    factor = a.training_factor[end] if vllm else 1
    return seconds * factor, curve * factor


def priced(
    seconds: Sequence[float],
    gpus: int,
    stored: float,
    memory: float,
    profile: Profile,
    a: Assumptions,
) -> Estimate:
    """Return the cost of a job that computes for `seconds` (low, high) after its start, stores
    `stored` bytes and takes `memory` GB."""
    hours = [(one + a.start(profile)) / 3600 for one in seconds]
    return Estimate(Range(*hours), gpus, disk_gb=stored / 1e9, memory_gb=memory)


def _curve(x: Experiment, a: Assumptions, end: int) -> Iterator[Workload]:
    """Yield what is sampled of each benchmark at the points of the curve and after the end."""
    points = len(x.eval.curve(x.optim.steps))
    for key, node in x.data.benchmarks.items():
        name = node.get("name", key)  # which the tables may print otherwise
        asked = stated(node) or a.benchmark_problems
        mean = a.responses(x.model, name, x.eval.max_tokens)[end]
        share = 1 / len(x.data.benchmarks)  # all sets of a curve point are drawn together
        yield Workload(
            asked * (x.eval.n + points * x.eval.curve_n),
            mean,
            asked * (points + 1),
            a.prompts(name, x.data.name).typical,
            x.eval.max_tokens,
            batches=share * (points + 1),
        )


# ---- the evaluations of a model


def estimate_evaluations(
    evaluations: Sequence[Evaluate], trained: Experiment, profile: Profile, a: Assumptions
) -> Estimate:
    """Return the predicted cost of one job that evaluates a model that `trained` makes, loaded once
    for each checkpoint, on as many engines of one node as have CHUNKS chunks of problems each; the
    local engine is one."""
    size, unit, name = model_size(trained, a), accelerator(profile, a), trained.model.name
    width = max(_width(e, size, unit, profile, a) for e in evaluations)
    memory = 2 * size.parameters / width / 1e9
    remedy = f"the weights of {name} take {width * memory:.0f} GB, and an engine has {width} "
    remedy += f"GPU(s) of {unit.memory_gb:g} GB: choose a profile with more memory"
    require(memory <= a.usable_memory * unit.memory_gb, "accelerator", profile.accelerator, remedy)
    several = all(e.engine == "vllm" for e in evaluations)
    most = profile.gpus_per_node // width if several else 1
    chunks = sum(len(e.sizes(a.benchmark_problems)) for e in evaluations)
    engines = max(1, min(most, chunks // CHUNKS))
    further = len({e.row and e.row.checkpoint for e in evaluations}) - 1
    seconds, stored = [further * a.start(profile)] * 2, 0.0  # of all engines together
    chunk = Range(0, 0)
    for e in evaluations:
        prompts, sizes = a.prompts(e.eval.name, trained.data.name), e.sizes(a.benchmark_problems)
        fits.check_prompt(prompts.longest, size, name)
        vllm, batch = a.vllm if e.engine == "vllm" else None, min(a.decode_batch, e.per_chunk * e.n)
        engine = Engine(unit, width, 1, batch, a.usable_memory, vllm)
        means, asked = a.responses(trained.model, e.eval.name, e.max_tokens), sum(sizes)
        took = [
            engine.sampling_s(
                Workload(asked * e.n, mean, asked, prompts.typical, e.max_tokens, len(sizes)),
                [size],
                end,
            )
            for end, mean in enumerate(means)
        ]
        least = a.start(profile) + took[0] / len(sizes)
        remedy = f"a chunk of so many samples takes {least / 60:,.0f} minutes at least, and an "
        remedy += f"attempt on profile {profile.name} ends after {profile.time_min}; lower it, or "
        remedy += "raise time_min"
        require(least < 60 * profile.time_min, "batch", e.batch, remedy)
        seconds = [one + more for one, more in zip(seconds, took, strict=True)]
        chunk = max(chunk, Range(*took) * (sizes[0] / asked), key=lambda one: one.high)
        stored += asked * e.n * means[1] * a.samples_bytes_per_token
    ends = [one / engines for one in seconds]
    found = priced(ends, width * engines, stored, memory, profile, a)
    return replace(found, tensor_parallel=width, step_s=chunk)


def _width(e: Evaluate, size: Size, unit: Accelerator, profile: Profile, a: Assumptions) -> int:
    """Return how many GPUs share one vLLM: as the evaluation states, else the fewest that fit."""
    if e.engine != "vllm":
        return 1
    node, share = max(1, profile.gpus_per_node), a.usable_memory * unit.memory_gb
    width = e.tensor_parallel or layout.fewest(size.parameters, node, share)
    remedy = f"a node of profile {profile.name} has {node} GPU(s); lower it"
    require(width <= node, "tensor_parallel", width, remedy)
    return width


# ---- stored samples through a model


def estimate_scoring(
    evaluations: Sequence[Evaluate], trained: Experiment, profile: Profile, a: Assumptions
) -> Estimate:
    """Return the predicted cost of one job that scores the samples of a model's evaluations
    (evaluation/scoring.py): one forward pass in float32 on one GPU, by two models for rare answers
    (Delta NLL). Weights, keys and values of TOKENS tokens and three copies of LOGITS logits fit."""
    size, unit = model_size(trained, a), accelerator(profile, a)
    memory = 4 * size.parameters + 2 * TOKENS * layout.token_bytes(size) + 3 * 4 * LOGITS
    if profile.accelerator == "cpu":
        memory = 4 * size.parameters
    remedy = f"{trained.model.name} in float32 takes {memory / 1e9:.0f} GB where samples are "
    remedy += f"scored, and one GPU has {unit.memory_gb:g}: choose a profile with more memory"
    fits = memory / 1e9 <= a.usable_memory * unit.memory_gb
    require(fits, "accelerator", profile.accelerator, remedy)
    tokens, stored = [0.0, 0.0], 0.0
    for e in evaluations:
        share, models = (e.eval.rare_share, 2) if e.eval.rare_share else (1, 1)
        scored = share * sum(e.sizes(a.benchmark_problems)) * e.n
        prompt = a.prompts(e.eval.name, trained.data.name).typical
        means = a.responses(trained.model, e.eval.name, e.max_tokens)
        for end, mean in enumerate(means):
            tokens[end] += models * scored * (prompt + mean)
        stored += scored * a.scored_bytes
    rates = [unit.float32_tflops * 1e12 * a.scoring_efficiency[1 - end] for end in (0, 1)]
    again = (len({e.row.checkpoint for e in evaluations}) - 1) * a.start(profile)
    seconds = [2 * size.parameters * tokens[end] / rates[end] + again for end in (0, 1)]
    return priced(seconds, 1, stored, memory / 1e9, profile, a)
