"""The softmax toy: against a slow reference with torch's autograd and optimisers on the same random
numbers, its sampler, its advantages, its storage and its bad input."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import chisquare

from common.config.compose import compose
from common.config.strict import strict
from common.errors import UserError
from papers.over_sharpening import embeddings
from papers.over_sharpening.embeddings import EMBEDDING, LABELS
from papers.over_sharpening.toy import formulas, tables
from papers.over_sharpening.toy.config import Cell, Toy

SMALL = ["seeds=3", "steps=40", "every=10", "lr=[0.3,1.0]", "G=[4]", "traces=2"]


def config(*overrides: str) -> Toy:
    return strict(Toy, compose("over_sharpening", [*SMALL, *overrides], "toy"))


def reference(c: Toy, optimizer: str, G: int, cell: Cell, u: np.ndarray, uncorrected=True):
    """(pi(. | Persian), pi(. | Siamese) by similarity) of one seed, label by label, sample by
    sample; the rewards go through the method's own advantage function."""
    from common.methods.binding import advantages, bind

    embed = lambda name: torch.tensor(EMBEDDING[name], dtype=torch.float64)  # noqa: E731
    start = torch.stack([embed(name) for name in LABELS]) * (c.start == "embeddings")
    W, V = start.clone().requires_grad_(), torch.zeros(4, 4, dtype=torch.float64)
    V.requires_grad_()
    make = {
        "sgd": lambda p: torch.optim.SGD([p], cell.lr),
        "momentum": lambda p: torch.optim.SGD([p], cell.lr, momentum=c.momentum),
        "adamw": lambda p: torch.optim.AdamW(
            [p], cell.lr, betas=c.betas, eps=c.eps, weight_decay=c.weight_decay
        ),
    }[optimizer]
    policy, memory = make(W), make(V)
    bound = bind(c.methods[cell.estimator])
    q = embed("persian")
    for row in u:
        sampler = (W @ q - cell.mu * (V @ q)).softmax(0).detach()
        labels, log_pi = [], (W @ q).log_softmax(0)
        for value in row:
            label = 0
            while value >= sampler[: label + 1].sum() and label < 3:
                label += 1
            labels.append(label)
        rewards = [[1.0 if LABELS[k] in ("cat", "persian") else 0.0 for k in labels]]
        rewards = torch.tensor(rewards, dtype=torch.float64)
        seen = {"correct": rewards == 1, "lengths": torch.ones_like(rewards)}
        A = advantages(bound, rewards, arguments={}, **seen)[0]
        factor = (G - rewards.sum()) ** cell.alpha
        A = torch.where(A > 0, factor * A, A)
        loss = torch.zeros((), dtype=torch.float64)
        for label, advantage in zip(labels, A, strict=True):
            weight = 1.0
            if c.importance_cap is not None:
                weight = min((log_pi[label].exp() / sampler[label]).item(), c.importance_cap)
            loss = loss - advantage * weight * log_pi[label] / G
        policy.zero_grad()
        loss.backward()
        remembered = -(V @ q).log_softmax(0)[labels].mean()
        memory.zero_grad()
        remembered.backward()
        policy.step()
        memory.step()
    siamese = [torch.tensor(e, dtype=torch.float64) for e in embeddings.SIMILARITY.values()]
    pi = [(W @ e).softmax(0).detach().numpy() for e in (q, *siamese)]
    return pi


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw"])
@pytest.mark.parametrize("start", ["zeros", "embeddings"])
def test_the_vectorised_toy_is_the_slow_reference(optimizer, start):
    # a large weight decay, or it would hide in the rounding
    c = config(f"start={start}", "weight_decay=0.2")
    G = 5
    u = formulas.uniforms([7, 8], 25, G)
    cells = [
        Cell("raw", 0.0, 0.0, 1.0),
        Cell("mean", 0.0, 0.0, 0.3),
        Cell("normalised", 1.5, 0.0, 0.1),
        Cell("RLOO", 0.0, 0.5, 0.3),
        Cell("Reinforce++", 1.0, 0.5, 0.2),
    ]
    curves = tables.simulate(c, optimizer, G, cells, u)["curves"]
    for i, cell in enumerate(cells):
        for s in range(2):
            pi, high, mid, low = reference(c, optimizer, G, cell, u[:, s])
            last = {name: values[-1, i, s] for name, values in curves.items()}
            assert last["p_cat"] == pytest.approx(pi[0], rel=1e-8), cell
            assert last["p_persian"] == pytest.approx(pi[2], rel=1e-8), cell
            assert last["siamese_high"] == pytest.approx(high[3], rel=1e-8), cell
            assert last["siamese_mid"] == pytest.approx(mid[3], rel=1e-8), cell
            assert last["siamese_low"] == pytest.approx(low[3], rel=1e-8), cell


def test_importance_weights_are_the_references():
    c = config("importance_cap=1.2")
    u, cell = formulas.uniforms([3], 30, 8), Cell("normalised", 0.0, 0.5, 1.0)
    capped = tables.simulate(c, "sgd", 8, [cell], u)["curves"]["p_cat"][-1, 0, 0]
    assert capped == pytest.approx(reference(c, "sgd", 8, cell, u[:, 0])[0][0], rel=1e-8)
    plain = tables.simulate(replace(c, importance_cap=None), "sgd", 8, [cell], u)
    assert abs(plain["curves"]["p_cat"][-1, 0, 0] - capped) > 1e-4


def test_labels_follow_the_sampler():
    p = np.array([[0.4, 0.1, 0.3, 0.2], [0.05, 0.05, 0.1, 0.8]])
    u = np.random.default_rng(0).random((2, 20_000))
    drawn = formulas.counts(p, u)
    assert (drawn.sum(1) == 20_000).all()
    for row, wanted in zip(drawn, p, strict=True):
        assert chisquare(row, 20_000 * wanted).pvalue > 1e-3
    # by hand: edges 0.4, 0.5, 0.8; a value on an edge belongs to the next label
    assert formulas.counts(p[0], np.array([0.0, 0.4, 0.49, 0.5, 0.99])).tolist() == [1, 2, 1, 1]


def test_of_one_prompt_a_step_reinforce_pp_is_grpo():
    pair = [
        formulas.weight_table(config(), Cell(e, 0.0, 0.0, 1.0), 8)
        for e in ("normalised", "Reinforce++")
    ]
    np.testing.assert_allclose(*pair, atol=1e-4)


def test_first_steps_of_collapse_are_exact():
    c = config("steps=60", "every=1", "seeds=20")
    u = formulas.uniforms(list(range(20)), 60, 8)
    simulated = tables.simulate(c, "momentum", 8, [Cell("raw", 0.0, 0.0, 1.0)], u)
    p_cat, p_persian = (simulated["curves"][name][:, 0] for name in ("p_cat", "p_persian"))
    reached = np.maximum(p_cat, p_persian) >= formulas.COLLAPSED
    first = np.where(reached.any(0), reached.argmax(0), np.nan)
    np.testing.assert_array_equal(simulated["collapse"][0], first)
    assert np.isfinite(first).any()


def test_the_run_is_found_again(tmp_path, monkeypatch):
    c = config(
        f"results_dir={tmp_path}", "optimizers=[sgd]", "estimators=[raw]", "calibrated=[raw]"
    )
    folder = tables.run(c)
    first = {file.name: file.read_bytes() for file in folder.glob("*")}
    assert set(first) == {"final.csv.gz", "curves.csv.gz", "traces.csv.gz", "settings.json"}
    final = pd.read_csv(folder / "final.csv.gz")
    assert len(final) == 3 * (2 + 3)  # seeds x (learning rates + IAC, DLC, both)
    assert (
        len(pd.read_csv(folder / "traces.csv.gz")) == 2 * 5 * 4
    )  # seeds x points x cells at main_lr
    curves = pd.read_csv(folder / "curves.csv.gz")
    at_40 = curves.query(
        "lr == 1 and alpha == 0 and mu == 0 and metric == 'p_winner' and step == 40"
    )
    seeds = final.query("lr == 1 and alpha == 0 and mu == 0")[["p_cat", "p_persian"]].max(axis=1)
    assert at_40["mean"].item() == pytest.approx(seeds.mean())
    monkeypatch.setattr(tables, "simulate", None)  # a second run must not simulate
    tables.run(c)
    assert {file.name: file.read_bytes() for file in folder.glob("*")} == first


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("estimators=[row]", "estimators"),
        ("G=[1]", "G"),
        ("main_lr=0.5", "main_lr"),
        ("mu=-1", "mu"),
        ("optimizers=[lion]", "optimizers"),
        ("+seed=1", "seed"),
    ],
)
def test_bad_input_names_its_key(override, key):
    with pytest.raises(UserError, match=rf"\b{key}\b"):
        config(override)
