"""From experiments to jobs:

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
WHOLE = ("command", "train")  # kinds that take all nodes and GPUs of the profile
EVALUATED = ("evaluate", "score")  # kinds that fill a row of a trained model
SAMPLED = ("rates", *EVALUATED)  # kinds that run an Evaluate
MOST = 1000  # elements of an array: SLURM's MaxArraySize is 1001 unless raised (submitit trap 11)


@dataclass(frozen=True)
class Job:
    """One job. `needs` must have succeeded; `follows` must have ended, however."""

    kind: Kind
    key: str  # the run id of a training, an evaluation or a pass for solve rates; unique
    # Experiment of a training or a model, Evaluate of what samples, Command, Measure, Gate, or None
    config: Any
    needs: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    of: Any = None  # of what samples or measures the Experiment whose model it is


def plan(
    experiments: list[Experiment],
    evaluations: list[Evaluate],
    commands: Mapping[str, Command] | None = None,
    measures: Sequence[Measure] = (),
    gates: Sequence[Gated] = (),
) -> list[Job]:
    """The jobs of these experiments, each after those that it waits for.

    A model that is pretrained here, or that one of the paper's `commands` makes, is made once,
    before all that start from it; and so are the solve rates that choose training prompts. An
    evaluation waits for the training of its model, for its baseline's, whose curve limits what is
    chosen, and for the samples that it scores; that of a model which is not trained waits for what
    makes it, if anything does. A measure waits for the training whose models it reads. A
    training waits for the gates of its start model, and they for what they read. The comparison
    waits for all to end, not to succeed: what failed must be seen in it.
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
    """The runs of these ids with their evaluations, and what those wait for: the trainings of
    their baselines, and the base model's samples that they score."""
    bases = {e.scores for e in evaluations if e.row.trained in rows}
    kept = [e for e in evaluations if e.row.trained in rows or e.path.name in bases]
    needed = rows | {key for e in kept for key in (e.row.trained, e.row.baseline)}
    return [x for x in experiments if x.run_id in needed], kept


def missing(jobs: list[Job], done: set[str], queued: set[str]) -> list[Job]:
    """The jobs that neither are done nor wait or run. The comparison is wanted whenever another
    job is, or when it does not stand yet."""
    lacking = [job for job in jobs if job.key not in done | queued]
    wanted = {j.key for j in lacking if j.kind in ("train", "measure", *EVALUATED)}
    while more := {key for j in lacking if j.key in wanted for key in j.needs} - wanted:
        wanted |= more
    runs = [j for j in lacking if j.key in wanted]
    compare = [j for j in jobs if j.kind == "compare" and (runs or j in lacking)]
    return runs + compare


def arrays(jobs: list[Job], gpus: dict[str, int] | None = None) -> list[list[Job]]:
    """Jobs that can be submitted together: equal kind, `gpus` (by key, where it is known) and
    dependencies, at most `MOST`, in order.

    The evaluations of one training job are an array of their own: they start when that job ends,
    whatever the others of its array do.
    """
    groups: dict[tuple, list[Job]] = {}
    for job in jobs:
        like = (job.kind, (gpus or {}).get(job.key), job.needs, job.follows)
        groups.setdefault(like, []).append(job)
    return [group[i : i + MOST] for group in groups.values() for i in range(0, len(group), MOST)]


def _model_id(x: Experiment) -> str:
    from common.models.store import identity  # torch: only where there is a model to make

    return identity(x.model)
