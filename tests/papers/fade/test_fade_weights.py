import json

import numpy as np
import pandas as pd
import pytest
import torch
from refuses import refuses
from safetensors.torch import save_file

from common.config.compose import compose
from common.config.strict import strict
from common.errors import UserError
from common.metrics import weights as metrics
from papers.fade.weights import checkpoints, tables
from papers.fade.weights.tables import Geometry

SKETCH = dict(rank=4, oversample=4, iterations=3, seed=0)


def split(matrix: np.ndarray, rows: int):
    """The matrix as blocks of `rows` rows."""
    return lambda: (matrix[start : start + rows] for start in range(0, len(matrix), rows))


def random(m: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((m, n))


# ---- singular values


@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (12, 12), (1, 9), (9, 1)])
def test_full_is_numpys_svd(shape):
    matrix = random(*shape)
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    spectrum = metrics.full(split(matrix, 5), wide=shape[0] < shape[1])
    np.testing.assert_allclose(spectrum.s, s, rtol=1e-9)
    assert spectrum.energy == pytest.approx(np.linalg.norm(matrix) ** 2)
    assert spectrum.rank1 == pytest.approx(s[0] ** 2 / (s**2).sum())
    if len(s) > 1:
        assert spectrum.ratio == pytest.approx(s[0] / s[1])
    assert metrics.cosine(spectrum.u, u[:, 0]) == pytest.approx(1)
    assert metrics.cosine(spectrum.v, vt[0]) == pytest.approx(1)
    np.testing.assert_allclose(matrix @ spectrum.v, spectrum.s[0] * spectrum.u, atol=1e-9)  # a pair


def test_the_stable_rank_by_hand():
    # singular values 4, 3: 4/7 = 0.571 reaches 1 - 0.5 alone; 1 - 0.42 = 0.58 needs both
    spectrum = metrics.full(split(np.array([[0.0, 3.0], [4.0, 0.0], [0.0, 0.0]]), 2), wide=False)
    assert (spectrum.srank(0.5), spectrum.srank(0.42), spectrum.srank(0.01)) == (1, 2, 2)


@pytest.mark.parametrize("shape", [(300, 60), (60, 300)])
def test_randomised_is_close_on_decaying_spectra(shape):
    sides = [np.linalg.qr(random(side, 60, seed))[0] for seed, side in enumerate(shape)]
    matrix = (sides[0] * 0.7 ** np.arange(60) @ sides[1].T).astype(np.float32)
    u, s, vt = np.linalg.svd(matrix.astype(np.float64), full_matrices=False)
    spectrum = metrics.randomised(split(matrix, 37), **SKETCH)
    np.testing.assert_allclose(spectrum.s[:2], s[:2], rtol=1e-5)
    assert spectrum.rank1 == pytest.approx(s[0] ** 2 / (s**2).sum(), rel=1e-5)
    assert metrics.cosine(spectrum.u, u[:, 0]) == pytest.approx(1, abs=1e-6)
    assert metrics.cosine(spectrum.v, vt[0]) == pytest.approx(1, abs=1e-6)
    assert spectrum.error < 1e-4
    assert np.isnan(spectrum.srank(0.01))  # not all singular values are known


# ---- checkpoints


SHAPES = {
    "model.embed_tokens.weight": (11, 6),
    "model.layers.0.mlp.down_proj.weight": (6, 14),
    "model.layers.0.input_layernorm.weight": (6,),
    "model.layers.1.mlp.down_proj.weight": (6, 14),
    "model.layers.1.self_attn.q_proj.bias": (6,),
    "model.norm.weight": (6,),
    "lm_head.weight": (11, 6),
}


def values(seed: int, shapes: dict = SHAPES) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def save(folder, held: dict, shards: int = 1):
    folder.mkdir(parents=True)
    if shards == 1:
        save_file(held, folder / checkpoints.SINGLE)
        return folder
    listed = {}
    for i, name in enumerate(held):
        listed[name] = f"model-{i % shards:05d}.safetensors"
    for file in set(listed.values()):
        save_file({n: held[n] for n in held if listed[n] == file}, folder / file)
    (folder / checkpoints.INDEX).write_text(json.dumps({"weight_map": listed}))
    return folder


def geometry(tmp_path, start, *ends, **changes) -> Geometry:
    given = [f"before={start}", f"after=[{','.join(map(str, ends))}]"]
    given += [f"results_dir={tmp_path / 'results'}", *(f"{k}={v}" for k, v in changes.items())]
    return strict(Geometry, compose("fade", given, "weights"))


def measured(*arguments, **changes) -> dict[str, pd.DataFrame]:
    folder = tables.run(geometry(*arguments, **changes), progress=False)
    return {name: pd.read_csv(folder / f"{name}.csv") for name in ("tensors", "thirds")}


def test_streamed_from_shards_is_numpy_in_memory(tmp_path):
    base, one, two = values(0), values(1), values(2)
    folders = [
        save(tmp_path / "base", base, shards=3),
        save(tmp_path / "one", one, shards=2),
        save(tmp_path / "run" / "model", two),
    ]
    tiny = 3 * 6 * 4 / 2**20  # three rows of six columns at a time
    tables = measured(tmp_path, *folders, block_mb=tiny)
    table = tables["tensors"].set_index(["checkpoint", "tensor"])
    assert len(table) == 2 * len(SHAPES)
    for label, new in (("one", one), ("run", two)):
        total = sum(float(((new[n] - base[n]).double() ** 2).sum()) for n in base)
        for name, shape in SHAPES.items():
            delta = (new[name] - base[name]).double().numpy()
            row = table.loc[label, name]
            assert row.l2 == pytest.approx(np.linalg.norm(delta))
            assert row.energy_share == pytest.approx(100 * np.linalg.norm(delta) ** 2 / total)
            if len(shape) == 1:
                assert row[["s1", "rank1_fraction", "srank"]].isna().all()
                continue
            s = np.linalg.svd(delta, compute_uv=False)
            assert row.s1 == pytest.approx(s[0], rel=1e-6)
            assert row.s1_over_s2 == pytest.approx(s[0] / s[1], rel=1e-6)
            assert row.rank1_fraction == pytest.approx(s[0] ** 2 / (s**2).sum(), rel=1e-6)
            reached = np.flatnonzero(s.cumsum() / s.sum() >= 0.99)[0] + 1
            assert (row.srank, row.svd) == (reached, "full")
    whole = measured(tmp_path, *folders, block_mb=64)
    for name, frame in whole.items():
        pd.testing.assert_frame_equal(frame, tables[name], rtol=1e-9)


def test_shares_and_directions_by_hand(tmp_path):
    """The head's change is 3 e_0 x e_1, layer 0's a single entry of 4, the rest's nothing."""
    base = values(0)
    first = {name: tensor.clone() for name, tensor in base.items()}
    second = {name: tensor.clone() for name, tensor in base.items()}
    first["lm_head.weight"][0, 1] += 3
    first["model.layers.0.mlp.down_proj.weight"][2, 5] += 4
    second["lm_head.weight"][4, 1] += 3  # another token
    second["model.layers.0.mlp.down_proj.weight"][2, 6] -= 1
    folders = [save(tmp_path / n, h) for n, h in (("b", base), ("one", first), ("two", second))]
    tables = measured(tmp_path, *folders)
    table = tables["tensors"].set_index(["checkpoint", "part"]).loc["one"]
    assert table.loc["output head", "energy_share"] == pytest.approx(36)  # 9 of 25
    assert table.loc["layer 0", "energy_share"].sum() == pytest.approx(64)
    assert table.loc["output head", "rank1_fraction"] == pytest.approx(1)
    turned = tables["thirds"].set_index(["checkpoint", "part"])["cos_u"]
    assert turned["one", "output head"] == pytest.approx(0, abs=1e-6)
    assert turned["one", "early"] == pytest.approx(1)
    assert turned["two", "output head"] == pytest.approx(1)


def test_layers_are_averaged_in_thirds():
    """Table 12: 28 layers are 10, 9 and 9; each third is a mean over its layers' matrices."""
    cosines = {f"model.layers.{layer}.{w}.weight": layer / 28 for layer in range(28) for w in "ab"}
    cosines |= {"lm_head.weight": 0.5, "model.embed_tokens.weight": 0.9}
    vectors = {(name, "end"): np.array([1.0, 0.0]) for name in cosines}
    for name, cosine in cosines.items():
        vectors[name, "a"] = np.array([cosine, (1 - cosine**2) ** 0.5])
    after = [checkpoints.Checkpoint("", name, "given") for name in ("a", "end")]
    thirds = tables.thirds(after, vectors)
    thirds = thirds[thirds.checkpoint == "a"].set_index("part").cos_u
    means = [np.mean(range(10)) / 28, np.mean(range(10, 19)) / 28, np.mean(range(19, 28)) / 28]
    wanted = dict(zip(("output head", "early", "mid", "late"), (0.5, *means), strict=True))
    assert thirds.to_dict() == pytest.approx(wanted)


def test_memory_that_is_too_small_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    folders = [save(tmp_path / name, values(i)) for i, name in enumerate(("base", "after"))]
    monkeypatch.setattr(tables, "change", None)
    with refuses("memory_gb", "0.4"):
        measured(tmp_path, *folders, memory_gb=0.4)
    assert not (tmp_path / "results").exists()
    config = geometry(tmp_path, "a", "b", full_up_to=4096)
    # 7B: the head's (Gram) squares, four of 3584^2 numbers, are the largest
    sizes = tables.memory_gb(config, {"lm_head.weight": (152_064, 3584), "w": (3584, 18_944)}, 2)
    wide = 8 * 4 * 3584**2 + 12 * 3584 * 18_944
    assert sizes == pytest.approx(0.5 + (64 * 2**18 * 20 + 2 * 8 * (152_064 + 3584) + wide) / 1e9)


def test_a_tied_embedding_is_the_output_head():
    names = {"model.embed_tokens.weight", "model.norm.weight", "model.layers.3.mlp.up_proj.weight"}
    parts = [tables.part_of(name, names) for name in sorted(names)]
    assert parts == ["output head", "layer 3", "rest"]
    assert tables.part_of("model.embed_tokens.weight", names | {"lm_head.weight"}) == "rest"


# ---- bad input


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("not finite", r"model\.layers\.1\.mlp\.down_proj\.weight of .*after.*rows 4 to 5"),
        ("other name", r"tensor extra\.weight"),
        ("other shape", r"tensor lm_head\.weight: shape \(11, 6\) in .*, \(12, 6\) in"),
        ("missing shard", r"model-00001\.safetensors"),
        ("no file", r"after: holds neither"),
    ],
)
def test_bad_checkpoints_are_named(kind, named, tmp_path):
    after = values(1)
    if kind == "not finite":
        after["model.layers.1.mlp.down_proj.weight"][4, 2] = float("nan")
    if kind == "other name":
        after["extra.weight"] = after.pop("model.norm.weight")
    if kind == "other shape":
        after["lm_head.weight"] = torch.zeros(12, 6)
    folder = save(tmp_path / "after", after, shards=2 if "shard" in kind else 1)
    if kind == "missing shard":
        (folder / "model-00001.safetensors").unlink()
    if kind == "no file":
        (folder / checkpoints.SINGLE).unlink()
    before = save(tmp_path / "before", values(0))
    with pytest.raises(UserError, match=named):
        measured(tmp_path, before, folder, block_mb=2 * 14 * 4 / 2**20)
    assert not (tmp_path / "results").exists()
