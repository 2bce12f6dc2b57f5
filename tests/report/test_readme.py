"""The generated tables: stale where the committed results have changed."""

import re
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tiny import ROOT

from common.comparison import figures
from common.comparison.frontier import DIVERSITY, GRPO, LOWER, RATE
from common.report import readme, verdicts
from common.reproduce import finish
from common.sweeps.cost import Range
from common.sweeps.plan import scales_of
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
    text = readme.week([SimpleNamespace(name="p", about=SimpleNamespace(paper="P"))], tmp_path)
    head, _, *lines = ([x.strip() for x in y.split("|")[1:-1]] for y in text.splitlines())
    table1, all_of_it = lines
    assert len(head) == len(table1)
    assert table1[:5] == ["P", "Table 1", "1.3k to 13k", "0.5 to 5", "0 to 10 of 10"]
    assert table1[5:] == ["4k", "1.5", "20 of 30", "4", "25 %", "not known"]
    assert (all_of_it[1], all_of_it[4], all_of_it[7]) == ("all", "0 of 10", "0 of 30")


def answers(reference) -> tuple[list[list[str]], str]:
    """Return the lines of README's table and the sentence below it."""
    found = [verdicts.paper(name, ROOT / "papers", reference / name) for name in readme.METHODS]
    table, said = readme.answers(found, reference).rstrip().rsplit("\n\n", 1)
    return [[x.strip() for x in y.split("|")[1:-1]] for y in table.splitlines()[2:]], said


def test_a_claim_stands_with_its_printed_number_the_number_here_and_the_verdict():
    lines, said = answers(REFERENCE)
    rows = pd.read_csv(REFERENCE / "fade" / "gaps.csv").set_index(["claim", "scope"])
    printed, here = (rows.loc[("pass1_grpo", scope)] for scope in ("published", "laptop"))
    (line,) = (line for line in lines if line[1] == "FADE's pass@1 is above GRPO's")
    assert line[0].startswith("[FADE](papers/fade/")
    assert line[2] == f"{printed['metric']} {printed['difference']:+.1f}"
    interval = f"[{here['low']:.1f}, {here['high']:.1f}]"
    seeds = f"{here['n_seeds']:.0f} seeds"
    assert line[3] == f"pass@1 {here['difference']:+.1f} {interval}, {seeds}"
    assert line[4] == f"**{here['verdict']}**"
    (read,) = (line[3] for line in lines if line[1].startswith("F-GRPO raises"))
    assert read.endswith("] at equal pass@1, 9 seeds")
    assert read.startswith("pass@64 +")
    assert 5 <= len(lines) <= readme.CLAIMS * len(readme.METHODS)
    assert all(line[2] and line[3] for line in lines)
    said = " ".join(said.split())
    assert "more: FADE, IAC;" in said
    # its interval leaves out 0, and its declared hypothesis does not hold after the correction
    assert "open after correction: F-GRPO (gamma=0.5)" in said


@pytest.mark.parametrize("paper", readme.METHODS)
def test_a_papers_page_has_numbers_and_verdicts_that_are_stored(paper):
    gaps = pd.read_csv(REFERENCE / paper / "gaps.csv").query("scope == 'laptop'")
    verdicts = pd.read_csv(REFERENCE / paper / "claims.csv", index_col="id")["laptop"]
    stored = {
        (f"{one.difference:+.{n}f} [{one.low:.{n}f}, {one.high:.{n}f}]", verdicts[one.claim], p)
        for one in gaps.itertuples()
        for n in (1, 2)
        for p in ("", f"{one.p_holm:.2g}")
    }
    text = (ROOT / "papers" / paper / "README.md").read_text()
    shown = re.findall(
        r"\| ([+-][\d.]+ \[[^]]*\]) \| ([a-z ]+?)(?:, corrected p ([\d.]+))? \|\n", text
    )
    assert len(shown) >= 4
    assert set(shown) <= stored


def test_the_readme_says_whats_predicted_and_stays_short():
    text = (ROOT / "README.md").read_text()
    hours = pd.read_csv(REFERENCE / "gpu_hours.csv").set_index(["paper", "part", "seeds"])
    assert f"{Range(*hours.loc[('f_grpo', 'all', 1), ['low', 'high']])} H100-hours" in text
    prose = re.sub(r"<!--.*?-->|\]\([^)]*\)|```.*?```", "", text, flags=re.DOTALL)
    assert len(re.findall(r"[^\W_][\w@.'%-]*", prose)) <= 450


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


def test_a_method_of_ones_own_stands_among_the_stored_ones(tmp_path, monkeypatch, capsys):
    stored = pd.read_csv(REFERENCE / "study" / "methods.csv")
    mine = stored[(stored["rate"] == RATE) & stored["method"].isin(["IAC", GRPO])]
    mine = mine.replace({"method": {"IAC": "mine"}}).assign(n_seeds=5)
    mine.loc[mine["reading"] == readme.EQUAL, ["difference", "low", "high"]] = 99.0, 98.0, 100.0
    lower = mine["against"] == f"{GRPO} {LOWER}"
    mine.loc[(mine["reading"] == readme.EQUAL) & lower, ["difference", "low"]] = 1.0, -98.0
    (tmp_path / "confirmatory").mkdir()
    mine.to_csv(tmp_path / "confirmatory" / "methods.csv", index=False)
    (*_, (_, lines)), (said,) = readme.own_methods(tmp_path, REFERENCE)
    monkeypatch.setattr(figures, "draw_paper", lambda *_: None)
    finish(scales_of("study", "scale=own", f"results_dir={tmp_path}"))
    printed = capsys.readouterr().out
    rows = [[x.strip() for x in line.split("|")[1:-1]] for line in printed.splitlines()]
    assert [row for row in rows if row][2:] == lines
    assert said in printed
    first = lines[0]
    assert first[0] == "mine"  # it keeps most
    assert (first[3], first[7], first[8]) == ("+99.0 [98.0, 100.0]", "more / unclear", "yours")
    assert len(lines) == 1 + stored.loc[stored["rate"] == RATE, "method"].nunique() - 1
    assert readme.own_methods(tmp_path, tmp_path / "nothing")[0] == []
    (*_, (_, alone)), silent = readme.own_methods(tmp_path / "nothing", REFERENCE)
    assert (len(alone), silent) == (len(lines) - 1, [])
    assert said.startswith("mine ")
    assert all(word in said for word in ("seeds: 5", "GRPO more", "one rate lower unclear"))
