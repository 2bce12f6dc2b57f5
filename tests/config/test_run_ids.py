"""A run is what it computes: whoever starts a row, it is the run that the sweeps plan."""

import csv
import gzip
from dataclasses import asdict, replace

import pandas as pd
import pytest
from compositions import PAPERS, asked
from tiny import ROOT

from common.comparison.lines import labelled
from common.experiment import load
from common.results.run import Run
from common.sweeps.plan import Reproduce, Sweep, base_of, placed, runs_of

REFERENCE = ROOT / "results" / "reference"
LAPTOP = ("laptop", "full", "long", "code")  # scales at the laptop's own size


def committed(path) -> set[tuple[str, str, str]]:
    """(table, method, run id without its hash) of stored rows."""
    with gzip.open(path, "rt") as file:
        rows = csv.DictReader(file)
        return {(r["table"], r["method"], r["run_id"].rpartition("-")[0]) for r in rows}


def sweeps(paper: str) -> list[tuple[Reproduce, Sweep]]:
    config = asked(paper)
    return [
        (one, replace(sweep, seeds=sweep.seeds[:1]))
        for one in (replace(config, scale=scale) for scale in LAPTOP if scale in config.scales)
        for sweep in one.sweeps
    ]


def by_name(x, sweep: Sweep, row: str):
    """The run that a user starts by the row's name, with what the sweep changes of it, in a folder
    of his own."""
    changed = [word for word in sweep.overrides if word != "optim.lr=1e-4"]  # the default
    own = [f"experiment={row}", f"seed={x.seed}", "results_dir=elsewhere", "threads=2"]
    return load([*own, *changed], x.paper)


@pytest.mark.sweep
@pytest.mark.parametrize("paper", PAPERS)
def test_a_row_started_by_its_name_is_the_run_that_its_sweep_plans(paper, tmp_path):
    found = {}
    for config, sweep in sweeps(paper):
        for x, row in zip(runs_of(config, sweep), sweep.rows, strict=True):
            assert by_name(x, sweep, row).run_id == x.run_id
            if x.scope == "laptop":  # claims read it
                about = {"table": x.table, "model": "", "method": x.label, "seed": x.seed}
                run = tmp_path / x.paper / x.run_id
                Run(tmp_path, x.paper, x.run_id, asdict(x)).close()
                assert labelled({run: pd.Series(about)}) == {run: x.label}
            shown = (x.scope, x.table, x.label)
            assert found.setdefault(x.run_id, shown) == shown  # a run stands in one table
    assert len(found) >= 9


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("experiment=f_grpo_gamma1 seed=2 label=mine", "laptop laptop_strong"),
        ("experiment=grpo_n8 optim.lr=3e-5", "laptop laptop_standard"),
        ("experiment=cluster/qwen7b_grpo optim.steps=153", "cluster table1"),
        ("experiment=f_grpo_gamma1 optim.lr=2e-4 label=mine", None),  # no sweep trains it
        ("method=grpo name=grpo_n8", "laptop laptop_strong"),  # it is what it computes
    ],
)
def test_a_run_that_was_started_by_hand_is_placed_with_its_sweeps(words, shown):
    x = load(words.split(), "f_grpo")
    one = placed(x)
    assert one.run_id == x.run_id
    assert (f"{one.scope} {one.table}" == shown and one.label != "mine") if shown else one == x


def test_later_seeds_are_placed_where_they_start_from_their_own_base_models():
    x = load(["experiment=f_grpo_gamma1"], "f_grpo")
    assert placed(replace(x, seed=6)).table == "laptop"  # from the base model of seed 1
    for seed in (6, 40):
        assert placed(base_of(replace(x, seed=seed))).table == "laptop_strong"


@pytest.mark.sweep
@pytest.mark.parametrize("paper", PAPERS)
def test_the_sweeps_still_have_the_committed_rows(paper):
    ours = {
        (x.table, x.label, f"{x.name}-s{seed}")
        for config, sweep in sweeps(paper)
        for x in runs_of(config, sweep)
        for seed in range(1, 11)
    }
    rows = committed(REFERENCE / paper / "laptop" / "metrics.csv.gz")
    assert len(rows) >= 15
    assert rows - ours == set()
