"""The predicted cost of a plan's jobs, by common/sweeps/cost.py, and the jobs that cannot run on a
profile."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from common.config.resolve import import_target
from common.errors import UserError
from common.evaluation.config import Suite
from common.sweeps.assumptions import assumptions
from common.sweeps.cost import Estimate, estimate, estimate_evaluations, estimate_scoring
from common.sweeps.profiles import Profile
from slurm.ask import ask
from slurm.plan import SAMPLED, Job, experiment

ASKED = 1000  # predicted GPU-hours above which `submit` wants yes=true


class Outlook(NamedTuple):
    """The jobs of a plan, by key, that have an estimate, and those that cannot run. Other jobs,
    such as a comparison, are in neither dictionary."""

    estimates: dict[str, Estimate]
    refused: dict[str, str]  # why the job cannot run on the profile, with the key to change


def outlook(jobs: list[Job], profile: Profile) -> Outlook:
    """Estimate each job, or find why it cannot run; one that needs a refused job cannot."""
    a = assumptions()
    maker = {name: job.key for job in jobs for name in job.makes}
    found: dict[str, Estimate] = {}
    refused: dict[str, str] = {}
    for job in jobs:
        try:
            waits = (maker.get(name) for name in job.needs)
            lost = next((key for key in waits if key in refused), None)
            if lost is not None:
                raise UserError(f"it waits for {lost}, which cannot run")
            if job.kind == "train":
                found[job.key] = estimate(job.config, profile, a)
            elif job.kind in ("command", "measure"):
                takes = import_target(job.config.takes, f"{job.kind}s.{job.key}.takes")
                of = () if job.kind == "command" else (job.config, job.of)
                found[job.key] = takes(*of, profile)
            elif job.kind in SAMPLED:
                of = estimate_scoring if job.kind == "score" else estimate_evaluations
                found[job.key] = of(job.config.evaluations, job.of, profile, a)
        except UserError as error:
            refused[job.key] = str(error)
    return Outlook(found, refused)


def predictions(jobs: list[Job], profile: Profile) -> dict[str, Estimate]:
    """Return the estimates of the jobs, by key. Raises UserError if a job cannot run on the
    profile, with the argument that leaves out all rows that cannot."""
    seen = outlook(jobs, profile)
    for key, reason in seen.refused.items():
        more = f"; so are {len(seen.refused) - 1} more" if len(seen.refused) > 1 else ""
        raise UserError(
            f"{reason} ({key} is refused on profile {profile.name}{more}); nothing was submitted; "
            f"{leaves_out(jobs, seen)} sends the other rows"
        )
    return seen.estimates


def disk_gb(estimates: Iterable[Estimate], profile: Profile) -> float:
    """Return the GB that jobs store for good, and the most that those at once hold besides."""
    every, gpus = [*estimates], profile.most_gpus
    needed = sum(e.disk_gb for e in every)
    for e in sorted(every, key=lambda e: -e.passing_gb / max(1, e.gpus)):
        if e.passing_gb and e.gpus <= gpus:
            needed, gpus = needed + e.passing_gb, gpus - e.gpus
    return needed


def leaves_out(jobs: list[Job], seen: Outlook) -> str:
    """Return the argument of `submit` that leaves out every row with a job that cannot run."""
    lost = (experiment(job) for job in jobs if job.key in seen.refused)
    return f"without={','.join(dict.fromkeys(x.name for x in lost if x is not None))}"


def fitted(job: Job, estimates: dict[str, Estimate], profile: Profile) -> Any:
    """Return the job's configuration. Evaluations get the GPUs of an engine, and a process that
    verifies for each CPU of the job but one."""
    if job.kind not in SAMPLED:
        return job.config
    e = estimates[job.key]
    workers = max(1, ask(profile, job.kind, e.gpus).cpus_per_node - 1)
    given = {"tensor_parallel": e.tensor_parallel, "workers": workers}
    return Suite([replace(one, **given) for one in job.config.evaluations])
