"""SCALE=laptop_maze: the papers' main methods on mazes with loops, one model, by themselves."""

import importlib
from dataclasses import replace

import pandas as pd
import pytest
from compositions import PAPERS, asked, composed
from tiny import ROOT

from common.comparison import maze
from common.comparison.gather import MAZES as MAZE
from common.reproduce import run
from common.sweeps.plan import Scale, experiments


def first_seeds(paper: str) -> list:
    """The runs of seed 1; that all seeds are asked for."""
    config = asked(paper, f"scale={MAZE}")
    sweeps = config.scales[MAZE].sweeps
    assert all(sweep.seeds == [1, 2, 3, 4, 5] for sweep in sweeps)
    one = Scale(parts={}, sweeps=[replace(sweep, seeds=[1]) for sweep in sweeps])
    return experiments(replace(config, scales={MAZE: one}))


@pytest.mark.sweep
@pytest.mark.parametrize("paper", PAPERS)
def test_every_papers_runs_share_model_and_mazes(paper):
    first = composed(("testbed=maze",), "f_grpo")
    ours = first_seeds(paper)
    for x in ours:
        assert (x.scope, x.table) == (MAZE, MAZE)
        assert x.model == first.model
        assert {"natural", "rare"} <= x.data.benchmarks.keys()
        assert x.data.train == first.data.train
        assert x.data.verifier["accept"] == "any"
        drawn = x.optim.steps * x.sampling.prompts
        assert x.optim.steps == 0 or drawn >= 2 * x.data.train["size"]  # prompts are seen again
    assert {"base", "GRPO (N=8)" if paper == "f_grpo" else "GRPO"} < {x.label for x in ours}
    shown = importlib.import_module(f"papers.{paper}.figures").MAZE
    assert {"base", *shown} == {x.label for x in ours}


@pytest.mark.trains
def test_a_tiny_testbed_runs_to_its_own_table(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    words = ["testbed=maze", "model.pretrain.demonstrations=64", "model.pretrain.hidden_size=32"]
    words += [
        "model.pretrain.layers=1",
        "optim.steps=2",
        "eval.every=1",
        "eval.n=8",
        "eval.curve_n=8",
    ]
    words += ["eval.k=[1,8]", "data.train.size=16", "sampling.prompts=4"]
    words += [f"data.benchmarks.{name}.size=2" for name in ("natural", "rare")]
    sweep = {"table": MAZE, "rows": ["base", "grpo"], "seeds": [1], "overrides": words}
    config = asked("cov_grpo", f"scale={MAZE}", "workers=1", f"results_dir={tmp_path}",
                   f"scales.{MAZE}.sweeps=[{_text(sweep)}]")  # fmt: skip
    run(config)
    home = tmp_path / "cov_grpo"
    table = pd.read_csv(home / MAZE / "table.csv")
    assert set(table["method"]) == {"base", "GRPO"}
    assert set(table["column"]) == {title for title in maze.SHOWN if "64" not in title}
    curves = pd.read_csv(home / MAZE / "training.csv")
    assert list(curves["step"]) == [2]
    assert 0 < curves["entropy"].item() < 3.5  # nats; of 32 tokens at most log 32
    assert (home / "figures" / "laptop_maze_logged.png").exists()
    assert not (home / "covariance").exists()  # its own parts belong to the other scales
    assert not (home / "laptop").exists()


def _text(sweep: dict) -> str:
    """A sweep as a word of the command line."""
    lists = {key: f"[{','.join(map(repr, value))}]" for key, value in sweep.items()
             if isinstance(value, list)}  # fmt: skip
    return "{" + ",".join(f"{key}:{lists.get(key, value)}" for key, value in sweep.items()) + "}"
