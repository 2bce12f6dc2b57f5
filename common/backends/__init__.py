"""Backends run a whole Experiment; `local` is the specification."""

from pathlib import Path

from common.errors import UserError
from common.experiment import Experiment


def run_experiment(x: Experiment, progress: bool = True) -> Path:
    """Run `x` on the backend it names and return its run folder. Raises UserError for an unknown
    one."""
    if x.backend != "local":
        raise UserError(f"backend={x.backend}: unknown; the backends of this version are: local")
    from common.backends.local import train

    return train(x, progress)
