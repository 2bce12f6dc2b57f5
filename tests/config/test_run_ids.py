import csv
import gzip
from dataclasses import replace
from functools import cache

import pytest
from compositions import PAPERS, asked
from tiny import ROOT

from common.comparison.lines import placed
from common.experiment import load
from common.sweeps.plan import OF_STUDY, STUDY, Reproduce, Sweep, runs_of, with_seed

REFERENCE = ROOT / "results" / "reference"
LAPTOP = ("countdown", "maze", "laptop", "full", "code")  # scales at the laptop's own size


def committed(path) -> set[tuple[str, str, str]]:
    """(table, method, run id without its hash) of stored rows."""
    with gzip.open(path, "rt") as file:
        rows = csv.DictReader(file)
        return {(r["table"], r["method"], r["run_id"].rpartition("-")[0]) for r in rows}


def sweeps(paper: str) -> list[tuple[Reproduce, Sweep]]:
    config = asked(paper)
    return [
        (one, sweep)
        for one in (replace(config, scale=scale) for scale in LAPTOP if scale in config.scales)
        for sweep in one.sweeps
    ]


@cache
def studied() -> dict[str, tuple]:
    """What the study plans under each run id."""
    plan = [x for config, sweep in sweeps(STUDY) for x in runs_of(config, sweep)]
    return {x.run_id: (x.paper, x.table, x.label, x.seed, x.optim.steps) for x in plan}


def by_name(x, paper: str, sweep: Sweep, row: str):
    """The run that a user starts by the row's name, with what the sweep changes of it, in a folder
    of his own."""
    changed = [o for o in sweep.overrides if x.optim.steps or "optim.steps" not in o]
    own = [f"experiment={row}", f"seed={x.seed}", "results_dir=elsewhere", "threads=2"]
    return load([*own, *changed], paper)


@pytest.mark.sweep
@pytest.mark.parametrize("paper", [STUDY, "fade"])
def test_a_row_started_by_its_name_is_the_run_that_its_sweep_plans(paper):
    found = {}
    for config, sweep in sweeps(paper):
        first = replace(sweep, seeds=sweep.seeds[:1])
        for x, row in zip(runs_of(config, first), sweep.rows, strict=True):
            if row.startswith(OF_STUDY):
                continue
            own, shown = by_name(x, paper, sweep, row), (x.scope, x.table, x.label)
            assert own.run_id == x.run_id
            if x.paper == paper:
                own = placed(own)
                assert (own.scope, own.table, own.label) == shown  # claims read it
            assert found.setdefault(x.run_id, shown) == shown  # a run stands in one table
    assert len(found) >= (90 if paper == STUDY else 3)


@pytest.mark.sweep
@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_rows_of_the_study_are_the_studys_runs(paper):
    plan = [x for config, sweep in sweeps(paper) for x in runs_of(config, sweep)]
    of_study = [x for x in plan if x.paper == STUDY]
    assert len({x.seed for x in of_study}) == 9
    for x in of_study:
        assert (x.paper, x.table, x.label, x.seed, x.optim.steps) == studied()[x.run_id]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("experiment=f_grpo_gamma1 seed=2 label=mine scope=cluster", "laptop lr 1e-5"),
        ("experiment=grpo optim.lr=3e-5 eval.every=60", "laptop lr 3e-5"),
        ("experiment=f_grpo_gamma1 seed=40 label=mine", "laptop lr 1e-5"),  # any seed
        ("experiment=f_grpo_gamma1 optim.lr=2e-4 label=mine", None),  # no sweep trains it
        ("experiment=grpo seed=2 model.pretrain.seed=1 label=mine", None),
        ("experiment=grpo method=f_grpo name=f_grpo", "laptop lr 1e-5"),  # it is what it computes
    ],
)
def test_a_run_of_the_study_that_was_started_by_hand_is_placed_with_its_sweeps(words, shown):
    x = load(words.split(), STUDY)
    one = placed(x)
    assert one.run_id == x.run_id
    assert (f"{one.scope} {one.table}" == shown and one.label != "mine") if shown else one == x


def test_a_papers_run_is_placed_with_its_own_sweeps_alone():
    x = load(["experiment=cluster/qwen7b_grpo", "optim.steps=153"], "f_grpo")
    assert (placed(x).scope, placed(x).table) == ("cluster", "table1")
    own = load(["method=grpo", "name=grpo"], "f_grpo")
    assert placed(own) == own


@pytest.mark.parametrize("row", ["grpo", "maze/rl/grpo"])
def test_every_seed_of_the_study_has_a_base_model_of_its_own(row):
    first = load([f"experiment={row}", "seed=1"], STUDY)
    for seed in (2, 40):
        x = load([f"experiment={row}", f"seed={seed}"], STUDY)
        assert x.model.pretrain.seed == seed
        assert with_seed(first, seed) == x
        assert replace(x.model, pretrain=first.model.pretrain) == first.model


def test_the_mazes_of_table_4_start_from_one_model():
    first, x = (load(["experiment=gpu/maze_grpo_n4", f"seed={s}"], "f_grpo") for s in (1, 2))
    assert first.model == x.model
    assert x.model.pretrain.seed == 0
    assert with_seed(first, 2) == x


@pytest.mark.sweep
@pytest.mark.parametrize("testbed", ["study", "study_maze"])
def test_the_sweeps_still_have_the_committed_rows(testbed):
    plan = {
        (table, label, run_id.rpartition("-")[0])
        for run_id, (paper, table, label, *_) in studied().items()
        if paper == testbed
    }
    rows = committed(REFERENCE / testbed / "laptop" / "metrics.csv.gz")
    assert len(rows) >= 150
    # on mazes one seed of the other rows was tried at GRPO's lowest rate
    left = {(table, label) for table, label, _ in rows - plan}
    assert left == set() or (testbed, {table for table, _ in left}) == ("study_maze", {"lr 3e-6"})
