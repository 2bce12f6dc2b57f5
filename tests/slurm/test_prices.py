"""What the page says of costs is what the dry run says."""

import re

import pandas as pd
import pytest
from tiny import ROOT

from common.config.files import papers
from slurm import dry_run, prices
from slurm.launch import tables_of
from slurm.plan import plan
from slurm.tables import chosen

REFERENCE = ROOT / "results" / "reference"
pytestmark = pytest.mark.sweep


def test_the_stored_costs_are_the_dry_runs(tmp_path):
    prices.write("two_stage", tmp_path)  # the quickest of five: one function makes them all
    for name in ("costs", "budget"):
        stored, made = (
            pd.read_csv(folder / "two_stage" / f"{name}.csv") for folder in (REFERENCE, tmp_path)
        )
        pd.testing.assert_frame_equal(stored, made, rtol=1e-6)
    rows = pd.read_csv(tmp_path / "two_stage" / "costs.csv")
    found = chosen(
        "two_stage", tables_of("two_stage"), table="", row="", scale="cluster", without=""
    )
    jobs = plan(found.runs, found.evaluations, found.commands, found.measures, found.gates)
    said: list[str] = []
    profile = prices.load_profile(prices.PROFILE)
    dry_run.show(jobs, paper="two_stage", profile=profile, root=found.root, say=said.append)
    own = rows[rows["scope"] == "cluster"]
    total = prices.cost.Range(own["low"].sum(), own["high"].sum())
    assert any(f"{len(jobs)} jobs, {total} GPU-hours" in line for line in said)
    assert not any(re.search(r"e\+\d+ GB", line) for line in said)


def test_every_paper_has_both():
    for paper in papers():
        for name in ("costs", "budget"):
            assert (REFERENCE / paper / f"{name}.csv").exists(), (paper, name)
