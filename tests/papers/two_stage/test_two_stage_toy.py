from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tiny import ROOT

from common.config.compose import compose
from common.config.strict import strict
from papers.two_stage import figures
from papers.two_stage.toy import tables
from papers.two_stage.toy.config import Cell, Toy
from papers.two_stage.toy.formulas import negatives
from papers.two_stage.toy.stages import Stages
from papers.two_stage.toy.tables import simulate


def config(*overrides: str) -> Toy:
    small = ["seeds=3", "steps=40"]
    return strict(Toy, compose("two_stage", [*small, *overrides], "toy"))


def cell(**changes) -> Cell:
    values = dict(name="x", rewards=[0.5, 1.0, 0.0], policy=[0.55, 0.15, 0.3], G=2, temperature=1.0)
    return Cell(**(values | {"hold": "policy"} | changes))


def reference(c: Toy, x: Cell, seed: int, *, optimizer: str, negative_only: bool) -> np.ndarray:
    """Algorithm 1 for one seed, action by action: the policy after every step, (steps + 1, V)."""
    uniforms = np.random.default_rng([seed, x.G]).random((c.steps, x.G))
    V, tau = len(x.policy), x.temperature
    z = np.log(x.policy) * (tau if x.hold == "policy" else 1)
    m, v, path = np.zeros(V), np.zeros(V), []
    for step in range(c.steps + 1):
        p = np.exp(z / tau) / np.exp(z / tau).sum()
        path.append(p)
        if step == c.steps:
            return np.array(path)
        actions = [next(a for a in range(V) if u < p[: a + 1].sum()) for u in uniforms[step]]
        mean = sum(x.rewards[a] for a in actions) / x.G
        g = np.zeros(V)
        for a in actions:
            advantage = x.rewards[a] - mean
            if negative_only and advantage >= 0:
                continue
            for u in range(V):
                g[u] += ((1 - p[u]) if u == a else -p[u]) * advantage
        g = g / x.G / (tau if c.temperature_gradient else 1)
        if optimizer == "sgd":
            z = z + c.eta * g
            continue
        m = c.betas[0] * m + (1 - c.betas[0]) * g
        v = c.betas[1] * v + (1 - c.betas[1]) * g**2
        mhat, vhat = m / (1 - c.betas[0] ** (step + 1)), v / (1 - c.betas[1] ** (step + 1))
        z = z + c.eta * mhat / (np.sqrt(vhat) + c.eps)


CELLS = {
    3: [cell(name="a"), cell(name="b", rewards=[0.2, 1, 0.1], temperature=5.0, hold="logits")],
    4: [cell(name="c", rewards=[0.5, 1, 0, 0.7], policy=[0.4, 0.1, 0.3, 0.2], temperature=2.0)],
}


@pytest.mark.parametrize("negative_only", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(("V", "G"), [(3, 2), (3, 5), (4, 2), (4, 3)])
def test_vectorised_is_the_slow_reference(monkeypatch, optimizer, negative_only, V, G):
    monkeypatch.setattr(tables, "CHUNK", 16)  # several chunks of random numbers
    how = {"optimizer": optimizer, "negative_only": negative_only}
    cells = [replace(x, G=G) for x in CELLS[V]]
    for c in (config("eta=0.5"), config("eta=0.5", "temperature_gradient=true")):
        paths, ends = simulate(c, cells, seeds=[4, 0, 7], **how)
        for x in cells:
            slow = np.array([reference(c, x, seed, **how) for seed in (4, 0, 7)])
            assert abs(slow[:, -1] - slow[:, 0]).max() > 0.005  # something happened
            quick = paths[paths["cell"] == x.name]
            for step in c.recorded():
                rows = quick[quick["step"] == step].sort_values("action")
                at = slow[:, step]
                np.testing.assert_allclose(rows["mean"], at.mean(0), atol=1e-10)
                np.testing.assert_allclose(rows["low"], np.quantile(at, 0.1, axis=0), atol=1e-10)
            rows = ends[ends["cell"] == x.name]
            assert rows["seed"].tolist() == [4, 0, 7]
            np.testing.assert_allclose(rows["best_end"], slow[:, -1, x.best], atol=1e-10)
            np.testing.assert_allclose(rows["leader_start"], x.policy[x.leader], atol=0.3)


def test_negatives_by_hand():
    below, r = np.array([1.0, 2.0]).reshape(2, 1, 1), np.array([0.5, 1, 0]).reshape(3, 1, 1)
    assert negatives(below, r, G=2).ravel().tolist() == [1, 0, 0]  # a1, a2 drawn: mean 0.75


def test_stages_by_hand():
    x = cell(policy=[0.5, 0.1, 0.4])
    paths = {  # (leader, best) by step
        "two stages": [(0.5, 0.1), (0.7, 0.08), (0.6, 0.3), (0.2, 0.7), (0.9, 0.1)],
        "no rise": [(0.5, 0.1), (0.52, 0.3), (0.4, 0.5), (0.2, 0.7), (0.1, 0.8)],
        "not flat": [(0.5, 0.1), (0.6, 0.3), (0.4, 0.5), (0.2, 0.7), (0.1, 0.8)],
        "no crossing": [(0.5, 0.1), (0.9, 0.05), (0.8, 0.1), (0.8, 0.15), (0.7, 0.2)],
    }
    p = np.array([[(a, b, 1 - a - b) for a, b in path] for path in paths.values()])  # (S, T, V)
    policies = [p[:, step].T[:, None, :] for step in range(5)]
    stages = Stages([x.best], [x.leader], policies[0])
    # by step: how many negatives are the leader, the best and the third action, in all four paths
    drawn = [(0, 0, 2), (3, 0, 1), (1, 0, 0), (5, 0, 0), (7, 0, 0)]
    for step, (policy, counts) in enumerate(zip(policies, drawn, strict=True)):
        stages.see(step, policy)
        stages.drew(np.repeat(np.array(counts, float), 4).reshape(3, 1, 4))
    rows = pd.DataFrame(stages.ends(policies[-1], rise=0.05))
    assert rows["two_stages"].tolist() == [1, 0, 0, 0]
    assert rows["crossing"].fillna(-1).tolist() == [3, 2, 2, -1]
    assert rows["best_low"].tolist() == [0.08, 0.1, 0.1, 0.05]
    # the first path: peak at step 1, crossing at 3; the last: never
    assert rows["negative_1"].tolist() == [0, 0, 0, 0]
    assert rows["negative_2"].fillna(-1).tolist() == [0.8, 0.75, 0.75, -1]
    assert rows["leader_peak"].tolist() == [0.7, 0.52, 0.6, 0.9]  # not the 0.9 after the crossing


def test_run_resumes_to_the_same_bytes(tmp_path, monkeypatch):
    calls = []

    def counted(*args, **kwargs):
        calls.append(kwargs["optimizer"])
        return simulate(*args, **kwargs)

    monkeypatch.setattr(tables, "simulate", counted)
    c = config(f"results_dir={tmp_path}", "steps=12")
    c = replace(c, figures={name: c.figures[name] for name in ("fig1", "fig5")})
    folder = tables.run(c)
    files = [folder / "paths.csv.gz", folder / "ends.csv.gz"]
    first = [file.read_bytes() for file in files]
    assert len(calls) == 4 * (1 + 4)  # fig5 has four group sizes
    stored = ROOT / "results" / "reference" / "two_stage" / "toy"
    for file in files:
        assert list(pd.read_csv(file)) == list(pd.read_csv(stored / file.name))
    assert len(pd.read_csv(files[1])) == 4 * (6 + 4) * 3

    calls.clear()
    tables.run(c)
    assert calls == []
    (part,) = tmp_path.glob("two_stage/toy-*/parts/fig1-adam-negative-ends.csv")
    part.unlink()
    tables.run(c)
    assert calls == ["adam"]
    assert [file.read_bytes() for file in files] == first
    tables.run(replace(c, optimizers=["sgd"]))  # the same folder, fewer parts shown
    assert calls == ["adam"]
    assert set(pd.read_csv(files[0])["optimizer"]) == {"sgd"}


def test_figures_are_one_row_of_full_gradients_for_each_step(tmp_path, monkeypatch):
    c = config(f"results_dir={tmp_path}", "steps=12", "seeds=2")
    tables.run(c)
    drawn = {}
    monkeypatch.setattr(figures, "save", lambda figure, path, _: drawn.update({path.name: figure}))
    figures.draw(tmp_path)
    names = ("fig1", "fig5", "fig6", "fig6_logits", "fig7")
    assert set(drawn) == {name + step for name in names for step in ("", "_adam")}
    rows = {name: one.axes[0].get_gridspec().nrows for name, one in drawn.items()}
    assert rows == {name: 2 if name.startswith("fig1") else 1 for name in drawn}
    titles = [axis.get_title() for axis in drawn["fig5_adam"].axes]
    assert titles == ["G = 2", "G = 3", "G = 5", "G = 10"]
    first = next(one for one in c.figures["fig5"] if one.G == 2)
    assert all(f"{p:g}" in drawn["fig5_adam"].get_suptitle() for p in first.policy)
    for line in drawn["fig7"].axes[0].lines:  # one method's curve
        assert len(line.get_xdata()) == len(c.recorded())
