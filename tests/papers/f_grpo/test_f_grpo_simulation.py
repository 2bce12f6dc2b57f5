import gzip
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import chisquare

from common.config.compose import compose
from common.config.strict import strict
from papers.f_grpo.simulation import tables
from papers.f_grpo.simulation.config import Simulation
from papers.f_grpo.simulation.formulas import draw, gradient, metrics
from papers.f_grpo.simulation.tables import COLUMNS, simulate

REWARDS = {"R_c": 1.0, "R_w": -1.0}
SMALL = [
    "actions=50",
    "correct=10",
    "steps=30",
    "seeds=2",
    "N=[2,8]",
    "workers=1",
]


def config(*overrides: str) -> Simulation:
    return strict(Simulation, compose("f_grpo", [*SMALL, *overrides], "simulation"))


@pytest.fixture
def policy():
    """Five actions, two correct, and a sample of 6: 0 twice, 1 once, 3 three times; X = 3."""
    z = torch.tensor([[1.0, 0.5, 0.0, -0.5, 0.3]], dtype=torch.float64)
    return z, torch.tensor([[2.0, 1.0, 0.0, 3.0, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("objective", ["score", "printed", "eq7"])
def test_gradient_is_autograds(policy, objective, gamma):
    z, counts = policy
    z.requires_grad_()
    p = z.softmax(1)
    R = torch.tensor([1.0, 1, -1, -1, -1], dtype=torch.float64)
    samples = torch.tensor([0, 0, 1, 3, 3, 3])
    r = R[samples] - R[samples].mean()
    g = (1 - 3 / 6) ** gamma
    value = {
        "score": (r * p.log()[0, samples]).sum(),
        "printed": (r * p[0, samples]).sum(),
        "eq7": (R * p[0] * (counts[0] > 0)).sum(),  # Sec. 2.3: the distinct samples' surrogate
    }[objective]
    (expected,) = torch.autograd.grad(g / 6 * value, z)
    options = {"objective": objective, "correct": 2, "gamma": gamma, **REWARDS}
    torch.testing.assert_close(gradient(counts, p.detach(), **options), expected)


def test_metrics_by_hand():
    p = torch.tensor([0.5, 0.1, 0.4, 0.0], dtype=torch.float64)
    p_0 = torch.tensor([0.3, 0.2], dtype=torch.float64)
    measured = metrics(p, p_0)  # action 0 gained, action 1 lost 0.1 of the initial 0.5
    assert measured["Q_pos"] == pytest.approx(0.6)
    assert measured["M_ret"] == pytest.approx(1 - 0.1 / 0.5)
    assert measured["entropy"] == pytest.approx(
        -(0.5 * np.log(0.5) + 0.1 * np.log(0.1) + 0.4 * np.log(0.4))
    )


def test_paper_size_starts_as_app_j_says():
    start = simulate(
        config("actions=128000", "correct=10000", "steps=1"), N=2, gamma=0, seeds=[0]
    ).iloc[0]
    assert start["M_ret"] == 1
    assert start["Q_pos"] == pytest.approx(0.63, abs=5e-4)
    total = np.exp(5) + 9999 * np.exp(3) + 118000
    leaf, anchor = np.exp(3) / total, np.exp(5) / total
    terms = (
        anchor * np.log(anchor) + 9999 * leaf * np.log(leaf) + 118000 / total * np.log(1 / total)
    )
    assert start["entropy"] == pytest.approx(-terms, rel=1e-6)


def test_sampler_follows_p():
    p = torch.tensor([[0.5, 0.2, 0.0, 0.2, 0.1], [0.1, 0.1, 0.1, 0.1, 0.6]], dtype=torch.float64)
    uniforms = torch.rand(2, 20000, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for scale in (1, 7):  # the CDF need not be normalised
        actions = draw((scale * p).cumsum(1), uniforms)
        for row, wanted in zip(actions, p.numpy(), strict=True):
            counts = np.bincount(row, minlength=5)
            kept = wanted > 0
            assert counts[~kept].sum() == 0
            assert chisquare(counts[kept], 20000 * wanted[kept]).pvalue > 1e-3


def reference(c: Simulation, N: int, gamma: float, batches: list[np.ndarray]) -> np.ndarray:
    """Logits after the sampled `batches`, sample by sample in float64."""
    z = np.full(c.actions, c.incorrect_logit)
    z[: c.correct], z[0] = c.correct_logit, c.anchor_logit
    m, v = np.zeros(c.actions), np.zeros(c.actions)
    for t, actions in enumerate(batches, 1):
        p = np.exp(z) / np.exp(z).sum()
        R = np.where(actions < c.correct, c.R_c, c.R_w)
        g = (1 - (actions < c.correct).mean()) ** gamma
        grad = np.zeros(c.actions)
        for a, r in zip(actions, R - R.mean(), strict=True):
            one = np.eye(c.actions)[a]
            grad += g / N * r * (one - p) * (p[a] if c.objective == "printed" else 1)
        if c.optimizer == "sgd":
            z = z + c.lr * grad
            continue
        if c.optimizer == "adamw":
            z = z - c.lr * c.weight_decay * z
        m = c.betas[0] * m + (1 - c.betas[0]) * grad
        v = c.betas[1] * v + (1 - c.betas[1]) * grad**2
        mhat, vhat = m / (1 - c.betas[0] ** t), v / (1 - c.betas[1] ** t)
        z = z + c.lr * mhat / (np.sqrt(vhat) + c.eps)
    return z


@pytest.mark.parametrize("gamma", [0.0, 1.0])
@pytest.mark.parametrize(
    "reading", ["score_adam", "score_sgd", "printed_sgd", "printed_adam", "printed_adamw"]
)
def test_simulation_is_the_slow_reference(monkeypatch, reading, gamma):
    objective, optimizer = reading.split("_")
    # a large weight decay, or it would hide in the rounding
    c = config(f"objective={objective}", f"optimizer={optimizer}", "weight_decay=2", "lr=0.05")
    batches = []
    monkeypatch.setattr(
        tables, "draw", lambda cdf, u: batches.append(draw(cdf, u)) or batches[-1].clone()
    )
    rows = simulate(c, N=8, gamma=gamma, seeds=[5])
    z = reference(c, 8, gamma, [batch[0].numpy() for batch in batches])
    z_0 = reference(c, 8, gamma, [])
    p, p_0 = np.exp(z) / np.exp(z).sum(), np.exp(z_0) / np.exp(z_0).sum()
    expected = metrics(torch.from_numpy(p), torch.from_numpy(p_0[: c.correct]))
    assert expected["M_ret"] < 1
    assert rows["step"].tolist() == [0, 10, 20, 30]
    for name, value in expected.items():
        assert rows[name].iloc[-1] == pytest.approx(value, rel=2e-5), name


def test_sweep_resumes_to_the_same_bytes(tmp_path, monkeypatch):
    calls = []

    def counted(config, *, N, gamma, seeds):
        calls.append((N, gamma, seeds))
        return simulate(config, N=N, gamma=gamma, seeds=seeds)

    monkeypatch.setattr(tables, "simulate", counted)
    c = config(f"results_dir={tmp_path}")
    folder = tables.run(c)
    files = [folder / "final.csv.gz", folder / "trajectory.csv.gz"]
    first = [file.read_bytes() for file in files]
    assert len(calls) == 2 * 2 * 2
    assert gzip.decompress(first[0]).startswith(
        b"reading,gamma,N,seed,Q_pos,M_ret,entropy\nscore_adam,0,2,0,"
    )
    assert list(pd.read_csv(files[1])) == COLUMNS
    assert len(pd.read_csv(files[1])) == 8 * 4

    calls.clear()
    tables.run(c)
    assert calls == []

    (unit,) = tmp_path.glob("f_grpo/simulation-*/units/score_adam-gamma1-N8-seed1.csv")
    unit.unlink()
    tables.run(c)
    assert calls == [(8, 1, [1])]
    assert [file.read_bytes() for file in files] == first

    calls.clear()  # a third seed joins the two that are there; another lr is another run
    tables.run(replace(c, seeds=3, N=[2], gamma=[0]))
    assert calls == [(2, 0, [2])]
    assert len(pd.read_csv(files[0])) == 9
    tables.run(replace(c, lr=0.5))
    assert len(pd.read_csv(files[0])) == 8


@pytest.mark.process
def test_workers_give_the_same_bytes(tmp_path):
    c = config("N=[2]", "gamma=[0]")
    folders = [
        tables.run(replace(c, workers=w, results_dir=str(tmp_path / str(w)))) for w in (1, 2)
    ]
    one, two = [(folder / "trajectory.csv.gz").read_bytes() for folder in folders]
    assert one == two
