"""What is used of submitit beside its public surface (SlurmExecutor, LocalExecutor, helpers), each
with the reason. constraints.txt pins submitit, for these names may change without notice.
"""

from submitit import SlurmExecutor
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.slurm.slurm import SlurmJobEnvironment, _make_sbatch_string

from slurm.stop import requeue

# What a submission raises that SLURM refuses: exported nowhere else.
REFUSED = (FailedJobError, FailedSubmissionError)


def sbatch_text(executor: SlurmExecutor, count: int) -> str:
    """The script that submitit gives to sbatch for an array of `count` (one is no array): what
    dry_run shows and `sbatch --test-only` is asked about. submitit writes it as it submits, and has
    no public way to see it before."""
    several = {"map_count": count} if count > 1 else {}
    command = executor._submitit_command_str
    return _make_sbatch_string(command, executor.folder, **executor.parameters, **several)


def requeue_our_way() -> None:
    """In a job: submitit's handler, which works until slurm.stop listens, requeues by a scontrol
    that the requeue itself kills (trap 1, see `requeue`). submitit has no setting for it."""
    SlurmJobEnvironment._requeue = lambda self, countdown: requeue(self.job_id)
