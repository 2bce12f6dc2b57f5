"""The geometry of weight changes, W_after - W_before of every tensor of given checkpoints (FADE
Sec. 4.2, 15; Figs 3, 5, Tables 9, 12), streamed from safetensors in blocks of rows.

A folder holds model.safetensors, or its shards and model.safetensors.index.json, or is a run folder
with such a `model/`. Written below results_dir/fade/geometry/<name>:

    tensors     one row for each checkpoint and tensor: l2 = ||Delta||, energy_share of all
                ||Delta||^2; for matrices also s1, s2, s1/s2, rank-1 fraction, stable rank, srank,
                which decomposition was used and its error
    parts       norms, shares and mean rank-1 fraction of the output head, of each layer and of the
                rest (Fig. 8's "OH L2" and "Inner" are such shares: 6.1 + 28 x 3.32 = 99.1)
    alignment   |cos| between the leading singular vectors of each checkpoint and of the last one
                (Table 12)
    thirds      means of `alignment` over the output head and the early, mid and late third of
                layers, as Table 12 prints them: layer l of L is in third floor(3 l / L)
    similarity  cosine of the whole weight changes of every two checkpoints

A model with tied embeddings has one matrix for embedding and output head. Its change counts as the
output head's here, although it also holds the gradient of the input side. The laptop model has tied
embeddings; Qwen 2.5 7B has not. The paper prints neither the delta of srank nor whether its shares
are of norms or of squared norms: `parts` has both.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import combinations
from pathlib import Path

from common.errors import UserError, require
from common.results.files import write_csv, write_json
from papers.fade.weights.checkpoints import (
    Checkpoint,
    change,
    check_same,
    laptop_runs,
    locate,
    named,
    tensors,
)
from papers.fade.weights.config import Geometry

HEAD, REST = "output head", "rest"
THIRDS = ("early", "mid", "late")
EMBEDDING = re.compile(r"(^|\.)(embed_tokens|wte)\.weight$")
LM_HEAD = re.compile(r"(^|\.)lm_head\.weight$")
LAYER = re.compile(r"\.(?:layers|h)\.(\d+)\.")


# ---- the tables


def part_of(name: str, names: set[str]) -> str:
    """Return "output head", "layer N" or "rest"; a tied embedding counts as the output head."""
    tied = not any(LM_HEAD.search(other) for other in names)
    if LM_HEAD.search(name) or (tied and EMBEDDING.search(name)):
        return HEAD
    layer = LAYER.search(name)
    return f"layer {layer.group(1)}" if layer else REST


def measure(config: Geometry, before: Checkpoint, after: list[Checkpoint], progress: bool) -> dict:
    """Return the five tables by name."""
    table, vectors, products = changes(config, before, after, progress)
    aligned = alignment(after, vectors)
    return {
        "tensors": table,
        "parts": parts(table),
        "alignment": aligned,
        "thirds": thirds(aligned),
        "similarity": similarity([one.name for one in after], products),
    }


def changes(config: Geometry, before: Checkpoint, after: list[Checkpoint], progress: bool) -> tuple:
    """Return (table of tensors, leading vectors, inner products of whole changes).

    The vectors (u, v) of every matrix are keyed by its name and the name of its checkpoint.
    """
    import numpy as np
    import pandas as pd
    from rich.progress import track

    old, new = tensors(before.path), [tensors(one.path) for one in after]
    for one, theirs in zip(after, new, strict=True):
        check_same(before, one, old, theirs)
    check_memory(config, {name: shape for name, (_, shape) in old.items()}, len(after))
    rows, vectors, products = [], {}, 0.0
    for name in track(sorted(old), "weight changes", disable=not progress):
        shape = old[name][1]
        size = max(1, int(config.block_mb * 2**18 / np.prod(shape[1:])))
        inner = inner_products([change(old, theirs, name, size, config.dtype) for theirs in new])
        products += inner
        for i, (one, theirs) in enumerate(zip(after, new, strict=True)):
            row = about(one) | {"part": part_of(name, set(old)), "tensor": name}
            row |= {"shape": "x".join(map(str, shape)), "l2": inner[i, i] ** 0.5}
            if len(shape) == 2 and min(shape) > 1:
                blocks = partial(change, old, theirs, name, size, config.dtype)
                svd = decompose(config, blocks, name, shape)
                vectors[name, one.name] = (svd.u, svd.v)
                row |= described(svd, config.delta)
            rows.append(row)
    table = pd.DataFrame(rows)
    energy = table.l2**2
    table["energy_share"] = 100 * energy / energy.groupby(table.checkpoint).transform("sum")
    return table, vectors, products


Shapes = dict[str, tuple[int, ...]]  # name of a tensor -> its shape


def whole(config: Geometry, name: str, shape: tuple[int, ...]) -> bool:
    """Return whether all singular values of a matrix are computed.

    They always are for the output head (`lm_head`), since Fig. 5 shows its srank.
    """
    return min(shape) <= config.full_up_to or LM_HEAD.search(name) is not None


def check_memory(config: Geometry, shapes: Shapes, count: int) -> None:
    """Raise UserError naming memory_gb if `count` changes of tensors of these shapes need more."""
    needed = memory_gb(config, shapes, count)
    require(
        needed <= config.memory_gb,
        "memory_gb",
        config.memory_gb,
        f"this takes {needed:.2g} GB; allow as much, lower block_mb={config.block_mb:g} or "
        f"full_up_to={config.full_up_to}, or give fewer checkpoints at once ({count} now)",
    )


def memory_gb(config: Geometry, shapes: Shapes, count: int) -> float:
    """Return the memory that `measure` takes at once, in GB of 1e9 bytes.

    The sum has 0.5 for Python and its libraries; for each checkpoint a block of the weights before
    and after, of their difference, and of the difference in float64; the singular value
    decomposition of one matrix at a time (common/metrics/weights.py); and the leading vectors of
    all matrices.
    """
    number = 8 if config.dtype == "float64" else 4
    blocks, kept, largest = count * config.block_mb * 2**18 * (3 * number + 8), 0, 0
    for name, shape in shapes.items():
        if len(shape) != 2 or min(shape) < 2:
            continue
        (m, n), small = shape, min(shape)
        kept += 8 * (m + n) * count
        if whole(config, name, shape):
            held = 8 * 4 * small**2 + (m * n * (number + 8) if m < n else 0)
        else:
            held = 8 * (2 * m + 3 * n) * min(config.rank + config.oversample, n)
        largest = max(largest, held)
    return 0.5 + (blocks + kept + largest) / 1e9


def inner_products(changes: list[Iterator]):
    """Return <Delta_a, Delta_b> of every two changes of one tensor, in float64."""
    import numpy as np

    total = np.zeros((len(changes), len(changes)))
    for blocks in zip(*changes, strict=True):
        flat = [block.ravel().astype(np.float64) for block in blocks]
        total += [[a @ b for b in flat] for a in flat]
    return total


def decompose(config: Geometry, blocks, name: str, shape: tuple[int, ...]):
    from common.metrics import weights

    if whole(config, name, shape):
        return weights.full(blocks)
    keys = ("rank", "oversample", "iterations", "seed")
    return weights.randomised(blocks, **{key: getattr(config, key) for key in keys})


def about(one: Checkpoint) -> dict:
    return {"checkpoint": one.name, "label": one.label, "seed": one.seed, "step": one.step}


def described(svd, delta: float) -> dict:
    """Return the columns of the table that describe a matrix by its decomposition.

    The entries of u belong to the rows of the matrix; in the output head these are output tokens
    (Sec. 15.1).
    """
    from common.metrics import weights

    return {
        "s1": svd.s[0],
        "s2": svd.s[1],
        "s1_over_s2": svd.ratio,
        "rank1_fraction": svd.rank1,
        "stable_rank": svd.stable_rank,
        "srank": svd.srank(delta),
        "u_same_sign": weights.same_sign(svd.u),
        "u_half_energy": weights.half_energy(svd.u),
        "svd": "full" if svd.complete else "randomised",
        "svd_error": svd.error,
    }


def parts(table):
    """Return one row for each checkpoint and part.

    It holds the part's norm, its share of all ||Delta||^2 and its norm's share of the sum of all
    parts' norms, both in percent, and the mean rank-1 fraction of its matrices.
    """
    keys = ["checkpoint", "label", "seed", "step", "part"]
    squared = table.assign(squared=table.l2**2).groupby(keys, sort=False, dropna=False)
    sums = squared.agg(
        squared=("squared", "sum"),
        energy_share=("energy_share", "sum"),
        rank1_fraction=("rank1_fraction", "mean"),
    ).reset_index()
    sums.insert(len(keys), "l2", sums.squared**0.5)
    sums["l2_share"] = 100 * sums.l2 / sums.groupby("checkpoint").l2.transform("sum")
    return sums.drop(columns="squared")


def alignment(after: list[Checkpoint], vectors: dict):
    """Return |cos| of u and of v with those of the last checkpoint, for Table 12.

    There is one row for each checkpoint and matrix. The last checkpoint is the last one with the
    same label and seed.
    """
    import pandas as pd

    from common.metrics.weights import cosine

    last = {(one.label, one.seed): one for one in after}
    names = {name for name, _ in vectors}
    rows = []
    for name, one in ((n, o) for o in after for n in sorted(names)):
        end = last[one.label, one.seed]
        (u, v), (last_u, last_v) = vectors[name, one.name], vectors[name, end.name]
        row = about(one) | {"last": end.name, "part": part_of(name, names), "tensor": name}
        rows.append(row | {"cos_u": cosine(u, last_u), "cos_v": cosine(v, last_v)})
    return pd.DataFrame(rows)


def thirds(table):
    """Average `alignment` as Table 12 prints it.

    There is one row for each checkpoint and part: the output head, or the early, mid or late third
    of layers.
    """
    layer = table.part.str.extract(r"^layer (\d+)$")[0].astype(float)
    third = 3 * layer // (1 + layer.max())
    where = third.map(dict(enumerate(THIRDS))).fillna(table.part.where(table.part == HEAD))
    rows = table.assign(part=where).dropna(subset="part")
    keys = ["checkpoint", "label", "seed", "step", "last", "part"]
    return rows.groupby(keys, sort=False, dropna=False)[["cos_u", "cos_v"]].mean().reset_index()


def similarity(names: list[str], products):
    """Return the cosine of the whole weight changes of every two checkpoints.

    It is missing if one of the changes is 0.
    """
    import pandas as pd

    length = products.diagonal() ** 0.5
    rows = []
    for i, j in combinations(range(len(names)), 2):
        both = length[i] * length[j]
        rows.append((names[i], names[j], products[i, j] / both if both > 0 else None))
    return pd.DataFrame(rows, columns=["a", "b", "cosine"])


def run(config: Geometry, progress: bool = False) -> list[Path]:
    """Measure and write the tables; return their folders, one for each base model."""
    if config.before is not None:
        pairs = [(Checkpoint(locate(config.before), "before", "base"), named(config.after))]
    else:
        pairs = laptop_runs(Path(config.results_dir))
        if not pairs:
            raise UserError(
                f"results_dir={config.results_dir}: holds no finished run of FADE; run one, or "
                "give before=FOLDER after=[FOLDER,...]"
            )
    folders = []
    for before, after in pairs:
        folder = config.folder if len(pairs) == 1 else config.folder / before.name
        for name, table in measure(config, before, after, progress).items():
            write_csv(folder / f"{name}.csv", table)
        listed = {"before": str(before.path), "after": {o.name: str(o.path) for o in after}}
        write_json(folder / "settings.json", asdict(config) | listed)
        folders.append(folder)
    return folders
