"""Figures along training from cluster rows: a few made-up runs."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from common.results.files import write
from papers.fade.cluster_curves import BEST, DRIVEN, FOCUS, LAWS, SIGNS, V6, draw, spread

ABOUT = {"table": "table3", "model": "Qwen 2.5 7B", "seed": 1, "benchmark": V6}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """(root, rows, counts) of FADE's methods at three steps; pass@100 rises with both."""
    root, rows, counts = tmp_path_factory.mktemp("curves"), [], []
    rng = np.random.default_rng(0)
    for place, method in enumerate(dict.fromkeys([*LAWS, *SIGNS, *FOCUS, "SFT"])):
        run = ABOUT | {"method": method, "run_id": f"run{place}"}
        for step in (100, 200, 300):
            found = [("pass@1", 10.0), ("pass@10", 20.0), ("pass@100", step / 10 + place)]
            rows += [run | {"step": step, "metric": metric, "value": v} for metric, v in found]
            c = rng.binomial(200, np.linspace(0.01, 0.9, 30))
            problems = {"problem_id": [f"p{i}" for i in range(30)], "n": 200, "c": c}
            counts.append(pd.DataFrame(problems).assign(**run, step=step))
        lines = [{"step": s, "entropy": 0.1 * place, "reward": 0.25} for s in (100, 200, 300)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        write(root / "fade" / f"run{place}" / "metrics.jsonl", text)
    return root, pd.DataFrame(rows), pd.concat(counts, ignore_index=True)


@pytest.mark.sweep
def test_curves_are_drawn_of_their_runs(runs):
    root, rows, counts = runs
    made = draw(root, SimpleNamespace(rows=rows, counts=counts))
    left_out = {one.name for one in made if one.left_out}
    # no 32B, no ablation, no row of one learning rate
    assert left_out == {*("cluster_fig1_32b", "cluster_fig9", "cluster_fig14_same")}
    drawn = {
        one.name: pd.read_csv(root / "fade" / "figures" / f"{one.name}.csv")
        for one in made
        if not one.left_out
    }
    curve = drawn["cluster_fig1_7b"]
    assert len(curve) == len(BEST) * 3 * 3
    focus = drawn["cluster_fig5_right"].set_index("method")
    mean = rows[(rows["method"] == "mean GRPO") & (rows["metric"] == "pass@100")]["value"]
    assert focus["pass@100"]["mean GRPO"] == mean.max()  # the last step's
    assert focus["focus"]["Power alpha=3"] == 0.25
    signs = drawn["cluster_fig4"].set_index("method")
    assert signs["ratio"]["AsymGRPO delta=0.5"] == pytest.approx(0.5 / 3)  # p = 1/4
    assert signs["ratio"]["GRPO"] == pytest.approx(1 / 3)
    law = drawn["cluster_fig6_left"]
    assert set(law["step"]) == {0, 100, 200, 300}
    assert (law["b"] > 0).all()
    assert set(law["method"]) == {"base", *LAWS}
    few = counts[~counts["method"].isin(DRIVEN)]
    said = {one.name: one.left_out for one in draw(root, SimpleNamespace(rows=rows, counts=few))}
    assert all(name in said["cluster_fig6_left"] for name in DRIVEN)
    assert not said["cluster_fig10"]


def test_the_steps_of_a_figure_are_few_and_have_both_ends():
    assert spread(pd.Series(range(100, 4001, 100))) == [100, 1100, 2100, 3000, 4000]
    assert spread(pd.Series([300, 100])) == [100, 300]
