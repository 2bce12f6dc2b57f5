"""verl's checkpoints of a run, <work>/checkpoints/global_step_N. verl keeps its list of old ones in
memory, so it never deletes those of an earlier launch."""

import json
import shutil
from pathlib import Path

from common.errors import UserError, require

LATEST = "latest_checkpointed_iteration.txt"  # verl writes it once a checkpoint is whole


def checkpointed(work: Path) -> int:
    """Return the step of verl's last whole checkpoint, or 0."""
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


def require_gpus(work: Path, gpus: int) -> None:
    """Raise UserError for a run that was saved on another number of GPUs: each loads its own."""
    step = checkpointed(work)
    file = work / "checkpoints" / f"global_step_{step}" / "actor" / "fsdp_config.json"
    saved = json.loads(file.read_text())["world_size"] if file.exists() else gpus
    remedy = f"{work.parent} was saved at step {step} on {saved} GPU(s) and needs as many again"
    require(saved == gpus, "gpus", gpus, f"{remedy}; take a profile with {saved}, as before")


def drop_old(work: Path) -> None:
    """Delete every checkpoint but the latest: older ones, and one whose writing was cut short."""
    kept = f"global_step_{checkpointed(work)}"
    for folder in (work / "checkpoints").glob("global_step_*"):
        if folder.name != kept:
            shutil.rmtree(folder, ignore_errors=True)
