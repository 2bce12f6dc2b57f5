"""Print what would be submitted and what it would take, without SLURM, GPU or network."""

import math
import shlex
from collections import Counter
from pathlib import Path

from common.config.files import ROOT
from common.errors import UserError
from common.evaluation.checkpoints import UNTRAINED
from common.sweeps.assumptions import FILE
from common.sweeps.cost import Range, total
from common.sweeps.profiles import Profile
from slurm import cost, plan, preflight, records
from slurm.script import BEFORE, options, parameters

TITLES = {
    "model": "models made here",
    "command": "models that commands of the paper make, before their rows",
    "rates": "solve rates of training prompts, before the trainings that they choose prompts for",
    "gate": "CPU checks of a start model; its trainings wait for them",
    "train": "training",
    "evaluate": "evaluation, one job for all benchmarks of a model, after its training",
    "score": "re-scores a model's stored samples, one job per model",
    "measure": "measures of kept models on the CPU, each after its training",
    "compare": "comparison, after the end of all",
}


def show(
    jobs: list[plan.Job],
    *,
    paper: str,
    profile: Profile,
    root: Path,
    disk_gb: float = math.inf,
) -> None:
    """Print the jobs of each kind with what they take, and what an array of each kind asks SLURM
    for. Rows that take the same share a line. A job that cannot run on the profile is shown with
    the reason; `submit` would then submit nothing. Writes no files."""
    jobs = cost.outlook(jobs, profile)
    path = records.folder(root, paper) / "SUBMISSION"
    print(f"{len(jobs)} jobs{_sums(jobs)}")
    if profile.executor == "slurm":
        jobs, most = plan.capped(jobs, profile.most_gpus), profile.most_gpus
        hours = plan.makespan(jobs)
        print(f"queue: at most {most} GPU(s) at once; {hours} hours if no job waits for SLURM")
    arrays = plan.arrays(jobs)
    for kind, title in TITLES.items():
        own = [job for job in jobs if job.kind == kind]
        if not own:
            continue
        print(f"\n== {title}: {len(own)} job(s){_sums(own)}")
        like: dict[str, Counter[str]] = {}  # what jobs take -> their rows
        for job in own:
            took = f"REFUSED: {job.refused}" if job.refused else _took(job)
            like.setdefault(took + _benchmarks(job), Counter())[plan.row_of(job)] += 1
        for took, rows in like.items():
            names = ", ".join(f"{n} x {row}" if n > 1 else row for row, n in rows.items())
            print(f"  {names}{took and f': {took}'}")
        first, *more = [group for group in arrays if group[0].kind == kind]
        if profile.executor == "slurm":
            given = parameters(first, path, profile, None)
            print(f"sbatch {shlex.join(options(given, len(first)))}")
            said = given["setup"][: -len(BEFORE) - 1]  # the same in each job
            print("\n".join([*said, f"srun {shlex.join(given['srun_args'])}"]))
        if more:
            sizes = sorted({group[0].gpus or 0 for group in more} - {0})
            on = f", on {' or '.join(map(str, sizes))} GPU(s)" if sizes else ""
            print(f"# ... and {len(more)} more array(s){on}")
    needed = cost.disk_gb(jobs, profile)
    print(f"\ndisk: {_gb(needed)} at most; {preflight.free_gb(root):,.0f} GB free here, at {root}")
    commands = [job.config for job in jobs if job.kind == "command"]
    checks: list[tuple] = [
        (preflight.inputs, commands),
        (preflight.room, needed, root, disk_gb),
        (preflight.resumed, jobs),
    ]
    for check, *given in checks:
        try:
            check(*given)
        except UserError as error:
            print(f"submit will refuse on this machine: {error}")
    if refused := [job for job in jobs if job.refused]:
        print(f"{len(refused)} job(s) cannot run on {profile.name} (REFUSED); submit refuses all")
        print(f"{cost.leaves_out(refused)} leaves their rows out")
    if total(job.cost.gpu_hours for job in jobs if job.cost).high > cost.ASKED:
        print(f"submit wants yes=true: these are more than {cost.ASKED:,} GPU-hours")
    print(f"assumptions: {FILE.relative_to(ROOT)}; nothing was submitted")


def _sums(jobs: list[plan.Job]) -> str:
    found = [job.cost.gpu_hours for job in jobs if job.cost]
    return f", {total(found)} GPU-hours" if found else ""


def _gb(size: float) -> str:
    return f"{Range(size, size)} GB" if size >= 0.1 else "under 0.1 GB"


def _took(job: plan.Job) -> str:
    e = job.cost
    if e is None:
        return ""
    gpus = f"{e.gpus} GPU{'s' * (e.gpus > 1)}"
    took = f"{e.gpu_hours} GPU-h on {gpus}" if e.gpus else f"{e.hours} hours"
    took += f", {_gb(e.disk_gb + e.passing_gb)} disk"
    took += f", {e.memory_gb:.2g} GB{' a GPU' if e.gpus else ' of memory'}" if e.memory_gb else ""
    if e.step_s and job.kind == "train":
        took += f", {e.step_s} s a step"
    elif e.step_s:
        took += f", {e.step_s * (1 / 60)} minutes a chunk"
        if e.step_s.high > 3600:
            whole = any(one.per_chunk == 1 for one in job.config.evaluations)
            took += f" (above an hour{', since a problem has one chunk' if whole else ''})"
    return f"{took}; {e.layout}" if e.layout else took


def _benchmarks(job: plan.Job) -> str:
    if job.kind not in plan.EVALUATED:
        return ""
    some = job.config.evaluations
    names, points = ({e.row.benchmark: 0 for e in some}, {e.row.checkpoint: 0 for e in some})
    (point, *more), trained = points, UNTRAINED not in points
    at = f"step {point}" if isinstance(point, int) else f"{point} checkpoint"
    at = f"{len(points)} checkpoints" if more else at if trained else "untrained"
    samples = "/".join(str(n) for n in sorted({e.n for e in some}))
    return f"; {at}, n={samples}: {', '.join(names)}"
