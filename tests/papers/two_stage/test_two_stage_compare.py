"""The two-stage paper's own rows, claims and published numbers."""

import pandas as pd
import pytest
from tiny import ROOT

from common.claims.judge import load as load_claims
from common.comparison import compare
from common.comparison.spec import spec_of
from common.results.files import write_csv
from papers.two_stage.compare import named, toy_rows
from papers.two_stage.toy.tables import PATHS

SPEC = spec_of("two_stage")

CLAIMS = ROOT / "papers" / "two_stage" / "claims.yaml"


# ---- claims


@pytest.mark.sweep
def test_published_verdicts_agree_with_what_is_known_to_contradict_the_text(tmp_path):
    verdicts = compare.assess(SPEC, tmp_path).verdicts
    decided = verdicts.set_index("id")["published"]
    stated = [claim.id for claim in load_claims(CLAIMS) if claim.published]
    assert set(decided[stated]) <= {"holds", "fails", "inconclusive"}  # every selector finds a cell
    assert decided["best_pass1"] == "holds"
    assert decided["over_base"] == "holds"  # in Table 1
    for bench in ("math500", "llama"):  # INC017
        assert decided[f"over_base_{bench}"] == "not claimed here"
    numbers = verdicts.set_index("id")["published_numbers"]
    assert numbers["over_standard"] == "26 hold, 7 fail, 3 open of 36"  # INC016
    assert decided["table4_n_base_llama"] == "not claimed here"  # INC018
    ours = [claim.id for claim in load_claims(CLAIMS) if claim.ours]
    words = decided[stated].drop(ours, errors="ignore")
    assert words[words != "holds"].to_dict() == {"over_standard": "fails"}
    theirs = verdicts[verdicts["published"] != "not claimed here"]["claim"]
    assert not theirs.str.startswith("Not the paper's").any()
    assert set(verdicts["laptop"]) <= {"not run", "not claimed here"}


def test_toy_rows_by_hand(tmp_path):
    folder = tmp_path / "two_stage" / "toy"
    end = dict(figure="fig1", optimizer="adam", method="negative", cell="p2=0.1", seed=7)
    numbers = dict(leader_start=0.5, leader_peak=0.9, leader_end=0.1, best_start=0.1, best_low=0.05)
    numbers |= dict(best_at_peak=0.08, best_end=0.88, peak_step=4, crossing=9, two_stages=1)
    numbers |= dict(negative_1=0.25, negative_2=0.75)
    write_csv(folder / "ends.csv.gz", pd.DataFrame([end | numbers]))
    key = {name: end[name] for name in ("figure", "optimizer", "method", "cell")}
    lines = [
        key | dict(step=i, action=a, mean=0.5, low=0.2, median=0.5, high=0.2 + 0.1 * a, expected=0)
        for i in (0, 1)
        for a in (1, 2, 3)
    ]
    write_csv(folder / "paths.csv.gz", pd.DataFrame(lines)[PATHS])
    rows = toy_rows(tmp_path)
    assert set(rows["method"]) == {"Adam, -N"}
    assert set(rows["benchmark"]) == {"fig1 p2=0.1"}
    values = rows.set_index("metric")["value"].to_dict()
    assert values == pytest.approx(
        dict(two_stages=100, crossed=100, leader_rise=40, leader_peak=90, leader_fall=80,
             best_low=5, best_rise_at_peak=-2, best_rise=80, negative_1=25, negative_2=75,
             spread=20)
    )  # fmt: skip
    assert rows.set_index("metric")["seed"].isna().to_dict()["spread"]
    assert toy_rows(tmp_path / "nowhere").empty
    assert named(pd.DataFrame([key | {"optimizer": "sgd", "method": "full"}]))["method"][0] == (
        "plain step"
    )
