"""verl's checkpoints of a run, <work>/checkpoints/global_step_N: the last one, and the old ones.

verl keeps its list of old checkpoints in memory, so it never deletes those that an earlier launch
has saved.
"""

import shutil
from pathlib import Path

from common.errors import UserError

LATEST = "latest_checkpointed_iteration.txt"  # verl writes it once a checkpoint is whole


def checkpointed(work: Path) -> int:
    """Return the step of verl's last whole checkpoint, 0 if there is none."""
    latest = work / "checkpoints" / LATEST
    if not latest.exists():
        return 0
    try:
        return int(latest.read_text())
    except ValueError as error:
        raise UserError(
            f"{latest} is damaged; write the number of the last whole global_step_ folder into it, "
            "or delete the checkpoints folder to train from the start"
        ) from error


def drop_old(work: Path) -> None:
    """Delete every checkpoint but the latest: older ones, and one whose writing was cut short."""
    kept = f"global_step_{checkpointed(work)}"
    for folder in (work / "checkpoints").glob("global_step_*"):
        if folder.name != kept:
            shutil.rmtree(folder, ignore_errors=True)
