"""The checkpoint that a run resumes from: <run>/checkpoint.pt, its loop's state in one file."""

import io
from pathlib import Path

import torch

from common.errors import UserError
from common.results.files import write


def save(path: Path, loop) -> None:
    buffer = io.BytesIO()
    torch.save(loop.state_dict(), buffer)
    write(path, buffer.getvalue())


def load(path: Path, loop) -> None:
    """Restore the loop's state from the checkpoint; do nothing if there is no checkpoint. Raises
    UserError for a file that cannot be read or that belongs to another run."""
    if not path.exists():
        return
    try:
        loop.load_state_dict(torch.load(path, map_location=loop.device, weights_only=True))
    except Exception as error:
        raise UserError(
            f"{path} is damaged ({str(error).splitlines()[0][:200]}); delete it to train from "
            "the start"
        ) from error


def step(path: Path) -> int:
    """Return the step of a checkpoint, or 0 if none can be read. Its tensors are not read."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)["step"]
    except Exception:  # torch raises many types for a damaged file; `load` reports it
        return 0
