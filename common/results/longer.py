"""Training runs that are asked for another number of steps than they were finished with: a constant
learning rate makes a shorter run the beginning of a longer one (Experiment.identity)."""

from pathlib import Path

from common.errors import require
from common.results.collect import config_of
from common.results.run import Run


def steps_of(run: Path) -> int | None:
    return config_of(run).get("optim", {}).get("steps")


def finished(run: Path, steps: int) -> bool:
    """Return whether a training run is finished with at least `steps` steps; a run that does not
    say how many it has counts as long enough."""
    if not (run / "DONE").exists():
        return False
    stored = steps_of(run)
    return stored is None or stored >= steps


def reopen(run: Run, steps: int, state: Path) -> None:
    """Reopen a finished run that has fewer than `steps`; leave any other alone. Raises UserError if
    it did not keep the `state` to resume from."""
    if not run.done or finished(run.path, steps):
        return
    stored = steps_of(run.path)
    require(
        state.exists(),
        "optim.steps",
        steps,
        f"{run.path} finished at step {stored} and kept no state to continue from (keep_state="
        "false); delete the folder to train it again, or give the longer run another name=NAME",
    )
    run.take_back(stored)


def require_before(step: int, steps: int, run: Path) -> None:
    """Raise UserError for an unfinished run whose `step` is past the `steps` asked for."""
    remedy = f"{run} is already at step {step}; ask for at least as many steps"
    require(step <= steps, "optim.steps", steps, remedy)
