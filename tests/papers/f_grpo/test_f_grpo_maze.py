"""The second version's Table 4 on one GPU: its rows are as printed, come cheapest first, stop when
the budget is spent, and end in the comparison, here as small as they can be."""

from dataclasses import replace

import pandas as pd
import pytest
from compositions import asked, composed, runs
from refuses import refuses

from common.reproduce import finish
from common.sweeps import reproduce

pytestmark = pytest.mark.sweep


def test_rows_differ_in_group_size_and_gamma_alone():
    """What is printed of them, tests/comparison/test_deviations.py compares."""
    x, *_ = rows = [x for x in runs("f_grpo", "gpu") if x.optim.steps > 0]
    assert (x.data.train["loops"], x.data.verifier["accept"]) == (0, "target")
    found = [(y.sampling.group_size, y.method.advantage.get("gamma", 0.0)) for y in rows]
    sizes = (4, 8, 16, 32, 64, 128)
    assert sorted(found) == [(size, gamma) for size in sizes for gamma in (0.0, 0.5, 1.0)]
    for y in rows:
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
