"""All uses of submitit beyond its public API (SlurmExecutor, LocalExecutor, helpers), each with the
reason. constraints.txt pins submitit, because these names may change without notice."""

import shlex
from pathlib import Path

from submitit import SlurmExecutor
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.slurm.slurm import SlurmJobEnvironment, _make_sbatch_string

from slurm.stop import requeue

# Errors of a submission that SLURM refuses. submitit exports them nowhere else.
REFUSED = (FailedJobError, FailedSubmissionError)


class Executor(SlurmExecutor):
    """submitit's SLURM executor for a folder of any name."""

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        return _literal(super()._make_submission_file_text(command, uid), self.folder)


def _literal(text: str, folder: Path) -> str:
    """Return an sbatch script in which SLURM takes the folder of the logs, which stands before
    submitit's own `%j` or `%A`, as it is written and not as a pattern."""
    taken, meant = (
        shlex.quote(f"{one}/%")[:-1] for one in (folder, str(folder).replace("%", "%%"))
    )
    return text.replace(taken, meant)


def sbatch_text(executor: SlurmExecutor, count: int) -> str:
    """Return the script that submitit gives to sbatch for an array of `count` jobs (one is no
    array). dry_run shows it, and `sbatch --test-only` checks it. submitit writes it only while it
    submits, and has no public way to see it before."""
    several = {"map_count": count} if count > 1 else {}
    command = executor._submitit_command_str
    text = _make_sbatch_string(command, executor.folder, **executor.parameters, **several)
    return _literal(text, executor.folder)


def requeue_our_way() -> None:
    """Make submitit's signal handler requeue as we do, inside a job. The handler is active until
    slurm.stop listens, and it requeues through a scontrol that the requeue itself kills (see
    `requeue`). submitit has no setting for it."""
    SlurmJobEnvironment._requeue = lambda self, countdown: requeue(self.job_id)
