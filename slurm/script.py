"""The batch script of an array of jobs: what it asks sbatch for, and its shell lines."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from common.errors import UserError
from common.results.files import write
from common.sweeps.profiles import Profile
from slurm import plan, queue
from slurm.ask import ask
from slurm.environment import shell
from slurm.stop import AGAIN_FILE

BEFORE, AFTER = (  # a job: lines of its batch script
    Path(__file__).with_name(f"{name}.sh").read_text().splitlines() for name in ("before", "after")
)


def options(
    group: Sequence[plan.Job], profile: Profile, needs: str | None, gpus: int = 1
) -> list[str]:
    """Return the options of sbatch for jobs of one kind that take `gpus` GPUs each (slurm/ask.py)
    and wait for `needs` (`dependency`). The dry run shows them."""
    light, asked, count = group[0].kind in plan.LIGHT, ask(profile, group[0].kind, gpus), len(group)
    typed = f"{profile.gpu_type}:" if profile.gpu_type else ""
    # what takes GPUs waits for those before it (plan.capped)
    most = f"%{min(count, profile.array_parallelism)}" if light else ""
    given = {
        "job-name": group[0].key,
        "partition": (profile.light_partition if light else None) or profile.partition,
        "account": profile.account,
        "qos": profile.qos,
        "constraint": None if light else profile.constraint,
        "nodes": asked.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": asked.cpus_per_node,
        "gpus-per-node": f"{typed}{asked.gpus_per_node}" if asked.gpus_per_node else None,
        "mem": f"{asked.memory_gb}GB" if asked.memory_gb else None,
        "time": asked.time_min,
        # SLURM sends the signal up to a minute late; slurm.stop has a clock of its own
        "signal": f"USR2@{asked.signal_lead_s}",
        "array": f"0-{count - 1}{most}" if count > 1 else None,
        "dependency": needs,
        # without it, a job whose afterok can never hold would wait for ever
        "kill-on-invalid-dep": "yes",
        "requeue": True,
        **profile.sbatch,
    }
    said = {f"--{key}": value for key, value in sorted(given.items()) if value is not None}
    return [key if value is True else f"{key}={value}" for key, value in said.items()]


def send(
    group: Sequence[plan.Job],
    path: Path,
    profile: Profile,
    tasks: Path,
    needs: str | None,
    gpus: int = 1,
) -> list[str]:
    """Submit an array whose element i runs task i of the file `tasks` and return the job ids. The
    submission has the folder `path`."""
    given, batch = options(group, profile, needs, gpus), tasks.with_suffix(".sh")
    log = path / "logs" / ("%A_%a" if len(group) > 1 else "%j")
    cpus = ask(profile, group[0].kind, gpus).cpus_per_node
    write(batch, "\n".join(script(path, profile, tasks, f"{log}_%t.log", cpus)))
    logs = (f"--output={log}_0.log", "--open-mode=append")  # of the script: with its first task's
    (job, *_) = sbatch(profile, "--parsable", *given, *logs, str(batch)).strip().split(";")
    return [f"{job}_{i}" for i in range(len(group))] if len(group) > 1 else [job]


def script(path: Path, profile: Profile, tasks: Path, log: str, cpus: int) -> list[str]:
    """Return the lines of the batch script of jobs that run the file `tasks`."""
    # from SLURM 22.05 on srun does not inherit --cpus-per-task from sbatch
    words = [f"--output={log}", f"--cpus-per-task={cpus}", "--kill-on-bad-exit=1", *profile.srun]
    return [
        "#!/bin/bash",
        *shell(path, profile),
        f"again={shlex.quote(str(path / 'runs' / AGAIN_FILE))}",
        *BEFORE,
        f"srun --unbuffered {shlex.join(words)} {start(profile, str(tasks))}",
        *AFTER,
        "",
    ]


def start(profile: Profile, tasks: str) -> str:
    """Return the command that runs a task of the file `tasks`, in the profile's container."""
    python = profile.python or shlex.quote(sys.executable)
    return f"{profile.container or ''} {python} -u -m slurm.start {shlex.quote(tasks)}".strip()


def sbatch(profile: Profile, *words: str) -> str:
    """Run sbatch and return its output. Raises UserError where SLURM refuses the job."""
    try:
        return queue.run("sbatch", *words)
    except UserError as error:
        if not queue.available():
            raise
        raise UserError(
            f"SLURM refuses a job of configs/slurm/{profile.name}.yaml "
            f"(partition={profile.partition}, account={profile.account}, qos={profile.qos}, "
            f"constraint={profile.constraint}, {profile.nodes} x {profile.gpus_per_node} GPUs): "
            f"{' '.join(str(error).split())[-600:]}"
        ) from error


def dependency(job: plan.Job, ids: dict[str, str]) -> str | None:
    """Return the value of sbatch's --dependency, or None. It names the jobs that must succeed
    (elements of an array one by one), and those that must only end, by their whole arrays for the
    comparison. A run or a job that is not in `ids` is done already.

    A failed run exits with 1, so SLURM sees that it failed.
    """
    ok = dict.fromkeys(ids[name] for name in job.needs if name in ids)
    ended = [ids[key] for key in job.follows if key in ids and ids[key] not in ok]
    if job.kind == "compare":
        ended = sorted({one.split("_")[0] for one in ended})
    parts = ["afterok:" + ":".join(ok)] if ok else []
    parts += ["afterany:" + ":".join(ended)] if ended else []
    return ",".join(parts) or None
