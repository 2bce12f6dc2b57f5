"""The jobs of experiments. Arrows point to the jobs that wait:

model, command -> rates, evaluate -> gate -> train train -> evaluate (a trained model on all its
benchmarks) -> score train -> measure all -> compare
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from common.backends.solve_rates import measurements
from common.evaluation.checkpoints import UNTRAINED
from common.evaluation.config import Evaluate, Suite, run_name
from common.experiment import Experiment
from common.models.store import identity
from common.sweeps.cost import Estimate, Range
from common.sweeps.gates import Gated
from common.sweeps.measures import Measure
from common.sweeps.plan import Command
from common.sweeps.profiles import Profile

Kind = Literal[
    "model", "command", "rates", "gate", "train", "evaluate", "score", "measure", "compare"
]
LIGHT = ("model", "measure", "gate", "compare")  # kinds that need no GPU
WHOLE = ("command", "train")  # kinds that can take all nodes and GPUs of the profile
EVALUATED = ("evaluate", "score")  # kinds that give the results of a row's model
SAMPLED = ("rates", *EVALUATED)  # kinds that run a Suite
MOST = 1000  # elements of an array: SLURM's MaxArraySize is 1001 unless raised


@dataclass(frozen=True)
class Job:
    """A job starts when the jobs that make the runs in `needs` have succeeded, and the jobs in
    `follows` have ended, with or without success."""

    kind: Kind
    key: str  # unique; the run id of a training
    # Experiment (kinds train and model), Suite (SAMPLED), Command, Measure, Gate, or None
    config: Any
    needs: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    of: Any = None  # for a job that samples or measures: the Experiment of its model
    makes: tuple[str, ...] = ()  # names of its runs; by default its Suite's, or its key
    cost: Estimate | None = None  # by slurm/cost.py; other kinds, such as a comparison, have none
    refused: str = ""  # why it cannot run on the profile, with the key to change

    def __post_init__(self):
        if not self.makes:
            own = self.config.names if isinstance(self.config, Suite) else (self.key,)
            object.__setattr__(self, "makes", own)

    @property
    def gpus(self) -> int | None:
        return self.cost.gpus if self.cost else None


def experiment(job: Job) -> Experiment | None:
    return job.config if job.kind == "train" else job.of


def row_of(job: Job) -> str:
    found = experiment(job)
    return found.name if found else job.key


def ask(profile: Profile, job: Job) -> Profile:
    """Return the profile with what a job takes of it. A command of the paper, or a training on all
    GPUs of the profile, takes whole nodes; so would one that cannot run."""
    if job.kind in LIGHT:
        # at most half of the time limit: a signal in the first minute would requeue it for ever
        lead = min(profile.signal_lead_s, 30 * profile.light_time_min)
        light = dict(cpus_per_node=profile.light_cpus, memory_gb=profile.light_memory_gb)
        light |= dict(time_min=profile.light_time_min, signal_lead_s=lead)
        return replace(profile, nodes=1, gpus_per_node=0, small=None, **light)
    gpus = max(1, profile.gpus) if job.gpus is None else job.gpus
    return profile if job.kind in WHOLE and gpus >= profile.gpus else profile.share(gpus)


def plan(
    experiments: list[Experiment],
    evaluations: Sequence[Evaluate],
    commands: Mapping[str, Command] | None = None,
    measures: Sequence[Measure] = (),
    gates: Sequence[Gated] = (),
) -> list[Job]:
    """Return the jobs of these experiments, each after the jobs that it waits for.

    Each model that is pretrained here or made by one of the paper's `commands` is made once, and so
    are the solve rates that choose training prompts. One job evaluates a model on all its
    benchmarks, and one scores all its samples. They wait for its training, for its baselines (whose
    curves limit which checkpoint is chosen), and for the samples that are scored. A training waits
    for the gates of its start model, and a gate for the evaluations that it reads. The comparison
    waits until all jobs have ended, not until they succeed, because it must show what failed.
    """
    first: dict[str, Job] = {}
    jobs: list[Job] = []
    makers = {one.makes: name for name, one in (commands or {}).items()}
    untrained = {e.row.trained for e in evaluations if e.row.checkpoint == UNTRAINED}
    known = {x.run_id: x for x in [*(one.of for one in gates), *experiments]}
    trained = [x for x in experiments if x.run_id not in untrained]
    waited = [one for one in gates if one.rows.intersection(x.name for x in trained)]
    read = {e.path.name: e for one in waited for e in one.evaluations}

    def made_by(x: Experiment) -> tuple[str, ...]:
        if x.model.pretrain is not None:
            key = f"model-{identity(x.model)}"
            first.setdefault(key, Job("model", key, x))
            return (key,)
        if x.model.path not in makers or commands is None:
            return ()
        key = makers[x.model.path]
        first.setdefault(key, Job("command", key, commands[key]))
        return (key,)

    def suites(some: Iterable[Evaluate]) -> Iterator[Job]:
        groups: dict[tuple[Kind, str], list[Evaluate]] = {}
        for e in some:
            groups.setdefault(("score" if e.scores else "evaluate", e.row.trained), []).append(e)
        for (kind, trained), own in groups.items():
            config, needs = Suite(own), dict[str | None, None]()
            for e in own:
                start = e.row.checkpoint == UNTRAINED
                waits = made_by(known[trained]) if start else (e.row.trained, e.row.baseline)
                needs |= dict.fromkeys((*waits, e.scores))
            key = run_name(f"{trained}-{kind}", {"runs": config.names})
            yield Job(kind, key, config, tuple(filter(None, needs)), of=known[trained])

    def rated(e: Evaluate, of: Experiment) -> str:
        key = e.path.name
        first.setdefault(key, Job("rates", key, Suite([e]), made_by(of), of=of))
        return key

    def passed(one: Gated) -> str:
        needs = (rated(one.samples, one.of), *(e.path.name for e in one.evaluations))
        key = one.gate.path.name
        first.setdefault(key, Job("gate", key, one.gate, needs))
        return key

    first |= {job.key: job for job in suites(read.values())}
    for x in trained:
        needs = (*made_by(x), *(rated(e, x) for e in measurements(x)))
        needs += tuple(passed(one) for one in gates if x.name in one.rows)
        jobs.append(Job("train", x.run_id, x, needs))
    jobs += suites(e for e in evaluations if e.path.name not in read)
    for one in measures:
        of = known[one.row.trained]
        jobs.append(Job("measure", one.path.name, one, (one.row.trained,), of=of))
    ends = tuple(job.key for job in jobs)
    return [*first.values(), *jobs, Job("compare", "compare", None, follows=ends)]


def narrowed(
    experiments: list[Experiment], evaluations: list[Evaluate], rows: set[str]
) -> tuple[list[Experiment], list[Evaluate]]:
    bases = {e.scores for e in evaluations if e.row.trained in rows}
    kept = [e for e in evaluations if e.row.trained in rows or e.path.name in bases]
    needed = rows | {key for e in kept for key in (e.row.trained, e.row.baseline)}
    return [x for x in experiments if x.run_id in needed], kept


def missing(jobs: list[Job], done: set[str], queued: set[str]) -> list[Job]:
    """Return the jobs to submit: every training, measure and evaluation with a run that is neither
    `done` nor `queued`, the unfinished jobs that these need, and the comparison if there is any
    such job or it is not done."""
    lacking = [job for job in (_left(job, done | queued) for job in jobs) if job is not None]
    heavy = ("train", "measure", *EVALUATED)
    wanted = {name for job in lacking if job.kind in heavy for name in job.makes}
    needs = {name: job.needs for job in lacking for name in job.makes}
    while more := {name for one in wanted for name in needs.get(one, ())} - wanted:
        wanted |= more
    runs = [job for job in lacking if not wanted.isdisjoint(job.makes)]
    compare = [job for job in jobs if job.kind == "compare" and (runs or job in lacking)]
    return runs + compare


def _left(job: Job, there: set[str]) -> Job | None:
    """Return the job without the runs that are `there`; None if it makes no other."""
    if job.kind not in SAMPLED:
        return None if job.key in there else job
    some = [e for e in job.config.evaluations if e.path.name not in there]
    return replace(job, config=Suite(some), makes=()) if some else None


def capped(jobs: list[Job], gpus: int) -> list[Job]:
    """Return the jobs, each after what it waits for, with the jobs that it must also follow so that
    at most `gpus` GPUs are in use at once, whatever each job takes: the last ones of the GPUs that
    are predicted to be free when it may start, or first."""
    last, ends = [(0.0, "")] * gpus, dict[str, float]()  # free from which hour, after which job
    left, found = [*jobs], list[Job]()
    while left:
        names = {name for job in left for name in (job.key, *job.makes)}
        free = [job for job in left if names.isdisjoint((*job.needs, *job.follows))]
        job = max(free, key=lambda one: len(one.needs))  # the first of those with most
        left.remove(job)
        end = max((ends.get(name, 0.0) for name in (*job.needs, *job.follows)), default=0.0)
        count, hours = (job.cost.gpus, job.cost.hours.high) if job.cost else (0, 0.0)
        last.sort(key=lambda place: (place[0] > end, abs(place[0] - end)))
        more = dict.fromkeys(key for _, key in last[:count] if key)
        found.append(replace(job, follows=(*job.follows, *more)))
        end = max(end, *(hour for hour, _ in last[:count]), 0.0) + hours
        last[:count] = [(end, job.key)] * count
        ends |= dict.fromkeys((job.key, *job.makes), end)
    return found


def makespan(jobs: list[Job]) -> Range:
    """Return the hours until all jobs have ended, if SLURM starts each as soon as it may."""

    def last_end(side: str) -> float:
        ends = {"": 0.0}
        for job in jobs:
            start = max(ends.get(name, 0.0) for name in ("", *job.needs, *job.follows))
            end = start + (getattr(job.cost.hours, side) if job.cost else 0.0)
            ends |= dict.fromkeys((job.key, *job.makes), end)
        return max(ends.values())

    return Range(last_end("low"), last_end("high"))


def arrays(jobs: list[Job]) -> list[list[Job]]:
    """Group jobs into arrays of equal kind, GPUs and dependencies, at most `MOST` jobs each, in
    order."""
    groups: dict[tuple, list[Job]] = {}
    for job in jobs:
        like = (job.kind, job.gpus, job.needs, job.follows)
        groups.setdefault(like, []).append(job)
    return [group[i : i + MOST] for group in groups.values() for i in range(0, len(group), MOST)]
