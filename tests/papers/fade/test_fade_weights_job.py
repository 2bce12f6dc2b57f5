from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from refuses import refuses
from safetensors.torch import save_file

from common.config.schema import Model
from common.evaluation.config import Row
from common.results.collect import verify
from common.sweeps.measures import Measure
from common.sweeps.profiles import load_profile
from papers.fade.weights import cluster
from papers.fade.weights.checkpoints import SINGLE
from slurm import plan
from slurm.tables import Wanted, chosen

SHAPES = {
    "lm_head.weight": (11, 6),
    "model.embed_tokens.weight": (11, 6),
    "model.layers.0.mlp.down_proj.weight": (6, 14),
    "model.layers.1.mlp.down_proj.weight": (6, 14),
}


def weights(folder: Path, seed: int) -> dict[str, torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    held = {name: torch.randn(shape, generator=made) for name, shape in SHAPES.items()}
    folder.mkdir(parents=True)
    save_file(held, folder / SINGLE)
    return {name: tensor.double() for name, tensor in held.items()}


@pytest.fixture
def trained(tmp_path):
    """(measure of steps 50 and 4000, its weights by step; 0 is the start)."""
    run = tmp_path / "fade" / "run"
    held = {0: weights(tmp_path / "start", 0), 50: weights(run / "checkpoints/step-00050", 1)}
    held[4000] = weights(run / "model", 2)
    row = Row("fade", "cluster", "table3", "GRPO", "weights", 1, "run", 4000, None)
    start = Model("M", str(tmp_path / "start"), None, None)
    x = Measure(
        run="papers.fade.weights.cluster.run",
        takes="papers.fade.weights.cluster.takes",
        row=row,
        model=start,
        steps=[50, 4000],
        updates=10,
        results_dir=str(tmp_path),
    )
    return x, held


def test_the_rows_are_those_of_the_whole_matrices(trained):
    x, held = trained
    cluster.run(x)
    assert verify(x.path) == []
    rows = pd.read_csv(x.path / "metrics.csv").set_index("metric")
    for step, words in ((50, ", step 500"), (4000, ", step 40k"), (4000, "")):
        delta = {name: held[step][name] - held[0][name] for name in SHAPES}
        square = {name: float((change**2).sum()) for name, change in delta.items()}
        s = np.linalg.svd(delta["lm_head.weight"].numpy(), compute_uv=False)
        layers = [square[name] for name in SHAPES if "layers" in name]
        share = 100 / sum(square.values())
        wanted = {
            "output_head_L2_share": share * square["lm_head.weight"],
            "s1/s2": s[0] / s[1],
            "rank1_fraction": 100 * s[0] ** 2 / (s**2).sum(),
            "srank": 1 + np.searchsorted(s.cumsum() / s.sum(), 0.99),
            "inner": share * sum(layers) / 2,
        }
        got = rows.loc[[name + words for name in wanted]]
        assert got["value"].tolist() == pytest.approx([*wanted.values()], rel=1e-5)
        assert set(got["step"]) == {step}
    assert set(rows["run_id"]) == {x.path.name}
    thirds = pd.read_csv(x.path / "thirds.csv")
    assert thirds[thirds["step"] == 4000]["cos_u"].tolist() == pytest.approx([1, 1, 1])


def test_table_12_is_against_step_15000(trained, tmp_path):
    """|cos| of u with that step's, of the head and the largest of the inner thirds; step 40,000 has
    none."""
    x, held = trained
    held[1500] = weights(tmp_path / "fade/run/checkpoints/step-01500", 3)
    x = replace(x, steps=[50, 1500, 4000])
    cluster.run(x)
    rows = pd.read_csv(x.path / "metrics.csv").set_index("metric")["value"]
    u = {
        (step, name): np.linalg.svd((held[step][name] - held[0][name]).numpy())[0][:, 0]
        for step in (50, 1500)
        for name in SHAPES
    }
    cosine = {name: abs(u[50, name] @ u[1500, name]) for name in SHAPES}
    inner = max(value for name, value in cosine.items() if "layers" in name)
    assert rows["cos_u, step 500"] == pytest.approx(cosine["lm_head.weight"], rel=1e-5)
    assert rows["inner_cos_u, step 500"] == pytest.approx(inner, rel=1e-5)
    assert rows["cos_u, step 15k"] == pytest.approx(1)
    assert "cos_u, step 40k" not in rows
    share = (u[50, "lm_head.weight"] > 0).mean()
    assert rows["u_same_sign, step 500"] == pytest.approx(100 * max(share, 1 - share))


def test_a_step_that_is_measured_is_not_measured_again(trained, monkeypatch):
    x, _ = trained
    real, seen = cluster.changes, []

    def killed(config, before, after, progress):
        seen.append(after[0].step)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(config, before, after, progress)

    monkeypatch.setattr(cluster, "changes", killed)
    with pytest.raises(KeyboardInterrupt):
        cluster.run(x)
    cluster.run(x)
    assert seen == [50, 4000, 4000]
    assert verify(x.path) == []
    cluster.run(x)  # found, not repeated
    assert len(seen) == 3


@pytest.mark.sweep
def test_every_training_that_a_table_needs_is_measured_after_it():
    from papers.fade.launch import TABLES

    found = chosen("fade", TABLES, Wanted(table="fig8_table,table9"))
    rows = {"grpo", "reinforce", "power_2", "fade_h05", "fade_h1", "fade_h13"}
    rows |= {"asym_03", "asym_05", "asym_07"}
    assert {x.name for x in found.runs} == {f"qwen7b_{row}" for row in rows} | {"cwm32b_asym_05"}
    profile = load_profile("h100-2x8")
    jobs = plan.plan(found.runs, found.evaluations, found.commands, found.measures)
    own = [job for job in jobs if job.kind == "measure"]
    assert {job.of.name for job in own} == {x.name for x in found.runs}
    assert all(job.needs == (job.of.run_id,) for job in own)
    assert set(jobs[-1].follows) >= {job.key for job in own}
    for job in own:
        e = cluster.takes(job.config, job.of, profile)
        assert (e.gpus, e.gpu_hours.high) == (0, 0)
        assert 0 < e.memory_gb < 8
        assert e.hours.high < 24 * profile.light_time_min
    for key in ("light_memory_gb", "light_time_min"):
        with refuses(key, 1):
            cluster.takes(own[0].config, own[0].of, replace(profile, **{key: 1}))
    unlimited = replace(profile, light_memory_gb=None)  # the site asks for no memory
    assert cluster.takes(own[0].config, own[0].of, unlimited).memory_gb > 1
