"""The predicted cost of a plan's jobs, by common/sweeps/cost.py, and the jobs that cannot run on a
profile."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from common.config.resolve import import_target
from common.errors import UserError
from common.evaluation.config import Suite
from common.sweeps.assumptions import Assumptions, assumptions
from common.sweeps.cost import Estimate, estimate, estimate_evaluations, estimate_scoring
from common.sweeps.profiles import Profile
from slurm.plan import SAMPLED, Job, ask, experiment

ASKED = 1000  # predicted GPU-hours above which `submit` wants yes=true


def outlook(jobs: list[Job], profile: Profile) -> list[Job]:
    """Return the jobs, each with its estimate or with the reason why it cannot run on the profile;
    one that needs a refused job cannot."""
    a = assumptions()
    maker = {name: job.key for job in jobs for name in job.makes}
    found: dict[str, Job] = {}
    refused: set[str] = set()
    for job in jobs:
        try:
            waits = (maker.get(name) for name in job.needs)
            lost = next((key for key in waits if key in refused), None)
            if lost is not None:
                raise UserError(f"it waits for {lost}, which cannot run")
            found[job.key] = replace(job, cost=_estimate(job, profile, a))
        except UserError as error:
            found[job.key] = replace(job, refused=str(error))
            refused.add(job.key)
    return [*found.values()]


def _estimate(job: Job, profile: Profile, a: Assumptions) -> Estimate | None:
    if job.kind == "train":
        return estimate(job.config, profile, a)
    if job.kind in ("command", "measure"):
        takes = import_target(job.config.takes, f"{job.kind}s.{job.key}.takes")
        return takes(*(() if job.kind == "command" else (job.config, job.of)), profile)
    if job.kind in SAMPLED:
        of = estimate_scoring if job.kind == "score" else estimate_evaluations
        return of(job.config.evaluations, job.of, profile, a)
    return None


def predictions(jobs: list[Job], profile: Profile) -> list[Job]:
    """Return the jobs with their estimates. Raises UserError if one cannot run on the profile, with
    the argument that leaves out all rows that cannot."""
    seen = outlook(jobs, profile)
    for job in (job for job in seen if job.refused):
        others = sum(one.refused != "" for one in seen) - 1
        more = f"; so are {others} more" if others else ""
        raise UserError(
            f"{job.refused} ({job.key} is refused on profile {profile.name}{more}); nothing was "
            f"submitted; {leaves_out(seen)} sends the other rows"
        )
    return seen


def disk_gb(jobs: Iterable[Job], profile: Profile) -> float:
    """Return the GB that jobs store for good, and the most that those at once hold besides."""
    every, gpus = [job.cost for job in jobs if job.cost], profile.most_gpus
    needed = sum(e.disk_gb for e in every)
    for e in sorted(every, key=lambda e: -e.passing_gb / max(1, e.gpus)):
        if e.passing_gb and e.gpus <= gpus:
            needed, gpus = needed + e.passing_gb, gpus - e.gpus
    return needed


def leaves_out(jobs: list[Job]) -> str:
    """Return the argument of `submit` that leaves out every row with a job that cannot run."""
    lost = (experiment(job) for job in jobs if job.refused)
    return f"without={','.join(dict.fromkeys(x.name for x in lost if x is not None))}"


def fitted(job: Job, profile: Profile) -> Any:
    """Return the job's configuration. Evaluations get the GPUs of an engine, and a process that
    verifies for each CPU of the job but one."""
    if job.kind not in SAMPLED:
        return job.config
    workers = max(1, ask(profile, job).cpus_per_node - 1)
    given = {"tensor_parallel": job.cost.tensor_parallel, "workers": workers}
    return Suite([replace(one, **given) for one in job.config.evaluations])
