"""The checkpoint that a run resumes from: <run>/checkpoint.pt, its loop's state in one file."""

import io
import zipfile
from pathlib import Path

import torch

from common.errors import UserError
from common.results.files import write


def save(path: Path, loop) -> None:
    buffer = io.BytesIO()
    torch.save(loop.state_dict(), buffer)
    write(path, buffer.getvalue())


def load(path: Path, loop) -> None:
    """Restore the loop's state from `path`, if it exists. Raises UserError for a damaged file."""
    if not path.exists():
        return
    try:
        with zipfile.ZipFile(path) as archive:  # torch itself checks no checksum
            if (part := archive.testzip()) is not None:
                raise ValueError(f"the checksum of {part} differs")
        loop.load_state_dict(torch.load(path, map_location=loop.device, weights_only=True))
    except Exception as error:
        said = str(error).partition("\n")[0][:200] or type(error).__name__
        raise UserError(f"{path} is damaged ({said}); delete it to train from the start") from error


def step(path: Path) -> int:
    """Return the step of a checkpoint, or 0 if it cannot be read. Its tensors are not read."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)["step"]
    except Exception:  # torch raises many types for a damaged file; `load` reports it
        return 0
