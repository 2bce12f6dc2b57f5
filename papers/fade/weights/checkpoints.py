"""Checkpoints on disk as streams of rows: safetensors in one file, or in shards with an index."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common.config.schema import Model
from common.config.strict import strict
from common.errors import UserError, require

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
Tensors = dict[str, tuple[Path, tuple[int, ...]]]  # name -> file, shape


@dataclass(frozen=True)
class Checkpoint:
    """The folder of a checkpoint and its names in the tables; seed, step and run where known."""

    path: Path
    name: str
    label: str
    seed: int | None = None
    step: int | None = None
    run: Path | None = None  # the run folder


def locate(path: str | Path) -> Path:
    """Return the folder that holds the weights: `path` or its `model/`.

    Raises UserError if neither does.
    """
    for folder in (Path(path), Path(path) / "model"):
        if (folder / INDEX).exists() or (folder / SINGLE).exists():
            return folder
    raise UserError(f"{path}: holds neither {SINGLE} nor {INDEX}; give a checkpoint's folder")


def tensors(folder: Path) -> Tensors:
    """Return every tensor of a checkpoint with its file and shape.

    Raises UserError for a damaged file, or for a missing shard or tensor that the index names.
    """
    from safetensors import SafetensorError, safe_open

    listed, files = {}, [folder / SINGLE]
    if (folder / INDEX).exists():
        try:
            listed = json.loads((folder / INDEX).read_text())["weight_map"]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder / INDEX} is damaged ({error}); fetch it again") from error
        files = sorted({folder / name for name in listed.values()})
    places = {}
    for file in files:
        if not file.exists():
            raise UserError(f"{file}: {INDEX} names this shard and it is missing; fetch it again")
        try:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 (not a dict)
                    places[name] = (file, tuple(opened.get_slice(name).get_shape()))
        except (SafetensorError, OSError) as error:
            raise UserError(f"{file} is damaged ({error}); fetch it again") from error
    missing = sorted(set(listed) - set(places))
    if missing:
        raise UserError(f"{folder}: {INDEX} names {missing[0]}, which no shard holds")
    return places


def check_same(before: Checkpoint, after: Checkpoint, old: Tensors, new: Tensors) -> None:
    """Raise UserError naming a tensor that only one checkpoint has, or whose shapes differ."""
    for name in sorted(old.keys() ^ new.keys()):
        has = before if name in old else after
        raise UserError(f"tensor {name}: only {has.path} has it; both must be of one model")
    for name in sorted(old):
        if old[name][1] != new[name][1]:
            raise UserError(
                f"tensor {name}: shape {old[name][1]} in {before.path}, {new[name][1]} in "
                f"{after.path}; both must be of one model"
            )


def rows_of(held: Tensors, name: str, rows: int, dtype: str = "float32") -> Iterator:
    """Yield a tensor as arrays of at most `rows` rows, with a vector as one column.

    Only the rows of one array are read at a time. Raises UserError for a value that is not finite.
    """
    import numpy as np
    from safetensors import safe_open

    file, shape = held[name]
    for start in range(0, shape[0], rows):
        with safe_open(
            file, framework="pt"
        ) as opened:  # opened for each block: closing the file releases its memory pages
            block = opened.get_slice(name)[start : start + rows].float().numpy()
            block = block.astype(dtype, copy=False)
        if not np.isfinite(block).all():
            raise UserError(
                f"tensor {name} of {file}: not finite in rows {start} to "
                f"{start + len(block) - 1}; the run has diverged, take an earlier checkpoint"
            )
        yield block.reshape(len(block), -1)


def change(old: Tensors, new: Tensors, name: str, rows: int, dtype: str = "float32") -> Iterator:
    """Return an iterator over W_after - W_before in blocks of rows."""
    pairs = zip(rows_of(new, name, rows, dtype), rows_of(old, name, rows, dtype), strict=True)
    return (theirs - ours for theirs, ours in pairs)


def named(paths: list[str]) -> list[Checkpoint]:
    """Return the checkpoints of the given folders, named after their folders.

    The step is the number at the end of a name (step-00300, global_step_300). A checkpoint that a
    run kept, RUN/checkpoints/step-00300, has the name of its run too. Labels mark which ones belong
    together: the run's name if they are of several runs, else "given" for all, so that the last one
    of each label is its end. Raises UserError for a folder that is given twice.
    """
    folders = [locate(path) for path in paths]
    held = [one.parent if one.name == "model" else one for one in folders]
    runs = [one.parent.parent if one.parent.name == "checkpoints" else one for one in held]
    several = len({run for run, one in zip(runs, held, strict=True) if run != one}) > 1
    checkpoints: list[Checkpoint] = []
    for path, folder, one, run in zip(paths, folders, held, runs, strict=True):
        name = one.name if run == one else f"{run.name} {one.name}"
        known = {other.name for other in checkpoints}
        require(name not in known, "after", path, f"{name} is given twice")
        step = re.search(r"step[-_]?(\d+)$", name)
        label = run.name if several else "given"
        checkpoints.append(
            Checkpoint(folder, name, label, step=int(step.group(1)) if step else None)
        )
    return checkpoints


def laptop_runs(root: Path) -> list[tuple[Checkpoint, list[Checkpoint]]]:
    """Return (base model, checkpoints) of the finished FADE runs on Countdown below `root`.

    There is one pair for each base model. Models of earlier steps are included if a run kept them.
    """
    import yaml

    from common.models.store import folder

    trained: dict[Path, list[Checkpoint]] = {}
    for done in sorted((root / "fade").glob("*/DONE")):
        run = done.parent
        stored = yaml.safe_load((run / "config.yaml").read_text())
        steps = stored.get("optim", {}).get("steps")
        if not steps or not (run / "model").is_dir() or stored["data"]["name"] != "countdown":
            continue
        ends = {int(path.name[5:]): path for path in (run / "checkpoints").glob("step-*")}
        ends[steps] = run / "model"
        base = Path(folder(strict(Model, stored["model"]), root))
        for step, path in sorted(ends.items()):
            name = f"{run.name} step {step}"
            one = Checkpoint(locate(path), name, stored["label"], stored["seed"], step, run)
            trained.setdefault(base, []).append(one)
    return [(Checkpoint(locate(base), base.name, "base"), after) for base, after in trained.items()]
