"""The generated tables: stale where the committed results have changed."""

import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tiny import ROOT

from common.comparison.frontier import ACCURACY, BASE, DIVERSITY, GRPO, LOWER, RATE
from common.report import readme
from rlvr_papers import docs
from rlvr_papers.docs import REFERENCE


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return docs.pages()


@pytest.mark.parametrize(
    "file",
    [
        "README.md",
        "docs/cluster-week.md",
        "docs/evidence.md",
        "docs/speed.md",
        "papers/study/README.md",
    ],
)
def test_the_tables_are_those_of_the_committed_results(file, pages):
    assert pages[file] == (ROOT / file).read_text(), "stale: make docs"


@pytest.mark.parametrize("part", [("cov_grpo", "all", 3), ("fade", "table5", 1)])
def test_the_stored_hours_are_those_of_the_dry_run(part):
    stored = pd.read_csv(REFERENCE / "gpu_hours.csv").set_index(["paper", "part", "seeds"])
    row = docs.rerun(*part)
    assert stored.loc[part].to_dict() == pytest.approx(
        {name: row[name] for name in stored.columns}, rel=1e-6
    ), "stale: make docs"


def test_a_week_holds_whole_trainings_on_whole_nodes(tmp_path):
    one = {"paper": "p", "part": "table1", "seeds": 1, "gpus": 8, "trainings": 10}
    one |= {"low": 1344.0, "high": 13441.0, "claims": 4, "recognised": 0.25}
    three = one | {"seeds": 3, "trainings": 30, "low": 4032.0, "high": 4032.0, "recognised": np.nan}
    wide = [row | {"part": "all", "gpus": 32} for row in (one, three)]
    pd.DataFrame([one, three, *wide]).to_csv(tmp_path / "gpu_hours.csv", index=False)
    text = readme.week([SimpleNamespace(name="p", title="P")], tmp_path)
    head, _, *lines = ([x.strip() for x in y.split("|")[1:-1]] for y in text.splitlines())
    table1, all_of_it = lines
    assert len(head) == len(table1)
    assert table1[:5] == ["P", "Table 1", "1.3k to 13k", "0.5 to 5", "0 to 10 of 10"]
    assert table1[5:] == ["4k", "1.5", "20 of 30", "4", "25 %", "not known"]
    assert (all_of_it[1], all_of_it[4], all_of_it[7]) == ("all", "0 of 10", "0 of 30")


def test_what_the_page_says_of_a_week_is_so():
    """CW-GRPO and two-stage fit with one seed; no training of FADE ends on a node of eight."""
    high, low, count = (
        pd.read_csv(REFERENCE / "gpu_hours.csv").set_index(["paper", "part", "seeds"])[name]
        for name in ("high", "low", "trainings")
    )
    for paper in ("cov_grpo", "two_stage"):
        assert high[paper, "all", 1] < readme.GPUS * readme.WEEK_HOURS
    assert low["fade", "all", 1] / count["fade", "all", 1] > 8 * readme.WEEK_HOURS


@pytest.fixture
def stored_study(tmp_path):
    """The committed rows of the study, and the hours of each paper in several parts."""
    (tmp_path / "study").mkdir()
    study = pd.read_csv(REFERENCE / "study" / "methods.csv")
    of_all = {"part": "all", "seeds": 1, "low": 900, "high": 1200.4}
    others = [of_all, of_all | {"part": "table1", "low": 1}, of_all | {"seeds": 3, "low": 2700}]
    hours = [{"paper": paper} | one for paper in readme.METHODS for one in others]
    pd.DataFrame(hours).to_csv(tmp_path / "gpu_hours.csv", index=False)

    def lines(rows=study) -> list[list[str]]:
        rows.to_csv(tmp_path / "study" / "methods.csv", index=False)
        text = readme.table(tmp_path).splitlines()
        return [[x.strip() for x in line.split("|")[1:-1]] for line in text][2:]

    return study, lines


def test_a_method_stands_with_its_effects_and_what_a_rerun_costs(stored_study):
    study, lines = stored_study
    fade = study[study["method"] == "FADE"].set_index(["reading", "metric", "against"])
    last = fade.loc[(readme.LAST, "pass@64", f"{GRPO} {RATE}")]
    row = next(line for line in lines() if "papers/fade/" in line[0])
    assert row[2] == f"{last['difference']:+.1f} [{last['low']:.1f}, {last['high']:.1f}]"
    assert row[-1] == "900 to 1.2k"
    assert len(row) == len(readme.HEAD)
    assert row[5] == "more / more"


def test_grpo_stands_with_its_gain_and_loss_from_the_base_model(stored_study):
    study, lines = stored_study
    grpo = study[(study["method"] == GRPO) & (study["rate"] == RATE)]
    base = grpo[grpo["against"] == BASE].set_index(["reading", "benchmark", "metric"])
    first = lines()[0]
    for text, measure in zip(first[1:3], (ACCURACY, DIVERSITY), strict=True):
        one = base.loc[(readme.LAST, *measure)]
        assert text == f"{one['difference']:+.1f} [{one['low']:.1f}, {one['high']:.1f}]"
    assert set(first[3:]) == {"-"}


def test_what_was_not_run_has_no_effect(stored_study):
    study, lines = stored_study
    _, *found = lines(study[study["against"] != f"{GRPO} {LOWER}"])
    assert all(line[4] == "not run" for line in found)
    assert found[0][3] != "not run"


@pytest.fixture
def every_method(tmp_path):
    """The lines of the table of all methods, by method, from rows like the stored ones."""

    def lines(rows) -> dict[str, list[str]]:
        rows.to_csv(tmp_path / "methods.csv", index=False)
        text = readme.every_method("here", tmp_path).splitlines()[2:]
        cells = [[x.strip() for x in line.split("|")[1:-1]] for line in text]
        return {line[0].strip("[").partition("]")[0]: line[1:] for line in cells}

    return lines


def test_each_method_has_a_line_in_the_order_of_what_it_keeps(every_method):
    stored = pd.read_csv(REFERENCE / "study" / "methods.csv")
    lines = every_method(stored)
    at_rate = stored[(stored["rate"] == RATE) & (stored["against"] == f"{GRPO} {RATE}")]
    rows = at_rate.set_index(["reading", "metric", "method"])["difference"].sort_index()
    kept = rows.loc[readme.EQUAL, "pass@64"]
    assert len(lines) == len(kept) == at_rate["method"].nunique()
    assert GRPO not in lines
    shown = kept[list(lines)]
    assert shown.dropna().is_monotonic_decreasing
    assert shown.isna().to_list() == sorted(shown.isna())  # what has no number stands last
    costs = {method: line[0].split()[0] for method, line in lines.items()}
    assert costs.pop("DAPO") == "identical"
    costs = {method: float(text) for method, text in costs.items()}
    last = rows.loc[readme.LAST, "pass@1"][list(costs)]
    assert costs == pytest.approx(last.to_dict(), abs=0.051)
    for place, metric in ((4, "pass@8"), (5, "distinct_correct")):
        shown = {method: line[place].split()[0] for method, line in lines.items()}
        assert shown.pop("DAPO") == "identical"
        known = rows.loc[readme.LAST, metric][list(shown)].to_dict()
        assert {x: float(text) for x, text in shown.items()} == pytest.approx(known, abs=0.051)
    assert lines["FADE"][6] == "more / more"
    assert lines["GRPO-N"][6] == "less / less"
    assert lines["DAPO"][6] == "identical / unclear"
    assert lines["CW-GRPO (by group)"][6] == "not measured"


def test_a_method_needs_what_its_advantage_looks_at():
    assert readme.needs("GRPO") == readme.needs("FADE") == "rewards"
    assert readme.needs("IPS-GRPO") == "rewards, outcomes"
    assert readme.needs("unlikeliness") == "rewards, lengths, log-probs"
    assert readme.needs("UCPO") == "rewards, lengths, log-probs"


def test_the_ladder_stands_beside_the_laptops_rows(tmp_path):
    """A row of the GPU has its own number and seeds; one that was not run says so."""
    (tmp_path / "study").mkdir()
    shutil.copy(REFERENCE / "study" / "methods.csv", tmp_path / "study")
    missing = readme.ladder(tmp_path).splitlines()
    assert all("not run" in line for line in missing if line.startswith("| 10.6 M "))
    folder = tmp_path / "gpu" / "card" / "study_ladder"
    folder.mkdir(parents=True)
    named = {"rate": RATE, "method": "IAC", "benchmark": DIVERSITY[0]}
    named |= dict(zip(readme.PLACE, readme.RUNGS[3], strict=True))
    number = dict(difference=7.0, low=1.0, high=13.0, p=0.01, p_holm=0.02, n_seeds=4)
    pd.DataFrame([named | number]).to_csv(folder / "methods.csv", index=False)
    lines = [line.split(" | ") for line in readme.ladder(tmp_path).splitlines()]
    (mine,) = (line for line in lines if line[:2] == ["| 10.6 M, card", "IAC"])
    assert mine[2:7] == ["4", "not run", "not run", "not run", "+7.0 [1.0, 13.0]"]
    assert len([line for line in lines if line[0] == "| 0.4 M"]) == len(readme.LADDER)


def test_a_method_of_ones_own_stands_among_the_stored_ones(tmp_path):
    stored = pd.read_csv(REFERENCE / "study" / "methods.csv")
    mine = stored[(stored["rate"] == RATE) & stored["method"].isin(["IAC", GRPO])]
    mine = mine.replace({"method": {"IAC": "mine"}}).assign(n_seeds=5)
    mine.loc[mine["reading"] == readme.EQUAL, ["difference", "low", "high"]] = 99.0, 98.0, 100.0
    lower = mine["against"] == f"{GRPO} {LOWER}"
    mine.loc[(mine["reading"] == readme.EQUAL) & lower, ["difference", "low"]] = 1.0, -98.0
    (tmp_path / "confirmatory").mkdir()
    mine.to_csv(tmp_path / "confirmatory" / "methods.csv", index=False)
    lines, (said,) = readme.own_methods(tmp_path, REFERENCE)
    first = lines[0]
    assert first[0] == "mine"  # it keeps most
    assert (first[3], first[7], first[8]) == ("+99.0 [98.0, 100.0]", "more / unclear", "yours")
    assert len(lines) == 1 + stored.loc[stored["rate"] == RATE, "method"].nunique() - 1
    assert readme.own_methods(tmp_path / "nothing", REFERENCE) == ([], [])
    assert said.startswith("mine ")
    assert all(word in said for word in ("seeds: 5", "GRPO more", "one rate lower unclear"))
