"""The page: made of result files alone, with every value escaped."""

import html
import re
import shutil

import pandas as pd
import pytest
from test_verdicts import stored, written
from tiny import ROOT

from common.comparison.frontier import GRPO
from common.report import page


@pytest.fixture
def built(tmp_path):
    """The page of a committed paper, as a function of what else is there."""
    home, committed = written(tmp_path / "papers"), tmp_path / "reference"
    folder = stored(committed / "p")
    (folder / "comparison.md").write_text("# P")
    (folder / "figures").mkdir()
    for name in ("fig10", "fig9", "cluster_fig1"):
        (folder / "figures" / f"{name}.png").write_bytes(b"")

    def build(root="none", to="page"):
        return page.build(home, tmp_path / root, committed, tmp_path / to)

    return build


def test_a_claim_stands_with_its_verdicts_and_numbers(built):
    text = built()
    row = text.split('<tr id="p-rl">')[1].split("</tr>")[0]
    assert re.findall(r'class="word (\w+)"', row) == ["good", "good", "none"]
    assert '<span class="numbers">n</span>' in row
    assert "7.1 [3.4, 10.8] points of rare pass@64" in text
    assert 'href="../reference/p/comparison.md"' in text


def test_counts_are_of_print_each_kind_and_a_cluster(built):
    text = html.unescape(built())
    bars = re.findall(r'<th scope="row">([^<]*)</th><td><span class="bar"(.*?)</td>', text)
    counts = {name: re.findall(r'title="([^"]*)"', bar) for name, bar in bars}
    assert counts == {
        "printed numbers": ["5 holds"],
        "RL of a small model": ["1 holds", "1 inconclusive"],
        "theory and single measurements": ["1 holds"],
        "toys and simulations": ["1 fails"],
        "the paper's size": ["5 not run"],
    }


def test_figures_are_links_from_the_folder_of_the_page(built):
    found = [*dict.fromkeys(re.findall(r'src="([^"]*)"', built(to="a/b")))]
    names = ["cluster_fig1", "fig9", "fig10"]
    assert found == [f"../../reference/p/figures/{name}.png" for name in names]


def test_the_studys_picture_stands_first_that_of_the_declared_runs_if_it_is_there(built, tmp_path):
    for folder in ("study", "confirmatory"):
        path = tmp_path / "reference" / folder / "figures" / "keeps.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
        first, *_ = re.findall(r'src="([^"]*)"', built())
        assert first == f"../reference/{folder}/figures/keeps.png"


def test_own_results_stand_beside_the_committed_ones(built, tmp_path):
    """A claim that own runs decide has both verdicts, any other one the stored verdict alone."""
    assert "<i>yours</i>" not in built()
    stored(tmp_path / "mine" / "p", rl="fails", refused="not run")
    own = built("mine")
    rows = {
        name: own.split(f'<tr id="p-{name}">')[1].split("</tr>")[0] for name in ("rl", "refused")
    }
    assert re.findall(r'class="word (\w+)"', rows["rl"]) == ["good", "bad", "good", "none"]
    assert re.findall(r">(yours|stored)<", rows["rl"]) == ["yours", "stored"]
    assert re.findall(r'class="word (\w+)"', rows["refused"]) == ["good", "open", "none"]
    counts = html.unescape(own).split('<table class="counts">')[1]
    assert 'title="1 fails"' in counts.split("RL of a small model")[1].split("</tr>")[0]


def test_a_method_of_ones_own_stands_among_all_on_the_page(built, tmp_path):
    assert '<tr class="yours">' not in built()
    assert 'id="study"' not in built()
    stored = pd.read_csv(ROOT / "results" / "reference" / "study" / "methods.csv")
    own = stored.replace({"method": {"IAC": "<mine>"}})
    for name, rows in (("reference/study", stored), ("runs/confirmatory", own)):
        (tmp_path / name).mkdir(parents=True)
        rows[rows["method"].isin(["<mine>", "FADE", GRPO])].to_csv(tmp_path / name / "methods.csv")
    text = built("runs")
    table = text.split('<table class="methods">')[1].split("</table>")[0]
    lines = re.findall(r'<tr(?: class="(yours)")?><th scope="row">([^<]*)</th>(.*?)</tr>', table)
    assert [line[:2] for line in lines] == [("", "FADE"), ("yours", "&lt;mine&gt;")]
    assert all(line[2].count("<td>") == len(page.readme.METHODS_HEAD) for line in lines)
    assert text.count("keeps of rare pass@64") == 1
    (tmp_path / "reference/confirmatory").mkdir()
    shutil.copy(tmp_path / "reference/study/methods.csv", tmp_path / "reference/confirmatory")
    declared, exploratory = built("runs").split('<table class="methods">')[1:]
    assert "method, on Countdown, declared" in declared
    assert 'class="yours"' not in declared
    assert 'class="yours"' in exploratory


def test_the_page_of_the_committed_results_has_every_paper_in_the_readmes_order(tmp_path):
    reference = ROOT / "results" / "reference"
    text = html.unescape(page.build(ROOT / "papers", tmp_path, reference, tmp_path))
    assert re.findall(r'<article id="(\w+)">', text) == [*page.readme.METHODS, "study"]
    assert "Focal weighting raises GRPO's pass@k at large k (equal steps, " in text
