"""Trainings of which another number of steps is asked than they were finished with.

The rate is constant, so a run of fewer steps is the beginning of one of more (Experiment.identity).
"""

from pathlib import Path

from common.errors import require
from common.results.collect import config_of
from common.results.run import Run


def steps_of(run: Path) -> int | None:
    """How many steps a run was last asked for; None where it does not say."""
    return config_of(run).get("optim", {}).get("steps")


def finished(run: Path, steps: int) -> bool:
    """Whether a training is finished that has so many steps, or more."""
    if not (run / "DONE").exists():
        return False
    stored = steps_of(run)
    return stored is None or stored >= steps


def reopen(run: Run, steps: int, state: Path) -> None:
    """Take a finished run back that has fewer than `steps`; nothing happens to any other. Raises
    UserError where it has not left the `state` that it would go on from."""
    if not run.done or finished(run.path, steps):
        return
    stored = steps_of(run.path)
    require(
        state.exists(),
        "optim.steps",
        steps,
        f"{run.path} was finished at step {stored} and kept no state to go on from (keep_state="
        "false); delete the folder to train it again, or name the longer run otherwise (name=...)",
    )
    run.take_back(stored)


def require_before(step: int, steps: int, run: Path) -> None:
    """Raise UserError for an unfinished run that is past the `steps` asked for."""
    remedy = f"{run} is at step {step} already; ask for as many or more"
    require(step <= steps, "optim.steps", steps, remedy)
