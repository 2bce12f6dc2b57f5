"""What SLURM says of jobs: squeue, sacct, scancel. submitit is not asked.

submitit reads states from sacct alone, and hangs or errs where that is silent or too early: an
element cancelled while it waited never appears there (trap 4), a lost node's job counts as finished
although SLURM requeues it (trap 5), and a missing result is waited for (trap 11). Here the queue is
asked first, then accounting, and a job in neither is said to be in neither. Where a site has no
accounting, or it does not answer, slurm.status tells what has left the queue from our own records.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from common.errors import UserError

WAITING, RUNNING = ("PENDING", "REQUEUED", "SUSPENDED", "CONFIGURING"), ("RUNNING", "COMPLETING")


@dataclass(frozen=True)
class State:
    name: str  # SLURM's own, such as RUNNING; GONE where it knows nothing
    reason: str = ""  # why it waits, its exit code, or why accounting was of no help

    @property
    def queued(self) -> bool:
        return self.name in WAITING + RUNNING


def states(job_ids: list[str]) -> dict[str, State]:
    """The state of each job or array element (`12`, `12_3`)."""
    if not job_ids:
        return {}
    found, silent = _squeue(), ""
    rest = [job for job in job_ids if job not in found]
    try:
        found = (_sacct(rest) if rest else {}) | found
    except UserError as error:
        silent = str(error)
    return {job: found.get(job, State("GONE", silent)) for job in job_ids}


def available() -> bool:
    return shutil.which("sbatch") is not None


def cancel(job_ids: list[str]) -> None:
    """End jobs with all their steps. --full, or a batch script without srun steps would not be
    signalled (submitit trap 9)."""
    for start in range(0, len(job_ids), 500):
        run("scancel", "--full", *job_ids[start : start + 500])


def hasten(job_ids: list[str]) -> list[str]:
    """Start requeued jobs now; returns which. SLURM lets them wait for two minutes (submitit trap
    2). In three seconds, not at once: a start in the second of the requeue is refused."""
    waiting = [job for job in job_ids if states([job])[job].reason == "BeginTime"]
    for job in waiting:
        run("scontrol", "update", f"JobId={job}", "StartTime=now+3")
    return waiting


def run(*command: str) -> str:
    """The output of a SLURM command. Raises UserError with SLURM's words where it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, env=os.environ | {"LC_ALL": "C"}
        )
    except FileNotFoundError as error:
        raise UserError(
            f"{command[0]} not found: there is no SLURM on this machine; log in to the cluster, or "
            "use profile=local or dry_run=true"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{command[0]} gave no answer in 120 s; is slurmctld up?") from error
    if done.returncode:
        said = done.stderr.strip()[:1000] or f"ended with {done.returncode} without a word"
        raise UserError(f"{command[0]}: {said}")
    return done.stdout


def _squeue() -> dict[str, State]:
    """Every job of this user that waits or runs. --array: one line an element."""
    lines = run("squeue", "--me", "-h", "--array", "-o", "%i|%T|%r").splitlines()
    return {job: State(name, reason) for job, name, reason in (x.split("|") for x in lines)}


def _sacct(job_ids: list[str]) -> dict[str, State]:
    """Jobs that have ended, from accounting; what it never saw is not in the answer. The line of
    the elements that wait together (`12_[1-4]`) may still name one that has started, so an
    element's own line counts for more."""
    mains = sorted({job.split("_")[0] for job in job_ids})
    own, together = {}, {}
    for start in range(0, len(mains), 200):
        some = ",".join(mains[start : start + 200])
        for line in run("sacct", "-XnP", "-o", "JobID,State,ExitCode", "-j", some).splitlines():
            job, name, code = line.split("|")
            for one in _expand(job):
                found = own if one == job else together
                found[one] = State(name.split(" ")[0], f"exit code {code}")
    return together | own


def _expand(job: str) -> list[str]:
    """`12_[3,5-6%2]`, elements that accounting shows together -> 12_3, 12_5, 12_6."""
    match = re.fullmatch(r"(\d+)_\[([\d,-]+)(?:%\d+)?\]", job)
    if match is None:
        return [job]
    main, found = match[1], []
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        found += [f"{main}_{i}" for i in range(int(first), int(last or first) + 1)]
    return found
