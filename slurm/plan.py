"""The jobs of experiments. In this diagram each arrow points to the jobs that wait:

model, command -> rates, evaluate -> gate -> train
train -> evaluate (trained model x benchmark) -> score
train -> measure
all -> compare
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from common.backends.solve_rates import measurements
from common.evaluation.checkpoints import UNTRAINED
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.sweeps.gates import Gated
from common.sweeps.measures import Measure
from common.sweeps.plan import Command

Kind = Literal[
    "model", "command", "rates", "gate", "train", "evaluate", "score", "measure", "compare"
]
LIGHT = ("model", "measure", "gate", "compare")  # kinds that need no GPU
WHOLE = ("command", "train")  # kinds that can take all nodes and GPUs of the profile
EVALUATED = ("evaluate", "score")  # kinds that give the results of a row's model
SAMPLED = ("rates", *EVALUATED)  # kinds that run an Evaluate
MOST = 1000  # elements of an array: SLURM's MaxArraySize is 1001 unless raised


@dataclass(frozen=True)
class Job:
    """One job. The jobs in `needs` must have succeeded before it starts. The jobs in `follows` must
    have ended, with or without success."""

    kind: Kind
    key: str  # the run id of a training, an evaluation or a pass for solve rates; unique
    # Experiment (kinds train and model), Evaluate (SAMPLED), Command, Measure, Gate, or None
    config: Any
    needs: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    of: Any = None  # for a job that samples or measures: the Experiment of its model


def plan(
    experiments: list[Experiment],
    evaluations: list[Evaluate],
    commands: Mapping[str, Command] | None = None,
    measures: Sequence[Measure] = (),
    gates: Sequence[Gated] = (),
) -> list[Job]:
    """Return the jobs of these experiments, each after the jobs that it waits for.

    A model that is pretrained here, or that one of the paper's `commands` makes, is made once,
    before all jobs that start from it. The solve rates that choose training prompts are measured
    once too. An evaluation waits for the training of its model, for the training of its baseline
    (whose curve limits which checkpoint is chosen), and for the samples that it scores. An
    evaluation of an untrained model waits for the job that makes the model, if there is one. A
    measure waits for the training whose models it reads. A training waits for the gates of its
    start model, and a gate waits for the evaluations that it reads. The comparison waits until all
    jobs have ended, not until they succeed, because it must show what failed.
    """
    first: dict[str, Job] = {}
    jobs: list[Job] = []
    makers = {one.makes: name for name, one in (commands or {}).items()}
    untrained = {e.row.trained for e in evaluations if e.row.checkpoint == UNTRAINED}
    known = {x.run_id: x for x in experiments}

    def made_by(x: Experiment) -> tuple[str, ...]:
        if x.model.pretrain is not None:
            key = f"model-{_model_id(x)}"
            first.setdefault(key, Job("model", key, x))
            return (key,)
        if x.model.path not in makers or commands is None:
            return ()
        key = makers[x.model.path]
        first.setdefault(key, Job("command", key, commands[key]))
        return (key,)

    def passed(one: Gated) -> str:
        start, key = made_by(one.of), one.gate.path.name
        read: list[tuple[Kind, Any]] = [("rates", one.samples)]
        read += [("evaluate", e) for e in one.evaluations]
        for kind, e in read:
            first.setdefault(e.path.name, Job(kind, e.path.name, e, start, of=one.of))
        first.setdefault(key, Job("gate", key, one.gate, tuple(e.path.name for _, e in read)))
        return key

    for x in experiments:
        if x.run_id in untrained:
            continue
        needs = start = made_by(x)
        for rates in measurements(x):
            key = rates.path.name
            first.setdefault(key, Job("rates", key, rates, start, of=x))
            needs = (*needs, key)
        needs += tuple(passed(one) for one in gates if x.name in one.rows)
        jobs.append(Job("train", x.run_id, x, needs))
    for e in (e for e in evaluations if e.path.name not in first):
        needs = tuple(key for key in (e.row.trained, e.row.baseline) if key is not None)
        if e.row.trained in untrained:
            needs = made_by(known[e.row.trained])
        kind: Kind = "score" if e.scores else "evaluate"
        needs = (*needs, e.scores) if e.scores else needs
        jobs.append(Job(kind, e.path.name, e, needs, of=known.get(e.row.trained)))
    for one in measures:
        of = known[one.row.trained]
        jobs.append(Job("measure", one.path.name, one, (one.row.trained,), of=of))
    ends = tuple(job.key for job in jobs)
    return [*first.values(), *jobs, Job("compare", "compare", None, follows=ends)]


def narrowed(
    experiments: list[Experiment], evaluations: list[Evaluate], rows: set[str]
) -> tuple[list[Experiment], list[Evaluate]]:
    """Return the runs with the ids `rows` and their evaluations, with what these wait for: the
    trainings of their baselines, and the base model's samples that they score."""
    bases = {e.scores for e in evaluations if e.row.trained in rows}
    kept = [e for e in evaluations if e.row.trained in rows or e.path.name in bases]
    needed = rows | {key for e in kept for key in (e.row.trained, e.row.baseline)}
    return [x for x in experiments if x.run_id in needed], kept


def missing(jobs: list[Job], done: set[str], queued: set[str]) -> list[Job]:
    """Return the jobs to submit: every training, measure and evaluation that is neither `done` nor
    `queued`, with the unfinished jobs that these need. The comparison is added if there is any such
    job, or if it is not done itself."""
    lacking = [job for job in jobs if job.key not in done | queued]
    wanted = {j.key for j in lacking if j.kind in ("train", "measure", *EVALUATED)}
    while more := {key for j in lacking if j.key in wanted for key in j.needs} - wanted:
        wanted |= more
    runs = [j for j in lacking if j.key in wanted]
    compare = [j for j in jobs if j.kind == "compare" and (runs or j in lacking)]
    return runs + compare


def arrays(jobs: list[Job], gpus: dict[str, int] | None = None) -> list[list[Job]]:
    """Group jobs into arrays that can be submitted together: equal kind, `gpus` (by key, where
    known) and dependencies, at most `MOST` jobs each, in order.

    The evaluations of each training job are an array of their own. They start when that training
    ends, whatever the other jobs in its array do.
    """
    groups: dict[tuple, list[Job]] = {}
    for job in jobs:
        like = (job.kind, (gpus or {}).get(job.key), job.needs, job.follows)
        groups.setdefault(like, []).append(job)
    return [group[i : i + MOST] for group in groups.values() for i in range(0, len(group), MOST)]


def _model_id(x: Experiment) -> str:
    from common.models.store import identity  # imports torch: only where there is a model to make

    return identity(x.model)
