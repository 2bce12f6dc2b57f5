"""All uses of submitit beyond its public API (SlurmExecutor, LocalExecutor, helpers), each with the
reason. constraints.txt pins submitit, because these names may change without notice."""

import shlex
from inspect import signature
from pathlib import Path

from submitit import SlurmExecutor
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.slurm import slurm

from slurm.stop import requeue

# Errors of a submission that SLURM refuses. submitit exports them nowhere else.
REFUSED = (FailedJobError, FailedSubmissionError)
_written = slurm._make_sbatch_string


def _literal(command: str, folder: Path, **parameters) -> str:
    """Return submitit's sbatch script, in which SLURM takes the folder of the logs, which stands
    before submitit's own `%j` or `%A`, as it is written and not as a pattern."""
    names = str(folder), str(folder).replace("%", "%%")
    text = _written(command, folder, **parameters)
    return text.replace(*(shlex.quote(f"{name}/%")[:-1] for name in names))


# otherwise there is no executor, and no script to show, on a machine without SLURM
SlurmExecutor.affinity = classmethod(lambda cls: 2)
_literal.__signature__ = signature(_written)  # type: ignore[attr-defined]  # submitit reads it
slurm._make_sbatch_string = _literal  # an executor makes others of its own for arrays


def sbatch_text(executor: SlurmExecutor, count: int) -> str:
    """Return the script that submitit gives to sbatch for an array of `count` jobs (one is no
    array). dry_run shows it, and `sbatch --test-only` checks it. submitit writes it only while it
    submits, and has no public way to see it before."""
    several = {"map_count": count} if count > 1 else {}
    command = executor._submitit_command_str
    return _literal(command, executor.folder, **executor.parameters, **several)


def requeue_our_way() -> None:
    """Make submitit's signal handler requeue as we do, inside a job. The handler is active until
    slurm.stop listens, and it requeues through a scontrol that the requeue itself kills (see
    `requeue`). submitit has no setting for it."""
    slurm.SlurmJobEnvironment._requeue = lambda self, countdown: requeue(self.job_id)
