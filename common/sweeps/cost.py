"""Predicts what trainings, evaluations and scoring will take, from tokens, model size and
accelerator: no torch, no GPU, no network.

GPU-hours are tokens over tokens per second. Where a number is not known, configs/cost.yaml has a
span with its source, and the prediction is a range. At its low end responses are shorter, the
shares of the accelerator's speed are better and response lengths are exponential, so that the
longest of n has mean * ln(n) tokens. At its high end one response of each batch reaches the limit.
docs/speed.md compares the range with what others measured. What cannot run is refused (fits.py).

Left out: queueing time, the attention operations of training (they count from some 16,000 tokens
on), communication between GPUs, moving what is kept in main memory, saving checkpoints (their share
of the time is predicted next to the hours), a slow verifier.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import NormalDist

from common.backends import backend, saving, snapshots
from common.backends.verl import layout
from common.backends.verl.layout import HELD_BYTES, SPLIT
from common.backends.verl.tuning import STORE, sequence_parallel, tuned
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

CHUNKS = 8  # at least so many chunks of an evaluation for each engine


@dataclass(frozen=True)
class Range:
    low: float
    high: float

    def __str__(self) -> str:
        low, high = (
            f"{end:,.0f}" if end >= 1000 else f"{end:.3g}" for end in (self.low, self.high)
        )
        return low if low == high else f"{low} to {high}"

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> "Range":
        return Range(self.low * factor, self.high * factor)


def total(ranges: Iterable[Range]) -> Range:
    """Return the sum, each end by itself: all of them low, all of them high."""
    return sum(ranges, Range(0, 0))


@dataclass(frozen=True)
class Saves:
    """The checkpoints of a training: their size, the steps and minutes from one to the next, and
    the most of the time that saving takes."""

    gb: float
    steps: Range
    minutes: Range
    share: float

    def __str__(self) -> str:
        took = f"{self.minutes} minutes, at most {100 * self.share:.2g} % of the time"
        return f"saves {self.gb:.3g} GB every {self.steps} steps ({took})"


@dataclass(frozen=True)
class Estimate:
    """The predicted cost of one job, all its attempts together."""

    hours: Range  # wall clock
    gpus: int
    disk_gb: float  # at most
    memory_gb: float  # peak of the fullest accelerator
    attempts: int  # at most, under the profile's time limit
    tensor_parallel: int = 1  # GPUs that share one vLLM of an evaluation
    saves: Saves | None = None  # of a training

    @property
    def gpu_hours(self) -> Range:
        return self.hours * self.gpus


# ---- a training


def on(x: Experiment, profile: Profile, words: dict) -> Experiment:
    """Return `x` with verl's keys for memory and speed from the profile, from `x` itself and from
    the command line (`words`), where the later ones win, and with the width of its vLLM (`by_time`)
    where none is given. Raises UserError for any other key."""
    if x.backend != "verl":
        return x
    one = replace(x, verl=tuned(profile.verl) | tuned(x.verl) | tuned(words))
    fits = profile.nodes == 1 or STORE not in one.verl
    remedy = "a Ray cluster of several nodes is started by the job, before verl; drop the key"
    require(fits, f"verl.{STORE}", one.verl.get(STORE), remedy)
    try:
        return one if SPLIT in one.verl else by_time(one, profile, assumptions())
    except UserError:  # the size is unknown: `estimate` refuses this row with the key to change
        return one


def by_time(x: Experiment, profile: Profile, a: Assumptions) -> Experiment:
    """Return `x` with the number of GPUs that share one vLLM in training: of the numbers that are
    predicted to be no slower than the fewest GPUs at either end, the one with the least time. So
    where the two ends disagree, the fewest GPUs stay. Each GPU has whole heads of the cache.
    Raises UserError where the size of the model is not known."""
    models = model_sizes(x, a)
    profile = profile.of(models[0].parameters)
    gpus = max(1, profile.gpus)

    def seconds(one: Experiment) -> list[float]:
        ends = [_training(one, profile, a, models, gpus, end) for end in (0, 1)]
        return [end.steps_s + end.curve_s for end in ends]

    fewest = fits.laid_out(x, models, longest_prompt(x, a), profile, a).parallel
    best, least = fewest, seconds(x)
    for width in layout.splits(max(1, profile.gpus_per_node), models):
        if width > fewest:
            found = seconds(replace(x, verl=x.verl | {SPLIT: width}))
            if all(new <= old for new, old in zip(found, least, strict=True)):
                best, least = width, found
    return replace(x, verl=x.verl | {SPLIT: best})


def imbalance(responses: float, groups: int, limit: float) -> float:
    """Return how long the fullest of `groups` groups of GPUs trains on a mini-batch, over the mean.
    Each group has `responses` of it, of lengths between 0 and `limit` times their mean: a beta
    distribution of which the exponential one is the limit. verl balances whole rollouts, and so no
    mini-batch (verl 0.9.1, trainer_base.py). The expected largest of normal sums is Blom's."""
    spread = math.sqrt(max(0, limit - 1) / (limit + 1) / max(1, responses))
    fullest = NormalDist().inv_cdf((groups - 0.375) / (groups + 0.25))
    return min(max(1, limit), 1 + fullest * spread)


def estimate(x: Experiment, profile: Profile, a: Assumptions) -> Estimate:
    """Return the predicted cost of one training run. Raises UserError where it cannot run, with
    the key to change."""
    models = model_sizes(x, a)
    size = models[0]
    profile = profile.of(size.parameters)
    gpus = max(1, profile.gpus) if backend(x.backend).needs_gpu else 1
    prompt = longest_prompt(x, a)
    fits.check_layout(x, profile, size, prompt, gpus)
    memory = fits.peak_gb(x, models, prompt, profile, a)
    ends = [_training(x, profile, a, models, gpus, end) for end in (0, 1)]
    fits.check_time(x, profile, a, steps_s=ends[0].steps_s, curve_s=ends[0].curve_s)
    stored = ends[1].evaluated * a.samples_bytes_per_token + 2 * size.parameters
    # a checkpoint is kept until the next one is complete; older ones are deleted before that, in a
    # resumed run too, so the number of attempts does not matter
    checkpoint = HELD_BYTES * sum(one.parameters for one in models)
    stored += 2 * checkpoint + 2 * size.parameters * len(snapshots.steps(x))
    seconds = [end.steps_s + end.curve_s for end in ends]
    one = priced(seconds, gpus, stored, memory, profile, a)
    return replace(one, saves=saves(x, [end.steps_s for end in ends], checkpoint / 1e9, a))


def saves(x: Experiment, ends: list[float], gb: float, a: Assumptions) -> Saves | None:
    """Return how often a training of so many seconds (low, high) saves a checkpoint of `gb` GB: the
    rule of backends/saving.py for each end of the prediction on the slowest and the fastest disk.
    None where nothing is trained."""
    if x.optim.steps == 0:
        return None
    found = []
    for seconds, speed in product(ends, a.checkpoint_gb_s):
        step_s, save_s = seconds / x.optim.steps, gb / speed
        steps = min(x.checkpoint_every or saving.steps_between(step_s, save_s), x.optim.steps)
        found.append((steps, steps * step_s / 60, save_s / (steps * step_s + save_s)))
    steps, minutes, shares = zip(*found, strict=True)
    spans = (Range(min(steps), max(steps)), Range(min(minutes), max(minutes)))
    return Saves(gb, *spans, share=max(shares))


@dataclass(frozen=True)
class Training:
    """One end of the prediction for a training: the seconds of all its steps and of all its
    evaluations, and the tokens that the evaluations sample."""

    steps_s: float
    curve_s: float
    evaluated: float


def _training(
    x: Experiment, profile: Profile, a: Assumptions, models: list[Size], gpus: int, end: int
) -> Training:
    """Predict one end of a training: 0 is the low end, 1 the high end."""
    unit, prompts = accelerator(profile, a), a.prompts(x.data.name)
    mean = a.responses(x.model, x.data.name, x.sampling.max_tokens)[end]
    draws = (1 + (x.sampling.dynamic_batches - 1) / 2 * end) * x.optim.steps
    responses = x.sampling.prompts * x.sampling.group_size
    rollout = Workload(
        draws * responses,
        mean,
        prompts=draws * x.sampling.prompts,
        prompt=prompts.typical,
        limit=x.sampling.max_tokens,
        batches=draws,
    )
    width = 1
    if backend(x.backend).needs_gpu:
        width = fits.laid_out(x, models, longest_prompt(x, a), profile, a).parallel
    count = max(1, gpus // width)
    batch = max(1, min(a.decode_batch, responses / count))
    vllm = backend(x.backend).engine == "vllm"
    served = a.vllm if vllm and profile.accelerator != "cpu" else None
    engine, curve = Engine(unit, width, count, batch, layout.SHARE, served), [*_curve(x, a, end)]
    groups = max(1, gpus // sequence_parallel(tuned(x.verl)))
    each = responses / x.optim.mini_batches / groups
    update = 6 * imbalance(each, groups, x.sampling.max_tokens / mean)
    passes = 2 + 2 * (x.method.kl_coef > 0)  # old and reference log-probabilities
    # DLC's memory network is updated too
    work = passes * models[0].parameters + update * sum(one.parameters for one in models)
    trained = x.optim.steps * responses * (prompts.typical + mean)
    seconds = engine.sampling_s(rollout, models, end)
    seconds += trained * work / (gpus * unit.tflops * 1e12 * unit.compute_efficiency[1 - end])
    seconds += x.optim.steps * (a.step_overhead_s[end] if profile.accelerator != "cpu" else 0)
    # vLLM's joint model computes both networks even where mu = 0 samples only from the policy
    evaluates = models if vllm else models[:1]
    return Training(
        steps_s=seconds,
        curve_s=sum(engine.sampling_s(part, evaluates, end) for part in curve),
        evaluated=sum(part.responses * part.mean for part in curve),
    )


def priced(
    seconds: list[float],
    gpus: int,
    stored: float,
    memory: float,
    profile: Profile,
    a: Assumptions,
) -> Estimate:
    """Return the cost of a job that computes for `seconds` (low, high) on `gpus` GPUs, including
    the start-up time of all its attempts."""
    start = a.start(profile)
    limit = 60 * profile.time_min - profile.signal_lead_s - start
    tries = [max(1, math.ceil(one / max(1.0, limit))) for one in seconds]
    hours = [(one + n * start) / 3600 for one, n in zip(seconds, tries, strict=True)]
    return Estimate(
        hours=Range(*hours),
        gpus=gpus,
        disk_gb=stored / 1e9,
        memory_gb=memory,
        attempts=tries[1],
    )


def _curve(x: Experiment, a: Assumptions, end: int) -> Iterator[Workload]:
    """Yield, for each benchmark, what is sampled at the points of the training curve and, with all
    n samples, after the last step."""
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
    """Return the predicted cost of one job that evaluates a model that `trained` makes: one chunk
    of problems after another, of whichever benchmark, on as many engines as have enough chunks.
    They are loaded once for each checkpoint. Raises as `estimate`."""
    size, unit, name = model_size(trained, a), accelerator(profile, a), trained.model.name
    width = max(_width(e, size, unit, profile, a) for e in evaluations)
    memory = 2 * size.parameters / width / 1e9
    require(
        memory <= a.usable_memory * unit.memory_gb,
        "accelerator",
        profile.accelerator,
        f"the weights of {name} take {width * memory:.0f} GB, and an engine has {width} "
        f"GPU(s) of {unit.memory_gb:g} GB: choose a profile with more memory",
    )
    gpus = evaluation_gpus(evaluations, profile, a, width)
    busy, stored = [[0.0] * (gpus // width) for _ in range(2)], 0.0  # seconds of each engine
    for e in evaluations:
        prompts, sizes = a.prompts(e.eval.name, trained.data.name), e.sizes(a.benchmark_problems)
        fits.check_prompt(prompts.longest, size, name)
        vllm, batch = a.vllm if e.engine == "vllm" else None, min(a.decode_batch, e.per_chunk * e.n)
        engine = Engine(unit, width, 1, batch, a.usable_memory, vllm)
        means = a.responses(trained.model, e.eval.name, e.max_tokens)
        for end, mean in enumerate(means):
            for asked in sizes:
                one = Workload(asked * e.n, mean, asked, prompts.typical, e.max_tokens, batches=1)
                seconds = engine.sampling_s(one, [size], end)
                heapq.heapreplace(busy[end], busy[end][0] + seconds)  # of the first that is free
                if end == 0:
                    _check_chunk(e, a.start(profile) + seconds, profile)
        stored += sum(sizes) * e.n * means[1] * a.samples_bytes_per_token
    for _ in range(len({e.row and e.row.checkpoint for e in evaluations}) - 1):  # further loads
        for some in busy:
            heapq.heapreplace(some, some[0] + a.start(profile))
    ends = [max(some) for some in busy]
    return replace(priced(ends, gpus, stored, memory, profile, a), tensor_parallel=width)


def _check_chunk(e: Evaluate, least: float, profile: Profile) -> None:
    """Raise UserError if an attempt ends before the `least` seconds of its first chunk."""
    require(
        least < 60 * profile.time_min,
        "batch",
        e.batch,
        f"a chunk of so many samples takes {least / 60:,.0f} minutes at least, and an attempt on "
        f"profile {profile.name} ends after {profile.time_min}; lower it, or raise time_min",
    )


def _width(e: Evaluate, size: Size, unit: Accelerator, profile: Profile, a: Assumptions) -> int:
    """Return how many GPUs share one vLLM: the number that the evaluation states, else as few as
    training would take. Raises UserError for more than a node has."""
    if e.engine != "vllm":
        return 1
    node, share = max(1, profile.gpus_per_node), a.usable_memory * unit.memory_gb
    width = e.tensor_parallel or layout.fewest(size.parameters, node, share)
    remedy = f"a node of profile {profile.name} has {node} GPU(s); lower it"
    require(width <= node, "tensor_parallel", width, remedy)
    return width


def evaluation_gpus(
    evaluations: Sequence[Evaluate], profile: Profile, a: Assumptions, width: int = 1
) -> int:
    """Return how many GPUs of one node the evaluations of a model ask for: as many engines of
    `width` GPUs as have `CHUNKS` chunks each, so that few are idle in the last round. The local
    engine is one."""
    chunks = sum(len(e.sizes(a.benchmark_problems)) for e in evaluations)
    several = all(e.engine == "vllm" for e in evaluations)
    most = profile.gpus_per_node // width if several else 1
    return width * max(1, min(most, chunks // CHUNKS))


# ---- stored samples through a model


def estimate_scoring(
    evaluations: Sequence[Evaluate], trained: Experiment, profile: Profile, a: Assumptions
) -> Estimate:
    """Return the predicted cost of one job that scores the samples of a model's evaluations
    (evaluation/scoring.py): one forward pass in float32 on one GPU. For rare answers (Delta NLL),
    the base model and the trained model each score a share of the samples. Raises UserError where
    the weights, the keys and values of TOKENS tokens and three times LOGITS logits do not fit."""
    size, unit = model_size(trained, a), accelerator(profile, a)
    memory = 4 * size.parameters + 2 * TOKENS * layout.token_bytes(size) + 3 * 4 * LOGITS
    if profile.accelerator == "cpu":
        memory = 4 * size.parameters
    require(
        memory / 1e9 <= a.usable_memory * unit.memory_gb,
        "accelerator",
        profile.accelerator,
        f"{trained.model.name} in float32 takes {memory / 1e9:.0f} GB where samples are scored, "
        f"and one GPU has {unit.memory_gb:g}: choose a profile with more memory",
    )
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
