import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from made_up_runs import MATH, cell, cluster_run, named
from refuses import refuses, refuses_file
from tiny import ROOT

from common.claims.file import load
from common.claims.select import indexed
from common.comparison import cells, compare, published, text
from common.comparison.cells import with_best, with_sampling
from common.comparison.gather import REFERENCE
from common.comparison.published import other_names
from common.comparison.spec import Refused, Spec, spec_of
from common.metrics.noise import SEED_SD
from common.results.files import write
from papers.over_sharpening.compare import kernel_cells

SPEC = spec_of("f_grpo")

SCREEN = 40  # lines
NO_RUNS = pd.DataFrame({"run_id": [], "state": []})


def printed(value, text, metric="pass@1"):
    row = {"table": "t", "model": "m", "method": "A", "benchmark": "b", "metric": metric, "k": 1}
    return pd.DataFrame([row | {"value": value, "unit": "percent", "printed": text}])


def rerun(*values, stderr=np.nan):
    row = {"table": "t", "model": "m", "method": "A", "benchmark": "b", "metric": "pass@1"}
    row |= {"unit": "percent", "stderr": stderr, "n_problems": 30, "run_id": "r", "step": 1}
    return pd.DataFrame([row | {"value": value, "seed": i} for i, value in enumerate(values)])


PLAIN = Spec(paper="p", title="P", own_rows=lambda root: [])


def judged(value, text, *values, stderr=np.nan, spec=PLAIN):
    frame = rerun(*values, stderr=stderr) if values else pd.DataFrame()
    table = cells.compare_cells(spec, printed(value, text), frame, pd.DataFrame(), NO_RUNS)
    return table.iloc[0]


def test_the_interval_is_where_one_further_run_would_lie():
    one = judged(50.0, "50.0", 51.0, 52.0, 53.0)
    # mean 52, sd 1 as assumed, t_8(0.975) = 2.306004: 2.306004 * sqrt(4/3) = 2.662744, and 0.05 of
    # rounding
    assert (one["rerun"], one["difference"], one["n_seeds"]) == (52.0, 2.0, 3)
    assert one["low"] == pytest.approx(52 - 2.662744 - 0.05, abs=1e-5)
    assert one["high"] == pytest.approx(52 + 2.662744 + 0.05, abs=1e-5)
    assert one["verdict"] == "within noise"
    assert judged(49.2, "49.2", 51.0, 52.0, 53.0)["verdict"] == "differs"
    assert judged(49.3, "49.3", 51.0, 52.0, 53.0)["verdict"] == "within noise"  # by its rounding


def test_seeds_that_are_alike_have_most_of_the_assumed_spread():
    one, three = (judged(99.0, "99.0", *[100.0] * n, stderr=0.0) for n in (1, 3))
    halves = np.array([1.96 * np.sqrt(2), 2.306004 * np.sqrt(6 / 8 * 4 / 3)]) * SEED_SD["small k"]
    for found, half in zip((one, three), halves, strict=True):
        assert (found["low"], found["high"]) == (pytest.approx(100 - half - 0.05), 100.0)
        assert found["verdict"] == "within noise"


def test_one_seed_has_an_interval_over_seeds_and_samples():
    one = judged(50.0, "50.0", 53.0, stderr=1.0)  # without counts: all of the standard error
    half = 1.96 * np.sqrt(2 * (SEED_SD["small k"] ** 2 + 1))
    assert one["high"] == pytest.approx(53 + half + 0.05)
    assert (one["verdict"], one["state"]) == ("within noise", "computed")
    assert judged(50.0, "50.0", 54.0, stderr=1.0)["verdict"] == "differs"
    base = rerun(54.0, stderr=1.0).assign(step=0)  # not trained: it has no seed
    one = cells.compare_cells(PLAIN, printed(50.0, "50"), base, pd.DataFrame(), NO_RUNS)
    assert one["high"][0] == pytest.approx(54 + 1.96 * np.sqrt(2))


def test_problems_of_the_papers_own_widen_the_interval():
    ours = rerun(50.0, stderr=3.0).assign(sampling=1.0)
    spec = replace(PLAIN, own_problems={"b": 10})  # ours are 30
    for one, apart in ((PLAIN, 0.0), (spec, 8.0 * (1 + 30 / 10))):
        given = (one, printed(50.0, "50"), ours, pd.DataFrame(), NO_RUNS)
        half = 1.96 * np.sqrt(2 * (SEED_SD["small k"] ** 2 + 1) + apart)
        assert cells.compare_cells(*given)["high"][0] == pytest.approx(50 + half)


def test_the_counts_give_the_spread_over_samples():
    name = {"table": "t", "model": "m", "method": "A", "benchmark": "b", "seed": 0, "step": 1}
    counts = pd.DataFrame({"problem_id": ["x", "y"], "n": 4, "c": [1, 4]}).assign(**name)
    rows = rerun(62.5, stderr=9.0).assign(k=1)
    rows = pd.concat([rows, rows.assign(metric="token_entropy", k=np.nan)], ignore_index=True)
    # (3/4)^2 - C(3, 2) / C(4, 2) = 1/16 of x, 0 of y
    assert with_sampling(rows, indexed(counts))["sampling"].tolist() == pytest.approx([12.5, 9.0])


def test_a_printed_best_is_of_the_counts_with_the_plain_reading_beside_it():
    spec = replace(PLAIN, metrics={"best@2": "PASS@2"})
    name = {"table": "t", "model": "m", "method": "A", "benchmark": "b", "seed": 0}
    drawn = {10: [2, 0], 20: [1, 1]}  # pass@2: 50 and 100; best@2: 50 and 75
    counts = pd.concat(
        pd.DataFrame({"problem_id": ["x", "y"], "n": 2, "c": c}).assign(**name, step=step)
        for step, c in drawn.items()
    )
    plain = pd.concat([rerun(50.0).assign(step=10), rerun(100.0).assign(step=20)])
    plain = plain.assign(metric="pass@2", k=2, unit="percent")
    rows = with_best(spec, plain, indexed(counts))
    best = rows[rows["metric"] == "best@2"].set_index("step")
    assert best["value"].to_dict() == {10: 50.0, 20: 75.0}
    assert best["stderr"].to_dict() == {10: 50.0, 20: 0.0}
    shown = cells.as_printed(spec, rows, named())
    assert shown.set_index("metric")["value"].to_dict() == {
        "pass@2": 100.0,
        "best@2": 75.0,
        "PASS@2": 75.0,
    }
    given = (spec, printed(75.0, "75.0", "PASS@2"), shown, pd.DataFrame(), NO_RUNS)
    one = cells.compare_cells(*given).iloc[0]
    assert one["rerun"] == 75.0
    assert "best@2" in one["reason"]
    assert "100.00" in one["reason"]
    plain_only = replace(spec, metrics={"pass@2": "PASS@2"})  # the other reading
    shown = cells.as_printed(plain_only, with_best(plain_only, plain, indexed(counts)), named())
    assert shown.set_index("metric")["value"]["PASS@2"] == 100.0
    assert len(with_best(spec, plain, indexed(counts[:0]))) == 2  # nothing without counts


def test_a_rerun_of_a_part_of_the_problems_is_partial_whatever_it_says():
    whole = replace(PLAIN, problems={"b": 30})
    assert judged(50.0, "50.0", 50.0, stderr=1.0, spec=whole)["verdict"] == "within noise"
    part = judged(50.0, "50.0", 50.0, stderr=1.0, spec=replace(PLAIN, problems={"b": 31}))
    assert (part["verdict"], part["rerun"]) == ("partial", 50.0)
    assert part["reason"].startswith("30 of the 31 problems; one seed")
    # an average has those of its parts; where one's are not known nothing is said
    mean = {"averages": {"b": ["c", "d"]}}
    for sizes, verdict in (({"c": 20, "d": 11}, "partial"), ({"c": 40}, "within noise")):
        spec = replace(PLAIN, problems=sizes, **mean)
        assert judged(50.0, "50.0", 50.0, stderr=1.0, spec=spec)["verdict"] == verdict


def test_a_cell_without_a_rerun_is_not_run_or_not_reproducible():
    one = judged(50.0, "50.0")
    assert (one["verdict"], one["run_ids"], one["state"]) == ("not run", "", "")
    assert pd.isna(one["rerun"])
    spec = replace(PLAIN, not_reproducible=[Refused({"method": "A"}, "a closed model")])
    one = judged(50.0, "50.0", spec=spec)
    assert (one["verdict"], one["reason"]) == ("not reproducible", "a closed model")
    assert judged(50.0, "50.0", 50.0, stderr=1.0, spec=spec)["verdict"] == "within noise"


def test_runs_stand_for_all_rows_that_are_theirs_and_for_averages():
    spec = replace(
        PLAIN,
        averages={"Avg": ["b", "c"]},
        metrics={"pass@1": "AVG@8"},
    )
    both = pd.concat([rerun(10.0, stderr=3.0), rerun(20.0, stderr=4.0).assign(benchmark="c")])
    rows = pd.concat([both.assign(step=10), both.assign(step=20, value=[30.0, 50.0])])
    rows = rows.assign(k=1, unit="percent")
    there = named(
        ("t3", "A (N=8)", "t", "A", "b, step 10"),
        ("t2", "A2", "t", "A", "b"),
        ("t", "A") * 2 + ("b",),
    )
    rows = pd.concat([rows, rows.assign(model="other")])  # which t2 and t3 do not have
    out = cells.as_printed(spec, rows, there)
    assert set(out.loc[out["model"] == "other", "table"]) == {"t"}
    out = out[out["model"] == "m"].set_index(["table", "method", "benchmark", "metric"])
    assert out["value"]["t", "A", "b", "pass@1"] == 30.0  # the last step
    assert out["value"]["t2", "A2", "c", "AVG@8"] == 50.0
    assert out["value"]["t3", "A (N=8)", "b, step 10", "pass@1"] == 10.0
    assert out["value"]["t2", "A2", "Avg", "AVG@8"] == 40.0
    assert out["stderr"]["t2", "A2", "Avg", "AVG@8"] == 2.5  # sqrt(9 + 16) / 2
    assert out["run_id"]["t", "A", "Avg", "pass@1"] == "r"
    half = cells.as_printed(spec, rows[rows["benchmark"] == "b"], there)
    assert "Avg" not in set(half["benchmark"])  # not of a part


def test_closed_forms_are_compared_digit_by_digit():
    exact = kernel_cells(None)
    values = exact.set_index(["method", "metric"])["value"]
    assert values["High similarity", "self_similarity_lambda"] == pytest.approx(0.885)
    printed = published.published(compare.ROOT / "papers" / "over_sharpening" / "published")
    kernel = printed[printed["table"] == "appendix_g"].reset_index(drop=True)
    table = cells.compare_cells(PLAIN, kernel, pd.DataFrame(), exact, NO_RUNS)
    verdicts = table.set_index(["method", "metric"])["verdict"]
    assert verdicts["High similarity", "self_similarity_lambda"] == "differs"  # INC037
    assert set(verdicts[:, "cross_similarity_rho"]) == {"within noise"}
    assert set(table["state"]) == {"computed"}
    assert table[["low", "high"]].isna().all(axis=None)  # nothing was sampled


WHOLE = {"title": "Sixth", "own_rows": "papers.f_grpo.compare.own_rows"}
LOGGED = {"title": "t", "column": "entropy"}
PLOT = {"caption": "Fig. 1: c", "model": "M", "methods": ["A"], "curves": [LOGGED]}


def figure(**changes) -> dict:
    return {"figures": {"fig1": PLOT | changes}}


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({"titel": 1}, "titel", 1),
        ({"averages": None}, "averages", None),
        ({"not_reproducible": [{"where": {"table": "t1"}}]}, "not_reproducible.0.why", ""),
        ({"own_rows": "papers.f_grpo.compare.no"}, "own_rows", "papers.f_grpo.compare.no"),
        ({"gains": [["A"]]}, "gains.0.1", ""),
        (figure(method="A"), "figures.fig1.method", "A"),
        (figure(model=None), "figures.fig1.model", None),
        (figure(curves=[LOGGED | {"colum": "x"}]), "figures.fig1.curves.0.colum", "x"),
        (figure(curves=[LOGGED | {"ema": 0}]), "figures.fig1.curves.0.ema", 0),
        (figure(curves=[LOGGED | {"metric": "pass@1"}]), "t: column", "entropy"),
        (figure(curves=[{"title": "t", "metric": "pass@1", "ema": 0.5}]), "t: ema", 0.5),
        (figure(curves=[]), "Fig. 1: curves", []),
        (figure(curves=[], cells=[{"benchmark": "b"}]), "Fig. 1: tables", []),
    ],
)
def test_a_comparison_with_a_wrong_key_is_refused(changes, key, value, tmp_path, monkeypatch):
    monkeypatch.setattr("common.comparison.spec.ROOT", tmp_path)
    path = tmp_path / "papers" / "sixth" / "compare.yaml"
    write(path, json.dumps(WHOLE | changes))
    with refuses(key, value) as caught:
        spec_of("sixth")
    assert str(path) in str(caught.value)


def test_a_comparison_without_its_file_or_a_key_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("common.comparison.spec.ROOT", tmp_path)
    with refuses_file(path := tmp_path / "papers" / "sixth" / "compare.yaml"):
        spec_of("sixth")
    write(path, "title: Sixth")
    with refuses("own_rows", "") as caught:
        spec_of("sixth")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("paper", ["f_grpo", "two_stage", "over_sharpening", "cov_grpo"])
def test_footnotes_touch_cells_that_are_there(paper):
    spec = spec_of(paper)
    home = compare.ROOT / "papers" / paper / "published"
    frame = published.published(home)
    listed = set(pd.read_csv(home / "inconsistencies.csv")["id"])
    notes = cells.footnotes(spec, frame)
    assert set(spec.footnotes) <= listed
    assert {one for note in notes for one in note.split(";")} - {""} == set(spec.footnotes)
    assert set(spec.problems) | set(spec.averages) <= set(frame["benchmark"])
    for one in spec.not_reproducible:
        assert cells.matches(frame, one.where).any()


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    for seed in (1, 2, 3):
        cluster_run(root, "GRPO", seed, dict.fromkeys(MATH, 0.37))
    cluster_run(root, "F-GRPO", 1, dict.fromkeys(MATH, 0.9))
    return root


def few_claims(path):
    """A comparison takes the time of its claims."""
    return load(path)[:5]


@pytest.fixture(scope="module")
def result(compared):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "load", few_claims)
        return compare.assess(SPEC, compared)


def test_cluster_runs_stand_for_printed_cells(result):
    assert result.left_out == []
    average = cell(result, benchmark="Avg_Math")
    assert average["n_seeds"] == 3
    assert average["rerun"] == pytest.approx(37, abs=2)
    assert average["verdict"] == "within noise"  # printed: 37.3
    assert cell(result, "GRPO (N=8)", "Avg_Math", table="table3")["rerun"] == average["rerun"]
    far = cell(result, "F-GRPO", "Avg_Math")
    assert (far["verdict"], far["n_seeds"]) == ("differs", 1)
    assert cell(result, metric="pass@256")["notes"] == "INC006"
    claims = result.verdicts.set_index("id")
    assert claims["published"]["focal_grpo"] == "holds"
    assert set(result.summary["scope"]) == {"cluster"}


@pytest.mark.sweep
def test_what_is_written_and_printed_says_the_same(result, compared, monkeypatch, capsys):
    monkeypatch.setattr(compare, "load", few_claims)
    compare.compare(SPEC, compared)
    shown = capsys.readouterr().out
    assert "within noise" in shown
    assert len(shown.splitlines()) <= SCREEN
    assert "| GRPO | printed | 37.3 | " in (compared / "f_grpo" / "comparison.md").read_text()
    stored = pd.read_csv(compared / "f_grpo" / "cells.csv", keep_default_na=False)
    ran = result.cells[result.cells["rerun"].notna()]
    assert stored["verdict"].tolist() == ran["verdict"].tolist()
    assert 0 < len(stored) < len(result.cells)


@pytest.mark.sweep
def test_a_folder_that_cannot_be_written_is_shown_before_it_is_refused(
    compared, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(compare, "load", few_claims)
    root = shutil.copytree(compared, tmp_path / "results", ignore=shutil.ignore_patterns("cluster"))
    write(root / "f_grpo" / "cluster", "no folder")
    with refuses_file(root / "f_grpo" / "cluster" / "metrics.csv.gz"):
        compare.compare(SPEC, root)
    assert "within noise" in capsys.readouterr().out


def test_the_headlines_have_what_was_printed_what_you_have_and_what_is_stored():
    stored = REFERENCE / "f_grpo"
    gaps, judged = (pd.read_csv(stored / f"{name}.csv") for name in ("gaps", "claims"))
    gaps.loc[gaps["scope"] == "laptop", ["difference", "n_seeds"]] = 3.0, 4
    judged.loc[judged["id"] == "focal_grpo", "laptop"] = "inconclusive"
    own = SimpleNamespace(spec=SPEC, verdicts=judged, gaps=gaps)
    claims = load(ROOT / "papers" / "f_grpo" / "claims.yaml")
    table = text.headlines(own, claims, stored)
    first = [next(iter(column.cells)) for column in table.columns]
    old = pd.read_csv(stored / "gaps.csv")
    old = old[(old["claim"] == "focal_grpo") & (old["scope"] == "laptop")].iloc[0]
    assert first[0] == next(one.headline for one in claims if one.id == "focal_grpo")
    assert first[1] == "+6.2"
    assert first[2].startswith("+3.0 [")
    assert first[2].endswith("4 seeds")
    assert first[3] == "inconclusive"
    assert first[4].startswith(f"{old['difference']:+.1f} [")
    assert first[4].endswith("holds")
    own.gaps = pd.concat([gaps, gaps[gaps["claim"] == "focal_grpo"]])  # with two comparisons
    twice = next(iter(text.headlines(own, claims, stored).columns[2].cells))
    assert twice == f"{first[2]} (first of 2)"
    judged["laptop"] = "not run"
    bare = text.headlines(
        SimpleNamespace(spec=SPEC, verdicts=judged, gaps=gaps[gaps["scope"] == "published"]),
        claims,
        stored,
    )
    assert [*bare.columns[2].cells] == [""] * bare.row_count


def curve(values: dict[int, float], benchmark="b") -> pd.DataFrame:
    frames = [rerun(value).assign(step=step) for step, value in values.items()]
    return pd.concat(frames).assign(benchmark=benchmark, k=1, unit="percent", table="t1")


def test_a_table_is_of_its_step_or_the_peak_of_its_average():
    rows = pd.concat(
        [curve({50: 30.0, 100: 30.0, 150: 10.0}), curve({50: 10.0, 100: 40.0, 150: 50.0}, "c")],
        ignore_index=True,
    )

    def chosen(step):
        more = {} if step is None else {"steps": {"t1": step}}
        spec = replace(PLAIN, averages={"Avg": ["b", "c"]}, **more)
        return cells.at_step(spec, rows).set_index("benchmark")["step"].to_dict()

    assert chosen(None) == {"b": 150, "c": 150}
    assert chosen(50) == {"b": 50, "c": 50}
    assert chosen(75) == {}  # not the nearest
    assert chosen("peak of average") == {"b": 100, "c": 100}  # means 20, 35, 30
    untrained = cells.at_step(replace(PLAIN, steps={"t1": 100}), curve({0: 5.0}))
    assert untrained["step"].tolist() == [0]


def test_a_clusters_summary_has_every_metric_at_its_own_step():
    early, late = (rerun(30.0).assign(k=1, unit="percent", step=step) for step in (50, 100))
    rows = pd.concat([early.assign(metric="AVG@8"), late.assign(metric="PASS@8")])
    for scope, there in (("cluster", {"AVG@8", "PASS@8"}), ("laptop", {"PASS@8"})):
        assert set(compare.summary({scope: rows}, NO_RUNS)["metric"]) == there


def test_two_runs_that_speak_for_one_cell_are_named_and_neither_counts():
    two = pd.concat([rerun(10.0), rerun(20.0).assign(run_id="s", step=2)], ignore_index=True)
    names = other_names(named())
    kept, messages = cells.one_run_each(PLAIN, two, names)
    assert kept.empty
    assert messages[0].startswith("t, m, A, b, seed 0: r and s both have it")
    by_step = replace(PLAIN, steps={"t": 2})
    assert len(cells.one_run_each(by_step, two, names)[0]) == 2  # evaluations of two checkpoints
    assert cells.one_run_each(PLAIN, two[:1], names)[1] == []
