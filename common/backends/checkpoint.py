"""What a run resumes from: <run>/checkpoint.pt, the state of its loop in one file."""

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
    """Put the loop where the checkpoint left it; nothing happens where there is none. Raises
    UserError for a file that cannot be read or is of another run."""
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
    """The step of a checkpoint, 0 without one that can be read; its tensors are not read."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)["step"]
    except Exception:  # torch raises many kinds for a damaged file; `load` says so
        return 0
