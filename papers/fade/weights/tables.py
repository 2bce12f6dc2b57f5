"""The geometry of weight changes, W_after - W_before of every tensor of given checkpoints (FADE
Sec. 4.2, 15; Figs 3, 5, Tables 9, 12), streamed from safetensors in blocks of rows.

A folder holds model.safetensors, or its shards and model.safetensors.index.json, or is a run folder
with such a `model/`. Written below results_dir/fade/geometry/<name>:

    tensors     one row for each checkpoint and tensor: l2 = ||Delta||, energy_share of all
                ||Delta||^2; for matrices also s1, s2, s1/s2, rank-1 fraction, srank, which
                decomposition was used and its error. Fig. 8's "OH L2" and "Inner" are sums of
                energy_share: 6.1 + 28 x 3.32 = 99.1
    thirds      |cos| between the leading left singular vectors u of each checkpoint and of the last
                one, as Table 12 prints them

With tied embeddings (the laptop model; not Qwen 2.5 7B) the change of the one matrix counts as the
output head's, although it also holds the gradient of the input side. The paper prints neither the
delta of srank, nor whether its shares compare norms or squared norms.
"""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from common.config.schema import Folder
from common.errors import require
from common.metrics import weights
from common.results.files import write_csv
from papers.fade.weights.checkpoints import (
    Checkpoint,
    change,
    check_same,
    checkpoints_of,
    locate,
    tensors,
)

HEAD, REST = "output head", "rest"
THIRDS = ("early", "mid", "late")
EMBEDDING = re.compile(r"(^|\.)(embed_tokens|wte)\.weight$")
LM_HEAD = re.compile(r"(^|\.)lm_head\.weight$")
LAYER = re.compile(r"\.(?:layers|h)\.(\d+)\.")
RANDOMISED = {"rank": 8, "oversample": 12, "iterations": 8, "seed": 0}  # see metrics/weights.py
Vectors = dict[tuple[str, str], np.ndarray]  # tensor, checkpoint -> u


@dataclass(frozen=True)
class Geometry:
    before: str | None  # None for a cluster's job, which knows its models
    after: list[str]
    name: str  # name of the folder that the tables go to
    full_up_to: int  # largest shorter side of a matrix with all singular values computed
    delta: float  # the delta of srank
    block_mb: float  # float32 numbers of each checkpoint that are in memory at once
    memory_gb: float  # limit of the process, in GB of 1e9 bytes
    results_dir: Folder


def run(config: Geometry, progress: bool = False) -> Path:
    remedy = "give before=FOLDER after=[FOLDER,...]"
    require(config.before is not None and bool(config.after), "after", config.after, remedy)
    before, after = (
        Checkpoint(locate(config.before), "before", "base"),
        checkpoints_of(config.after),
    )
    folder = Path(config.results_dir) / "fade" / "geometry" / config.name
    table, vectors = changes(config, before, after, progress)
    write_csv(folder / "tensors.csv", table)
    write_csv(folder / "thirds.csv", thirds(after, vectors))
    return folder


def part_of(name: str, names: set[str]) -> str:
    """Return "output head", "layer N" or "rest"; a tied embedding counts as the output head."""
    tied = not any(LM_HEAD.search(other) for other in names)
    if LM_HEAD.search(name) or (tied and EMBEDDING.search(name)):
        return HEAD
    layer = LAYER.search(name)
    return f"layer {layer.group(1)}" if layer else REST


def changes(
    config: Geometry, before: Checkpoint, after: list[Checkpoint], progress: bool
) -> tuple[pd.DataFrame, Vectors]:
    """Return (table of tensors, leading vector of every matrix). Raises UserError naming memory_gb
    before anything is read, if the limit is too low."""
    from rich.progress import track

    old, new = tensors(before.path), [tensors(one.path) for one in after]
    for one, theirs in zip(after, new, strict=True):
        check_same(before, one, old, theirs)
    needed = memory_gb(config, {name: shape for name, (_, shape) in old.items()}, len(after))
    remedy = f"this takes {needed:.2g} GB; allow as much, or lower block_mb or full_up_to"
    require(needed <= config.memory_gb, "memory_gb", config.memory_gb, remedy)
    rows, vectors = [], {}
    for name in track(sorted(old), "weight changes", disable=not progress):
        shape = old[name][1]
        size = max(1, int(config.block_mb * 2**18 / np.prod(shape[1:])))
        for one, theirs in zip(after, new, strict=True):
            blocks = partial(change, old, theirs, name, size)
            flat = (block.ravel().astype(np.float64) for block in blocks())
            row = one.about() | {"part": part_of(name, set(old)), "tensor": name}
            row |= {"shape": "x".join(map(str, shape)), "l2": sum(x @ x for x in flat) ** 0.5}
            if len(shape) == 2 and min(shape) > 1:
                if whole(config, name, shape):
                    svd = weights.full(blocks, wide=shape[0] < shape[1])
                else:
                    svd = weights.randomised(blocks, **RANDOMISED)
                vectors[name, one.name] = svd.u
                row |= described(svd, config.delta)
            rows.append(row)
    table = pd.DataFrame(rows)
    energy = table.l2**2
    table["energy_share"] = 100 * energy / energy.groupby(table.checkpoint).transform("sum")
    return table, vectors


def whole(config: Geometry, name: str, shape: tuple[int, ...]) -> bool:
    """Return whether all singular values of a matrix are computed; always for the output head
    (`lm_head`), since Fig. 5 shows its srank."""
    return min(shape) <= config.full_up_to or LM_HEAD.search(name) is not None


def memory_gb(config: Geometry, shapes: dict[str, tuple[int, ...]], count: int) -> float:
    """Return the memory that `changes` of `count` checkpoints takes at once, in GB of 1e9 bytes:
    0.5 for Python and its libraries; a block of the weights before and after, of their difference,
    and of the difference in float64; the singular value decomposition of one matrix at a time
    (common/metrics/weights.py); and the leading vectors of all matrices."""
    kept = largest = 0
    for name, shape in shapes.items():
        if len(shape) != 2 or min(shape) < 2:
            continue
        (m, n), small = shape, min(shape)
        kept += 8 * m * count
        if whole(config, name, shape):
            held = 8 * 4 * small**2 + (12 * m * n if m < n else 0)
        else:
            held = 8 * (2 * m + 3 * n) * (RANDOMISED["rank"] + RANDOMISED["oversample"])
        largest = max(largest, held)
    return 0.5 + (config.block_mb * 2**18 * (3 * 4 + 8) + kept + largest) / 1e9


def described(svd: weights.Svd, delta: float) -> dict:
    """Return the columns that describe a matrix by its decomposition. u's entries belong to the
    matrix's rows; in the output head these are output tokens (Sec. 15.1)."""
    return {
        "s1": svd.s[0],
        "s2": svd.s[1],
        "s1_over_s2": svd.ratio,
        "rank1_fraction": svd.rank1,
        "srank": svd.srank(delta),
        "u_same_sign": weights.same_sign(svd.u),
        "u_half_energy": weights.half_energy(svd.u),
        "svd": "full" if svd.complete else "randomised",
        "svd_error": svd.error,
    }


def thirds(after: list[Checkpoint], vectors: Vectors) -> pd.DataFrame:
    """Return |cos| of u with that of the last checkpoint of the same label and seed, as
    Table 12 prints it, for each checkpoint and part: the output head, or the mean over the
    matrices in the early, mid or late third of the layers. Layer l of L is in third floor(3
    l / L)."""
    last = {(one.label, one.seed): one for one in after}
    names = sorted({name for name, _ in vectors})
    layer = {name: int(found[1]) for name in names if (found := LAYER.search(name))}
    rows = []
    for one in after:
        end = last[one.label, one.seed]
        for name in names:
            part = part_of(name, set(names))
            if name in layer:
                part = THIRDS[3 * layer[name] // (1 + max(layer.values()))]
            cosine = weights.cosine(vectors[name, one.name], vectors[name, end.name])
            rows.append(one.about() | {"last": end.name, "part": part, "cos_u": cosine})
    table = pd.DataFrame(rows)
    keys = ["checkpoint", "label", "seed", "step", "last", "part"]
    means = table[table.part != REST].groupby(keys, sort=False, dropna=False)
    return means["cos_u"].mean().reset_index()
