"""The sbatch script of an array of jobs. submitit writes it; this module avoids submitit's
traps."""

import os
import shlex
import sys
from contextlib import contextmanager
from pathlib import Path

from submitit import helpers

from common.sweeps.profiles import Profile
from slurm import plan
from slurm.ask import ask
from slurm.environment import shell
from slurm.submitit_inside import SlurmExecutor

RESTARTS = 1000  # more than submitit's count of time limits reaches: slurm.job stops what is stuck


def slurm_executor(
    group: list[plan.Job],
    path: Path,
    profile: Profile,
    needs: str | None,
    gpus: int = 1,
) -> SlurmExecutor:
    """Return submitit's executor for jobs of one kind that take `gpus` GPUs each (slurm/ask.py)."""
    light, asked = group[0].kind in plan.LIGHT, ask(profile, group[0].kind, gpus)
    python = profile.python or shlex.quote(sys.executable)
    python = f"{profile.container} {python}" if profile.container else python
    executor = SlurmExecutor(path / "logs", max_num_timeout=RESTARTS, python=python)
    # without kill-on-invalid-dep, a job whose afterok can never hold would wait for ever
    extra = {**profile.sbatch, "requeue": True, "kill-on-invalid-dep": "yes"}
    typed = f"{profile.gpu_type}:" if profile.gpu_type else ""
    gpus = {"gpus_per_node": f"{typed}{asked.gpus_per_node}"} if asked.gpus_per_node else {}
    executor.update_parameters(
        job_name=group[0].key,
        partition=(profile.light_partition if light else None) or profile.partition,
        account=profile.account,
        qos=profile.qos,
        constraint=None if light else profile.constraint,
        nodes=asked.nodes,
        ntasks_per_node=1,
        cpus_per_task=asked.cpus_per_node,
        mem=f"{asked.memory_gb}GB",
        time=asked.time_min,
        # SLURM sends the signal up to a minute late; slurm.stop has a clock of its own
        signal_delay_s=asked.signal_lead_s,
        array_parallelism=asked.parallel,
        dependency=needs,
        wckey=None,  # submitit sets a wckey, which clusters that check wckeys refuse
        setup=shell(path, profile),
        # from SLURM 22.05 on srun does not inherit --cpus-per-task from sbatch
        srun_args=[
            f"--cpus-per-task={asked.cpus_per_node}",
            "--kill-on-bad-exit=1",
            *profile.srun,
        ],
        additional_parameters=extra,
        **gpus,
    )
    return executor


def dependency(job: plan.Job, ids: dict[str, str]) -> str | None:
    """Return the value of sbatch's --dependency, or None. It names the jobs that must succeed
    (elements of an array one by one), and the whole arrays of those that must only end. A run or a
    job that is not in `ids` is done already.

    A failed run exits with 1, so SLURM sees that it failed.
    """
    ok = dict.fromkeys(ids[name] for name in job.needs if name in ids)
    ended = sorted({ids[key].split("_")[0] for key in job.follows if key in ids})
    parts = ["afterok:" + ":".join(ok)] if ok else []
    parts += ["afterany:" + ":".join(ended)] if ended else []
    return ",".join(parts) or None


@contextmanager
def outside_jobs():
    """Hide the variables of a job that we may be in, within the block: sbatch would take them for
    options.

    submitit's clean_env also drops SLURM_CONF, and with it the cluster; here it is kept.
    """
    conf = {k: v for k, v in os.environ.items() if k == "SLURM_CONF"}
    with helpers.clean_env():
        os.environ.update(conf)
        try:
            yield
        finally:
            for name in conf:
                del os.environ[name]
