"""One gather: a line is runs that differ in the seed alone; claims read planned runs; what is gone
is gone; of two evaluations the fuller counts."""

import shutil
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest
from claim_rows import order, verdict
from made_up_runs import few_cells, made_up_counts, made_up_run
from tiny import ROOT

from common.comparison.compare import assess, methods_of, summary
from common.comparison.gather import LAPTOP, STUDY, gather, gathered
from common.comparison.lines import placed
from common.comparison.spec import spec_of
from common.experiment import load
from common.results.run import Run

REFERENCE = ROOT / "results" / "reference"


def trained(root, *words, paper="f_grpo") -> Path:
    """A finished run of `rlvr train paper=... words`, of made-up counts."""
    return finished(root, placed(load([*words], paper)))


def lines(root, paper="f_grpo") -> dict[str, int]:
    """The seeds that each line of a comparison's laptop part is a mean over."""
    one = gather(root, paper).scopes[LAPTOP]
    rows = summary({LAPTOP: one.rows}, one.runs)
    assert set(one.counts["method"]) == set(one.runs["method"]) == set(rows["method"])
    return dict(zip(rows["method"], rows["n_seeds"], strict=True))


def test_a_mean_over_seeds_is_over_runs_that_differ_in_the_seed_alone(tmp_path):
    own = ["method=rloo", "label=rloo", "table=mine", "optim.steps=10"]
    for change in ("seed=1", "seed=2", "seed=1 name=again threads=2 wandb=offline"):
        trained(tmp_path, *own, "optim.lr=1e-6", *change.split())
    again = f"rloo, run {load([*own, 'optim.lr=1e-6', 'seed=1'], 'f_grpo').run_id[-8:]}"
    assert {again: 1, "rloo": 1}.items() <= lines(tmp_path).items()  # a seed counts once
    shutil.rmtree(next((tmp_path / "f_grpo").glob("again-*")))
    assert lines(tmp_path) == {"rloo": 2}
    trained(tmp_path, *own, "optim.lr=1e-4", "seed=1")
    assert lines(tmp_path) == {"rloo, optim.lr=1e-06": 2, "rloo, optim.lr=0.0001": 1}
    trained(tmp_path, *own, "optim.lr=1e-4", "optim.steps=20", "seed=2")
    assert len(lines(tmp_path)) == 3


def test_runs_of_another_code_are_a_line_of_their_own(tmp_path):
    for seed, code in ((1, "a"), (2, "a"), (3, "b")):
        x = load(["method=rloo", "label=own", "table=mine", f"seed={seed}"], "f_grpo")
        finished(tmp_path, x, contents={"method.advantage._target_": code * 64})
    assert sorted(lines(tmp_path).values()) == [1, 2]


def test_claims_read_planned_runs_alone(tmp_path):
    claim = order("GRPO", "FADE", where={"table": "lr 1e-5"})
    claim["where"] |= {"benchmark": "rare", "metric": "pass@1"}

    def decided() -> str:
        return verdict(claim, gather(tmp_path, "study").scopes[LAPTOP].rows)[0]

    for row in ("grpo", "fade"):
        trained(tmp_path, f"experiment={row}", "optim.steps=3", paper="study")
    assert decided() == "not run"
    assert lines(tmp_path, "study") == {"GRPO, optim.steps=3": 1, "FADE, optim.steps=3": 1}
    shutil.rmtree(tmp_path / "study")
    for row in ("grpo", "fade"):
        for seed in (1, 12):  # any seed is planned, from the base model of its own
            trained(tmp_path, f"experiment={row}", f"seed={seed}", paper="study")
    assert decided() != "not run"
    trained(tmp_path, "experiment=grpo", "seed=3", "model.pretrain.seed=9", paper="study")
    assert lines(tmp_path, "study") == {"GRPO": 2, "FADE": 2, "GRPO, not planned": 1}


def test_a_papers_own_run_may_stand_in_a_table_of_the_study(tmp_path):
    trained(tmp_path, "method=rloo", "label=mine", "table=lr 1e-5", "seed=1")
    assert lines(tmp_path) == {"mine": 1}


def test_a_scope_whose_runs_are_gone_is_gone(tmp_path):
    run = trained(tmp_path, "method=rloo", "label=rloo", "table=mine", "seed=1")
    gather(tmp_path, "f_grpo").write(tmp_path, "f_grpo")
    assert len(gathered(tmp_path, "f_grpo", LAPTOP)[0].rows)
    shutil.rmtree(run)
    found = gather(tmp_path, "f_grpo")
    assert any(run.name in said for said in found.left_out)
    for given in (found, None):
        one, _ = gathered(tmp_path, "f_grpo", LAPTOP, given)
        assert (len(one.rows), len(one.counts), len(one.runs)) == (0, 0, 0)


@pytest.mark.parametrize("paper", ["study", "study_maze"])
def test_a_copy_of_the_committed_tables_counts_as_stored(paper, tmp_path):
    shutil.copytree(REFERENCE / paper, tmp_path / paper)
    for root in (tmp_path, REFERENCE):
        found = gather(root, paper)
        one, _ = gathered(root, paper, LAPTOP, found)
        assert len(one.rows) > 1000
        assert (set(one.runs["state"]), found.left_out) == ({"reference"}, [])


@pytest.mark.sweep
def test_a_paper_is_compared_on_the_stored_study_beside_a_run_of_its_own(tmp_path, monkeypatch):
    shutil.copytree(REFERENCE / STUDY, tmp_path / STUDY)
    own = trained(tmp_path, "method=rloo", "label=mine", "table=mine", "seed=1")
    few_cells(monkeypatch)
    result = assess(spec_of("f_grpo"), tmp_path)
    summed = result.summary[result.summary["scope"] == LAPTOP].set_index("method")
    named = {"base", "GRPO", "F-GRPO (gamma=0.5)", "mine"}
    assert named <= set(summed.index) <= {*methods_of(result.claims), "mine"}
    assert set(summed.loc["mine", "run_ids"]) == {own.name}
    assert set(summed.loc["GRPO", "state"]) == {"reference"}
    committed = pd.read_csv(REFERENCE / "f_grpo" / "claims.csv").set_index("id")["laptop"]
    (read,) = result.verdicts.query("id == 'focal_grpo'")["laptop"]
    assert read == committed["focal_grpo"] != "not run"


def finished(root, x, *, step: int = 200, **meta):
    """A finished run of an experiment, with made-up counts, as its training would leave it."""
    counts = made_up_counts({"natural": 3, "rare": 1}, lambda c: c, problems=4, n=8)
    about = {"table": x.table, "model": x.model.name, "method": x.label, "seed": x.seed}
    return made_up_run(
        root, x.paper, x.run_id, about, {step: counts}, [1, 8], config=asdict(x), meta=meta
    )


@pytest.mark.parametrize(
    ("fewer", "more"), [((1, 6), (64, 6)), ((64, 3), (64, 6)), ((64, 3), (1, 6))]
)
def test_of_two_evaluations_of_one_model_the_fuller_counts(fewer, more, tmp_path):
    """One sample a problem for a quick look, 64 for the table; or after a training went on."""
    x = load(["method=f_grpo", "seed=1"], "f_grpo")
    folder, names = finished(tmp_path, x), []
    others = [(more[0], more[1], {"benchmark": "Rare"}), (1, 6, {"temperature": 0.0})]
    for i, (n, steps, change) in enumerate([(*fewer, {}), (*more, {}), *others]):
        row = {"trained": x.run_id, "benchmark": change.get("benchmark", "Natural"), "steps": steps}
        sampling = {"n": n, "batch": 2048 // n, "temperature": change.get("temperature", 1.0)}
        config = {"scope": "laptop", "label": x.model.name, "row": row, "sampling": sampling}
        run = Run(tmp_path, "f_grpo", f"{x.run_id}-{row['benchmark']}-0123456{i}", config)
        rows = pd.read_csv(folder / "metrics.csv")
        rows.assign(benchmark=row["benchmark"], run_id=run.run_id).to_csv(
            run.path / "metrics.csv", index=False
        )
        run.finish()
        names.append(run.run_id)
    found = gather(tmp_path, "f_grpo")
    assert set(found.scopes["laptop"].rows["run_id"]) == {x.run_id, *names[1:]}
    assert any(names[0] in said and names[1] in said for said in found.left_out)
