"""The second version's Table 4 on one GPU: its rows are as printed, come cheapest first, stop when
the budget is spent, and end in the comparison, here as small as they can be."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from compositions import asked, composed, runs
from printed import hyperparameters
from refuses import refuses
from tiny import ROOT

from common.comparison import published
from common.reproduce import finish
from common.sweeps import reproduce

pytestmark = pytest.mark.sweep

PRINTED = ROOT / "papers" / "f_grpo" / "published"
MAZE = hyperparameters("f_grpo", "maze")


def rows():
    return [x for x in runs("f_grpo", "gpu") if x.optim.steps > 0]


def numbers(parameter: str) -> list[float]:
    text = MAZE[parameter].replace("1M", "1000000")
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text)]


def test_every_printed_row_has_one_run_and_the_other_way_round():
    table = published.published(PRINTED)
    table = table[table["table"] == "table4_v2"]
    runs = table.groupby(["method", "benchmark"])["run"].unique()
    assert runs.map(len).eq(1).all()
    assert sorted(run for (run,) in runs) == sorted(f"gpu/{x.name}" for x in rows())
    assert {x.model.name for x in rows()} == set(table["model"])
    ks = set(table["k"])
    assert all(ks < set(x.eval.k) for x in rows())


def test_settings_are_as_printed():
    x = rows()[0]
    side, _, train, test = numbers("mazes")
    data = x.data
    assert [data.train[key] for key in ("side", "size", "loops")] == [side, train, 0]
    assert [node["size"] for node in data.benchmarks.values()] == [test]
    assert data.verifier["accept"] == "target"
    made, (steps, batch, lr) = x.model.pretrain, numbers("SFT")
    assert [made.demonstrations / made.batch_size, made.batch_size] == [steps, batch]
    assert {made.lr, made.embedding_lr} == {lr}
    assert (made.optimizer, made.epochs) == ("adamw", 1)
    assert "one parameter update" in MAZE["RL"]
    assert x.optim.mini_batches == 1
    assert numbers("RL") == [x.optim.steps, x.sampling.prompts, x.optim.lr]
    sizes, gammas = numbers("rollouts N"), {0.0, *numbers("gamma")}
    found = [(y.sampling.group_size, y.method.advantage.get("gamma", 0.0)) for y in rows()]
    assert sorted(found) == sorted((size, gamma) for size in sizes for gamma in gammas)
    for y in rows():  # else all as the first
        one = replace(y.sampling, group_size=x.sampling.group_size)
        assert (one, y.optim, y.eval, y.data, y.model) == (
            *(x.sampling, x.optim, x.eval, x.data, x.model),
        )
        assert (y.scope, y.device, y.backend) == ("cluster", "cuda", "local")


def test_without_a_gpu_the_full_size_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    x = replace(composed(("experiment=gpu/maze_grpo_n4",), "f_grpo"), results_dir=str(tmp_path))
    with refuses("device", "cuda"):
        reproduce.train(x)
    assert not list(tmp_path.iterdir())


def few(root, *words):
    """The scale's first three rows, N = 4."""
    config = asked("f_grpo", "scale=gpu_smoke", f"results_dir={root}", *words)
    (sweep,) = config.scales["gpu_smoke"].sweeps
    scale = replace(config.scales["gpu_smoke"], sweeps=[replace(sweep, rows=sweep.rows[:4])])
    return replace(config, scales={"gpu_smoke": scale})


def test_small_on_a_cpu_to_the_printed_cells(tmp_path, capfd, monkeypatch, forked):
    reproduce.reproduce(few(tmp_path, "budget=0h"), finish=lambda _: None)
    told = capfd.readouterr()
    assert told.err.count("out of time  maze_") == 4
    assert "4 of 4 runs are unfinished" in told.out
    home = tmp_path / "smoke" / "f_grpo"
    assert not home.exists()

    # a row that is stopped after its first step goes on from there
    x = reproduce.experiments(few(tmp_path))[1]
    ticks = iter([0.0, 0.0, 2.0])  # before the run, before its first step, before its second
    with monkeypatch.context() as patched:
        patched.setattr("common.sweeps.reproduce.time", lambda: next(ticks))
        assert reproduce.train(x, end=1.0) == "out of time"
    assert len((home / x.run_id / "metrics.jsonl").read_text().splitlines()) == 1
    assert (home / x.run_id / "checkpoint.pt").exists()

    reproduce.reproduce(few(tmp_path), finish=finish)
    told = capfd.readouterr()
    assert "out of time" not in told.err
    assert "unfinished" not in told.out
    assert len((home / x.run_id / "metrics.jsonl").read_text().splitlines()) == 2
    cells = pd.read_csv(home / "cells.csv")
    cells = cells[cells["table"] == "table4_v2"]
    there = cells[cells["rerun"].notna()]
    assert len(cells) == len(there)  # printed cells without a rerun are in published/
    assert set(there["benchmark"]) == {"Maze (N=4)"}
    assert len(there) == 9  # three methods, three k
    assert set(there["n_problems"]) == {6}
    assert there["verdict"].isin(["differs", "within noise"]).all()
    assert there["rerun"].between(0, 100).all()
    assert (there["notes"] == "INC102").all()
    claims = pd.read_csv(home / "claims.csv").set_index("id")
    assert claims["published"]["v2_maze_pass1"] == "holds"
    assert claims["cluster"]["v2_maze_pass1"] == "not run"  # of six group sizes there is one
