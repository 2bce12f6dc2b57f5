"""Checkpoints on disk as streams of rows: safetensors in one file, or in shards with an index."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.errors import UserError, require

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
Tensors = dict[str, tuple[Path, tuple[int, ...]]]  # name -> file, shape


@dataclass(frozen=True)
class Checkpoint:
    """The folder of a checkpoint and its names in the tables; seed and step where known."""

    path: Path
    name: str
    label: str
    seed: int | None = None
    step: int | None = None

    def about(self) -> dict:
        return {"checkpoint": self.name, "label": self.label, "seed": self.seed, "step": self.step}


def locate(path: str | Path) -> Path:
    """Return the folder that holds the weights: `path` or its `model/`. Raises UserError if neither
    does."""
    for folder in (Path(path), Path(path) / "model"):
        if (folder / INDEX).exists() or (folder / SINGLE).exists():
            return folder
    raise UserError(f"{path}: holds neither {SINGLE} nor {INDEX}; give a checkpoint's folder")


def tensors(folder: Path) -> Tensors:
    """Return every tensor of a checkpoint with its file and shape. Raises UserError for a file that
    is damaged or missing."""
    from safetensors import SafetensorError, safe_open

    index = folder / INDEX
    files = json.loads(index.read_text())["weight_map"].values() if index.exists() else [SINGLE]
    places = {}
    for file in sorted({folder / name for name in files}):
        try:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 (not a dict)
                    places[name] = (file, tuple(opened.get_slice(name).get_shape()))
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} is damaged or missing ({error}); fetch it again") from error
    return places


def check_same(before: Checkpoint, after: Checkpoint, old: Tensors, new: Tensors) -> None:
    """Raise UserError naming a tensor that only one checkpoint has, or whose shapes differ."""
    for name in sorted(old.keys() | new.keys()):
        shapes = [held[name][1] if name in held else None for held in (old, new)]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"tensor {name}: shape {shapes[0]} in {before.path}, {shapes[1]} in {after.path}; "
                "give two checkpoints of one model"
            )


def rows_of(held: Tensors, name: str, rows: int) -> Iterator[np.ndarray]:
    """Yield a tensor as float32 arrays of at most `rows` rows, with a vector as one column, reading
    one array at a time. Raises UserError for a value that is not finite."""
    from safetensors import safe_open

    file, shape = held[name]
    for start in range(0, shape[0], rows):
        # opened for each block: closing the file releases its memory pages
        with safe_open(file, framework="pt") as opened:
            block = opened.get_slice(name)[start : start + rows].float().numpy()
        if not np.isfinite(block).all():
            raise UserError(
                f"tensor {name} of {file}: not finite in rows {start} to "
                f"{start + len(block) - 1}; the run has diverged, take an earlier checkpoint"
            )
        yield block.reshape(len(block), -1)


def change(old: Tensors, new: Tensors, name: str, rows: int) -> Iterator[np.ndarray]:
    pairs = zip(rows_of(new, name, rows), rows_of(old, name, rows), strict=True)
    return (theirs - ours for theirs, ours in pairs)


def checkpoints_of(paths: list[str]) -> list[Checkpoint]:
    """Return the checkpoints of the given folders, named after their folders, with label "given".
    The step is the number at the end of a name (step-00300, global_step_300). Raises UserError for
    a name that is given twice."""
    found: dict[str, Checkpoint] = {}
    for path in paths:
        folder = locate(path)
        name = (folder.parent if folder.name == "model" else folder).name
        require(name not in found, "after", path, f"{name} is given twice")
        step = re.search(r"step[-_]?(\d+)$", name)
        found[name] = Checkpoint(folder, name, "given", step=int(step[1]) if step else None)
    return list(found.values())
