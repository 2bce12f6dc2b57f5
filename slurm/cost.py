"""What a plan's jobs will take, by common/sweeps/cost.py."""

from dataclasses import asdict

from common.sweeps.cost import Estimate, assumptions, estimate, estimate_evaluation, model_size
from common.sweeps.profiles import Profile
from slurm.plan import Job


def predictions(jobs: list[Job], profile: Profile) -> dict[str, Estimate]:
    """The estimate of every train and evaluate job, by key."""
    a = assumptions()
    trained = {job.key: job.config for job in jobs if job.kind == "train"}
    found = {key: estimate(x, profile, a) for key, x in trained.items()}
    for job in jobs:
        if job.kind == "evaluate":
            size = model_size(trained[job.config.row.trained], a)
            found[job.key] = estimate_evaluation(job.config, profile, a, size)
    return found


def total(estimates: list[Estimate]) -> dict[str, float]:
    """Sums of a list of estimates."""
    rows = [asdict(e) for e in estimates]
    return {key: sum(row[key] for row in rows) for key in ("gpu_hours", "usd", "disk_gb", "tokens")}
