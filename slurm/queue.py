"""What SLURM knows of jobs: squeue first, then sacct; GONE for a job that is in neither. submitit
would ask only sacct, and take what that lacks for ended or for ever waiting. Where accounting is
silent, slurm.status uses our records for jobs that have left the queue."""

import os
import shutil
import subprocess
from dataclasses import dataclass

from common.errors import UserError

WAITING, RUNNING = ("PENDING", "REQUEUED", "SUSPENDED", "CONFIGURING"), ("RUNNING", "COMPLETING")


@dataclass(frozen=True)
class State:
    name: str  # SLURM's own name, such as RUNNING; GONE where SLURM does not know the job
    reason: str = ""  # why it waits, its exit code, or why accounting did not answer

    @property
    def queued(self) -> bool:
        return self.name in WAITING + RUNNING


def states(job_ids: list[str]) -> dict[str, State]:
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
    """End jobs with all their steps; without --full the batch script would not be signalled."""
    for start in range(0, len(job_ids), 500):
        run("scancel", "--full", *job_ids[start : start + 500])


def run(*command: str) -> str:
    """Run a SLURM command and return its output. Raises UserError with SLURM's message."""
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
        said = done.stderr.strip()[:1000] or f"ended with {done.returncode} and no message"
        raise UserError(f"{command[0]}: {said}")
    return done.stdout


def _squeue() -> dict[str, State]:
    lines = run("squeue", "--me", "-h", "--array", "-o", "%i|%T|%r").splitlines()
    return {job: State(name, reason) for job, name, reason in (x.split("|") for x in lines)}


def _sacct(job_ids: list[str]) -> dict[str, State]:
    """Return the states of ended jobs, as far as accounting saw them. Elements that were cancelled
    while they waited are listed together (`12_[1-4]`)."""
    mains, found = sorted({job.split("_")[0] for job in job_ids}), {}
    words = ("-XnP", "-o", "JobID,State,ExitCode", "-j", ",".join(mains))
    for line in run("sacct", *words).splitlines():
        job, name, code = line.split("|")
        found[job] = State(name.split(" ")[0], f"exit code {code}")
    return found
