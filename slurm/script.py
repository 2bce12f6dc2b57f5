"""What an array of jobs asks sbatch for. submitit writes the script and submits it."""

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from submitit import SlurmExecutor, helpers
from submitit.core.utils import FailedJobError, FailedSubmissionError

from common.sweeps.profiles import Profile
from slurm import plan
from slurm.environment import shell
from slurm.stop import AGAIN_FILE

BEFORE, AFTER = (  # a job: lines of its batch script
    Path(__file__).with_name(f"{name}.sh").read_text().splitlines() for name in ("before", "after")
)
REFUSED = (FailedJobError, FailedSubmissionError)  # errors of a submission that SLURM refuses


def parameters(
    group: Sequence[plan.Job], path: Path, profile: Profile, needs: str | None
) -> dict[str, Any]:
    """Return submitit's parameters for jobs that take the same of the profile (`plan.ask`) and
    wait for `needs` (`dependency`); `path` is the submission's folder."""
    light, asked = group[0].kind in plan.LIGHT, plan.ask(profile, group[0])
    again = str(path / "runs" / AGAIN_FILE)
    typed = f"{profile.gpu_type}:" if profile.gpu_type else ""
    given = {
        "job_name": group[0].key,
        "partition": (profile.light_partition if light else None) or profile.partition,
        "account": profile.account,
        "qos": profile.qos,
        "constraint": None if light else profile.constraint,
        "nodes": asked.nodes,
        "ntasks_per_node": 1,
        "cpus_per_task": asked.cpus_per_node,
        "gpus_per_node": f"{typed}{asked.gpus_per_node}" if asked.gpus_per_node else None,
        "mem": f"{asked.memory_gb}GB" if asked.memory_gb else None,
        "time": asked.time_min,
        # SLURM sends the signal up to a minute late; slurm.stop has a clock too
        "signal_delay_s": asked.signal_lead_s,
        # what takes GPUs waits for those before it (plan.capped)
        "array_parallelism": profile.array_parallelism if light else plan.MOST,
        "dependency": needs,
        "setup": [*shell(path, profile), f"again={shlex.quote(again)}", *BEFORE],
        "teardown": AFTER,
        # from SLURM 22.05 on srun does not inherit --cpus-per-task from sbatch
        "srun_args": [
            f"--cpus-per-task={asked.cpus_per_node}",
            "--kill-on-bad-exit=1",
            *profile.srun,
        ],
        # without kill-on-invalid-dep, a job whose afterok can never hold would wait for ever
        "additional_parameters": {**profile.sbatch, "requeue": True, "kill-on-invalid-dep": "yes"},
    }
    return {key: value for key, value in given.items() if value is not None}


def options(given: dict[str, Any], count: int) -> list[str]:
    """Return the options of sbatch that submitit makes of `parameters` for `count` jobs, for the
    dry run and `sbatch --test-only`."""
    ours = {"setup", "teardown", "srun_args", "signal_delay_s", "array_parallelism"}
    ours |= {"additional_parameters"}
    said = {key: value for key, value in given.items() if key not in ours}
    said |= {"signal": f"USR2@{given['signal_delay_s']}"} | given["additional_parameters"]
    if count > 1:
        said["array"] = f"0-{count - 1}%{min(count, given['array_parallelism'])}"
    words = {f"--{key.replace('_', '-')}": value for key, value in sorted(said.items())}
    return [key if value is True else f"{key}={value}" for key, value in words.items()]


def executor(path: Path, profile: Profile, tasks: Path, given: dict[str, Any]) -> SlurmExecutor:
    """Return submitit's executor for an array whose element i runs task i of the file `tasks`.
    slurm/start.py ignores submitit's words after `python`: submitit's process would requeue in the
    middle of a step."""
    python = profile.python or shlex.quote(sys.executable)
    python = f"{profile.container} {python}" if profile.container else python
    command = f"{python} -u -m slurm.start {shlex.quote(str(tasks))}"
    made = SlurmExecutor(path / "logs", python=command)
    made.update_parameters(**given, wckey=None)  # clusters that check wckeys refuse submitit's
    return made


def dependency(job: plan.Job, ids: dict[str, str]) -> str | None:
    """Return the value of sbatch's --dependency, or None: the jobs that must succeed, element by
    element, and those that must only end, for the comparison as whole arrays. A run or job that is
    not in `ids` is done already."""
    ok = dict.fromkeys(ids[name] for name in job.needs if name in ids)
    ended = [ids[key] for key in job.follows if key in ids and ids[key] not in ok]
    if job.kind == "compare":
        ended = sorted({one.split("_")[0] for one in ended})
    parts = ["afterok:" + ":".join(ok)] if ok else []
    parts += ["afterany:" + ":".join(ended)] if ended else []
    return ",".join(parts) or None


@contextmanager
def outside_jobs():
    """Hide the variables of a job that we may be in: sbatch would take them for options. submitit's
    clean_env also drops SLURM_CONF, and with it the cluster; here it is kept."""
    conf = {k: v for k, v in os.environ.items() if k == "SLURM_CONF"}
    with helpers.clean_env():
        os.environ.update(conf)
        yield
