"""Submit the missing jobs of a plan: check all that can be known, freeze code and configurations,
then send the arrays in order."""

import math
import os
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from common.errors import UserError, require
from common.results.files import write_json
from common.sweeps.cost import total
from common.sweeps.profiles import Profile
from slurm import cost, plan, queue, records, status
from slurm.environment import shell
from slurm.job import Task
from slurm.preflight import check, preflight, refused
from slurm.script import REFUSED, dependency, executor, outside_jobs, parameters
from slurm.tables import Chosen


def submit(
    found: Chosen,
    *,
    paper: str,
    profile: Profile,
    root: Path,
    disk_gb: float = math.inf,
    yes: bool = False,
) -> Path | None:
    """Submit the jobs that are missing, if any, and return the submission's folder. Raises
    UserError before that if a request is impossible, if `sbatch --test-only` refuses it, or if more
    than cost.ASKED GPU-hours are predicted without `yes`."""
    jobs = found.jobs()
    check(found, profile)
    if profile.executor == "local":
        visible_gpus(profile)
    cost.predictions(jobs, profile)  # before a job is submitted, all must be able to run
    todo, queued = _missing(jobs, root, paper)
    if not todo:
        return None
    todo = cost.predictions(todo, profile)
    hours = total(job.cost.gpu_hours for job in todo if job.cost)
    print(f"they take {hours} GPU-hours")
    remedy = f"{hours} GPU-hours are predicted, above {cost.ASKED:,}: add yes=true to submit them"
    require(yes or hours.high <= cost.ASKED, "yes", "false", remedy)
    preflight(todo, profile, root, disk_gb)
    path = records.create(root, paper)
    configs = {job.key: cost.fitted(job, profile) for job in todo if job.config}
    records.freeze(path, configs, profile)
    tasks = {job.key: task(job, path, paper, profile, root) for job in todo}
    if profile.executor == "local":
        _submit_local(todo, tasks, path, profile)
        print(f"{len(todo)} jobs run here; {path}")
    else:
        _submit_arrays(todo, tasks, path, profile, queued)
    return path


def _missing(jobs: list[plan.Job], root: Path, paper: str) -> tuple[list[plan.Job], dict[str, str]]:
    waiting = [job for job in status.statuses(root, paper) if job.queued]
    queued = {name: job.job_id for job in waiting for name in job.makes}
    made = [status.made(root, paper, job) for job in jobs]
    todo = plan.missing(jobs, {name for names in made for name in names}, {*queued})
    done = sum(names == job.makes for names, job in zip(made, jobs, strict=True))
    print(f"{done} of {len(jobs)} jobs done, {len(waiting)} queued, {len(todo)} to submit")
    return todo, queued


def _submit_arrays(
    jobs: list[plan.Job], tasks: dict[str, Task], path: Path, profile: Profile, ids: dict[str, str]
) -> None:
    """Send one array after another to SLURM and record it; `ids`: run -> job id of the queued."""
    if "compare" in ids:  # the old comparison waits for fewer jobs than the new one
        queue.cancel([ids.pop("compare")])
    for group in plan.arrays(plan.capped(jobs, profile.most_gpus)):
        file = path / "runs" / f"{group[0].key}.json"
        records.write_tasks(file, [tasks[job.key] for job in group])
        given = parameters(group, path, profile, dependency(group[0], ids))
        array = executor(path, profile, file, given)
        try:
            with outside_jobs(), array.batch():
                # submitit wants a function of each; what runs is in `file`
                sent = [array.submit(print, job.key) for job in group]
        except REFUSED as error:
            raise UserError(refused(profile, str(error))) from error
        for job, submitted in zip(group, sent, strict=True):
            ids |= dict.fromkeys((job.key, *job.makes), submitted.job_id)
        logs = {job.key: path / "logs" / f"{ids[job.key]}_0_log.err" for job in group}
        records.add(path, [_row(job, ids[job.key], logs[job.key]) for job in group])
        print(f"{group[0].kind:9} {len(group):4} jobs  {sent[0].job_id.split('_')[0]}")


def task(job: plan.Job, path: Path, paper: str, profile: Profile, root: Path) -> Task:
    asked = plan.ask(profile, job)
    config = str(path / "configs" / f"{job.key}.yaml") if job.config else None
    of_job = (job.kind, job.key, paper, str(root), config, str(path / "runs" / job.key))
    place = (asked.time_min, asked.signal_lead_s, asked.nodes, asked.gpus_per_node)
    return Task(*of_job, *place, job.makes)


def visible_gpus(profile: Profile) -> list[str]:
    """Return the GPUs of this machine that an executor=local profile uses, the first that it shows.
    Raises UserError for too few."""
    wanted, said = profile.gpus_per_node, os.environ.get("CUDA_VISIBLE_DEVICES")
    if not wanted:
        return []
    if said is None:
        import torch

        said = ",".join(map(str, range(torch.cuda.device_count())))
    names = [name for name in said.split(",") if name]
    remedy = f"this machine shows {len(names)} GPU(s), fewer than profile {profile.name} needs; "
    remedy += "choose a smaller profile (local: a CPU), or set CUDA_VISIBLE_DEVICES"
    require(len(names) >= wanted, "gpus_per_node", wanted, remedy)
    return names[:wanted]


def _submit_local(jobs, tasks, path: Path, profile: Profile) -> None:
    maker = {name: job.key for job in jobs for name in job.makes}
    needs = {job.key: [*{maker[name]: 0 for name in job.needs if name in maker}] for job in jobs}
    follows = {job.key: [key for key in job.follows if key in tasks] for job in jobs}
    runs, gpus = path / "runs", visible_gpus(profile)
    given = {"tasks": [asdict(tasks[job.key]) for job in jobs], "needs": needs, "follows": follows}
    write_json(runs / "all.json", given | {"gpus": gpus})
    python = shlex.join([sys.executable, "-m", "slurm.local_gpus", str(runs / "all.json")])
    script = "\n".join([*shell(path, profile), f"exec {python}"])
    with open(path / "logs" / "all.log", "w") as log:
        made = subprocess.Popen(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # jobs outlive the terminal
        )
    rows = [_row(job, f"pid-{made.pid}", runs / job.key / "log.err") for job in jobs]
    records.add(path, rows)


def _row(job: plan.Job, job_id: str, log: Path) -> dict:
    e = job.cost
    predicted = asdict(e) | {"gpu_hours": asdict(e.gpu_hours)} if e else None
    row = {"key": job.key, "kind": job.kind, "job_id": job_id, "predicted": predicted}
    return row | {"makes": job.makes, "steps": _steps(job), "log": str(log)}


def _steps(job: plan.Job) -> int | None:
    """Return the steps of a training, the models of a measure, or the chunks of a job that
    samples."""
    if job.kind in ("rates", "evaluate"):
        chunks = [len(e.sizes()) for e in job.config.evaluations]
        return sum(chunks) if all(chunks) else None
    if job.kind == "measure":
        return len(job.config.steps)
    return job.config.optim.steps if job.kind == "train" else None
