"""A run's folder is found by the hash of its configuration: those of the committed tables still
are."""

import csv
from dataclasses import replace

import pytest
from tiny import ROOT

from common.config.compose import CONFIGS, compose
from common.config.files import names
from common.config.strict import strict
from common.evaluation.config import Evaluate
from common.sweeps.evidence import FIRST as FIRST_SEEDS
from common.sweeps.evidence import base_of
from common.sweeps.plan import Reproduce, Scale, experiments, from_base
from common.yardstick.plan import plan
from common.yardstick.protocol import PROTOCOLS

REFERENCE = ROOT / "results" / "reference"
PAPERS = sorted(path.parent.parent.name for path in REFERENCE.glob("*/laptop/metrics.csv"))


def committed(path) -> set[str]:
    with path.open() as file:
        return {row["run_id"] for row in csv.DictReader(file)}


def made(paper: str) -> set[str]:
    """The run ids of all sweeps on a laptop, each composed for its first seed only: which seed is
    a matter of the hash alone; and those of later seeds, by `rlvr evidence`."""
    config, ids = strict(Reproduce, compose(paper, [], "reproduce")), set()
    for scale in ("laptop", "full"):
        for sweep in config.scales[scale].sweeps:
            one = Scale(parts={}, sweeps=[replace(sweep, seeds=sweep.seeds[:1])])
            runs = experiments(replace(config, scale=scale, scales={scale: one}))
            seeds = {*sweep.seeds, *range(FIRST_SEEDS + 1, 11)}
            ids |= {base_of(replace(x, seed=seed)).run_id for x in runs for seed in seeds}
    return ids


def test_there_are_tables():
    assert len(PAPERS) == 5


@pytest.mark.sweep
@pytest.mark.parametrize("paper", PAPERS)
def test_the_sweeps_still_make_the_committed_runs(paper):
    ids = committed(REFERENCE / paper / "laptop" / "metrics.csv")
    assert len(ids) >= 15
    lost = ids - made(paper)
    # FADE's code rewards are no sweep: papers/fade/configs/code_rewards.yaml
    assert {name for name in lost if not name.startswith("code_")} == set()


@pytest.mark.sweep
@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_the_yardstick_still_makes_its_committed_runs(protocol):
    ids = committed(REFERENCE / protocol.name / "metrics.csv")
    runs, _ = plan(protocol, names("method"), [1], [])
    assert len(ids) > 90
    seeds = [from_base(replace(x, seed=n), protocol.base(n)) for x in runs for n in range(1, 6)]
    assert ids <= {x.run_id for x in seeds}


def test_an_evaluation_made_before_a_models_newer_keys_is_found():
    x = strict(Evaluate, compose(CONFIGS, ["model=tiny", "eval=countdown_natural"], "evaluate"))
    assert x.path.name == "tiny-qwen2-countdown_natural-9099aa7f"  # as of 62af4cf
