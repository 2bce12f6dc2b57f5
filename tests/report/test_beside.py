"""A user's own results beside the committed ones: neither hides the other."""

import numpy as np
import pandas as pd
from report_sources import cell, comparison
from test_report import links, render

from common.comparison import replication
from common.comparison.gather import Gathered
from common.report import sources
from common.report.beside import beside
from common.results.files import write

CELLS = [
    cell("F", "AIME", "not run", ""),
    cell("G", "AIME", "within noise", "computed", run_ids=""),
    cell("G2", "AIME", "not run", ""),
]
RUN = ["laptop_strong", "tiny", "plain", "rare", "pass@64", 200, "percent", 7, 3, 40.6, 60.0]
FOUND = pd.DataFrame([[*RUN, 19.4, 9.0, 30.0, 0.01, "differs"]], columns=replication.COLUMNS)


def own(**changed):
    """A user's comparison: one laptop row, one cluster row, and a claim of each scope."""
    cells = [
        cell("F", "AIME", "differs", "ok", run_ids="run-mine"),
        cell("G", "AIME", "not run", ""),
        cell("G2", "AIME", "not run", ""),
    ]
    made = comparison(cells, replicated=FOUND, left_out=["mine"], **changed)
    verdicts = made.verdicts.assign(laptop="inconclusive", laptop_numbers="1 seed")
    verdicts = verdicts.assign(cluster="holds", cluster_numbers="71 > 70", cluster_state="ok")
    summary = made.summary.assign(value=60.0, run_ids="run-mine")
    runs = made.runs.assign(run_id="run-mine", state="ok")
    ran = Gathered(pd.DataFrame({"run_id": ["run-mine"]}), pd.DataFrame(), runs)
    parts = {"verdicts": verdicts, "summary": summary, "runs": runs, "cluster": ran}
    return made.__class__(**(vars(made) | parts))


def test_what_is_committed_stays_and_own_results_stand_beside_it():
    made = beside(comparison(CELLS), own())
    (row,) = made.verdicts.to_dict("records")
    assert (row["laptop"], row["own"], row["cluster"]) == ("fails", "inconclusive", "holds")
    cells = made.cells.set_index("method")
    assert cells["verdict"].to_dict() == {"F": "differs", "G": "within noise", "G2": "not run"}
    assert made.summary[["scope", "value"]].values.tolist() == [["laptop", 40.6], ["own", 60.0]]
    assert set(made.runs["run_id"]) == {"run-a", "run-mine"}
    assert made.left_out == ["plain", "mine"]
    assert made.gaps["scope"].tolist() == ["laptop", "own"]


def test_own_rows_without_a_cluster_leave_the_cluster_as_it_is():
    none = Gathered(pd.DataFrame(), pd.DataFrame(), pd.DataFrame())
    made = beside(comparison(CELLS), own().__class__(**(vars(own()) | {"cluster": none})))
    assert made.verdicts["cluster"].tolist() == ["not run"]


def test_the_page_has_both_and_the_replication(tmp_path, monkeypatch):
    root, reference = tmp_path / "results", tmp_path / "reference"
    for folder in (root, reference):
        write(folder / "paper_a" / "claims.csv", "")
    (tmp_path / "home" / "paper_a" / "published").mkdir(parents=True)
    write(tmp_path / "home" / "paper_a" / "claims.yaml", "[]\n")
    monkeypatch.setattr(sources, "reruns", lambda paper, prices: [])
    made = {root: own(), reference: comparison(CELLS)}
    for name in ("_assess", "_stored"):
        monkeypatch.setattr(sources, name, lambda paper, folder, reference: made[folder])
    source = sources.read("paper_a", tmp_path / "home", root, reference)
    assert source.root == reference
    _, html = render(source, folder=tmp_path)
    assert links(html, tmp_path) == []
    row = html.find("tr", class_="claim")[0][0]
    assert row["data-verdict"] == "good bad open"  # printed and cluster, laptop, own
    assert html.find("td", class_="c-open s-reference")
    shown = [a["class"] for a, _ in html.find("td") if "data-benchmark" in a and "class" in a]
    # replication; the committed row and the own one; printed cells
    assert shown == ["c-bad", "c-grey s-missing", "c-grey s-missing", "c-bad s-ok",
                     "c-good s-computed", "c-none"]  # fmt: skip
    said = next(text for a, text in html.find("td") if a.get("class") == "c-bad")
    for number in ("40.6", "60.0", "+19.4 [9.0, 30.0]", "7, 3"):
        assert number in said
    roots = {run["run_id"]: run["root"] for run in source.comparison.runs.to_dict("records")}
    assert roots == {"run-a": str(reference), "run-mine": str(root)}
    assert not np.isnan(source.comparison.summary["value"]).any()
    # nobody's own: the committed ones alone
    alone = sources.read("paper_a", tmp_path / "home", tmp_path / "none", reference)
    assert "own" not in alone.comparison.verdicts
