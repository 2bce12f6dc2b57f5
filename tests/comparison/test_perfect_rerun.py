"""If every cluster job gave exactly the printed numbers, would the comparison say so?

tests/support/perfect.py makes such a rerun; the real gather, checkpoint choice, averages, verdicts
and cells read it.
"""

import json
import shutil
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import pandas as pd
import perfect
import pytest
from made_up_runs import few_cells

from common.claims.file import load
from common.claims.single import ONE_RUN
from common.comparison import cluster_figures, compare
from common.comparison.cells import CELL
from common.comparison.cluster_figures import LeftOut
from common.comparison.compare import ROOT, assess
from common.comparison.gather import Gathered
from common.comparison.published import published
from common.comparison.spec import Curve, Plot
from common.plotting import pyplot
from common.results.files import write, write_csv

pytestmark = pytest.mark.sweep


@dataclass(frozen=True)
class Expected:
    """Of a paper: how many printed cells its configured rows fill, how many they do not and why,
    and which claims wait for these."""

    filled: int
    unfilled: dict[str, int]  # beginning of the reason -> cells
    scales: tuple[str, ...] = ("cluster",)
    waiting: set[str] = field(default_factory=set)  # claims that read "not run"
    figures: dict[str, int] = field(default_factory=dict)  # drawn: rows of its CSV
    not_drawn: set[str] = field(default_factory=set)
    differ: int = 0  # closed forms of the paper's own that its printed digits are not
    apart: dict[str, str] = field(default_factory=dict)  # claims with another verdict: which
    far: float = 0.7  # the most that a made-up number is off: a set of 30, a row of nine numbers


BASES = ("grpo", "dapo", "cispo")
SETS = 9
BEST = 459  # perfect.highest
EXPECTED = {
    "f_grpo": Expected(
        scales=("cluster", "cluster_v2", "gpu"),
        filled=2914,
        unfilled={},
        apart={
            "mean_gain_ood": "holds",  # asked of a rerun is what Table 1's cells give (INC001)
            "focal_pass1": "holds",  # on average: one of nine pairs in print is 1.2 points lower
        },
        figures={
            **dict.fromkeys(("cluster_fig1b", "cluster_fig1c"), 2 * 4),
            **{f"cluster_table12_v2_{base}": 2 * SETS * 9 for base in BASES},
            "cluster_gamma": 3 * 3 * 3 * 5,  # models, methods, exponents, evaluations
            "cluster_maze_fig6": 18 * 4,  # rows, k = 1, 128, 1024, 2048
            "cluster_maze_fig7": 18 * (3 + 5 + 5),  # logged steps, evaluations at two k
        },
        # their AIME25 is of the first stage, cluster_v2_first
        not_drawn={f"cluster_v2_fig{i}" for i in (8, 9, 10)},
    ),
    "two_stage": Expected(
        scales=("cluster", "cluster_sequence", "cluster_long"),
        filled=391,
        unfilled={},
        waiting={"fewer_erroneous"},  # of the text of samples
        # not the paper's claims (INC017, INC018), and its printed numbers say otherwise
        apart={
            **dict.fromkeys(
                (
                    *("over_base_math500", "over_base_llama", "over_standard_in_domain"),
                    *("over_standard_math500", "over_standard_llama"),
                    *("table4_n_base", "table4_n_base_llama"),
                ),
                "fails",
            ),
            "over_standard": "holds",  # on average
            # all made-up trainings log one entropy and one reward, and end at one accuracy
            **dict.fromkeys(
                (
                    *("fig2_collapse", "fig2_above_base", "fig2_turn", "fig2_entropy"),
                    *("long_rises", "long_n_keeps", "long_n_reward"),
                ),
                "inconclusive",
            ),
            # no number of the prolonged training is printed, so it is made up as 0
            **dict.fromkeys(("long_above_base", "long_n_learns"), "fails"),
        },
        # by method: 10 points of accuracy and of entropy, and two columns of three logged steps
        figures={"cluster_fig2": 4 * 26, "cluster_fig4": 2 * 26},
    ),
    "over_sharpening": Expected(
        # 266 of Tables 2 to 5, and App. G's seven by its printed embeddings, four of which differ
        # because the paper's own arithmetic does (INC037)
        filled=273,
        unfilled={},
        scales=("cluster", "cluster_filter"),
        differ=4,
        # 40.68 on AIME24 is no share of 240 responses (INC043): 40.83 takes the 0.03 by which IAC's
        # 65.63 is above Reinforce++'s 65.60
        apart={"iac_best_8b": "fails"},
        figures={"cluster_fig6": 2 * 3},
    ),
    "fade": Expected(
        scales=("cluster", "cluster_32b", "cluster_base"),
        filled=112,  # 42 by the weights' job
        unfilled={"the results have no run of it": 2},  # Table 10: papers/fade/hidden_states
        # of Table 10; a made-up measure has only the printed cells
        waiting={
            *("rho_perp", "rho_perp_above", "suppress_tokens", "suppress_spread"),
            *("head_aligned", "inner_exploratory", "scale_entropy"),  # one rate: a scale of its own
            *("slope_lost", "slope_kept"),  # a made-up run that solves nothing has no slope
        },
        apart={
            "power_5": "holds",  # 3.1 is not the printed 2.56, and within a run's noise
            "best_aime_32b": "holds",  # on average
            # a made-up run of a method without printed cells solves nothing
            **dict.fromkeys(("pass_at_k_driven", "target_half"), "fails"),
            # all made-up trainings log one entropy, and have one plateau
            **dict.fromkeys(("early_size_7b", "early_size_32b"), "fails"),
            **dict.fromkeys(
                (
                    *("entropy_delta", "entropy_reinforce", "entropy_suppress", "no_delta"),
                    *("alpha_falls", "delta_falls", "early_grpo", "early_static", "early_32b"),
                ),
                "inconclusive",
            ),
        },
        figures={
            **dict.fromkeys(("cluster_fig6_7b", "cluster_fig6_32b"), 5 * 2),
            "cluster_fig8": 4 * 2 * 3,  # runs, alpha and delta, logged steps
            "cluster_fig3_entropy": 6 * 3,  # deltas, logged steps
            "cluster_fig4": 7,  # methods, as below
            "cluster_fig5_right": 4,
            "cluster_fig14_equalised": 4 * 3,
            **dict.fromkeys(("cluster_fig10_7b", "cluster_fig10_32b"), 2 * 17),  # SFT, GRPO
            "cluster_fig11": 2 * 4 * 10,  # budgets, k
            "cluster_fig12": 3 * 4 * 10,  # thirds
        },
        # a made-up measure has only the printed numbers, and a scale of its own draws curves of
        # n = 200 and one learning rate
        not_drawn={
            *("cluster_fig3_right", "cluster_fig5", "cluster_fig6_left", "cluster_fig13"),
            *("cluster_fig1_7b", "cluster_fig1_32b", "cluster_fig9", "cluster_fig14_same"),
        },
    ),
    "cov_grpo": Expected(
        filled=75,  # ten of them Table 1's, by the log of GRPO's first 50 steps
        unfilled={
            "taken over from other papers": 45,
            "a count or a difference": 22,
        },
        apart={
            # asked of a rerun is what Table 2's cells give (INC023, INC024), or the mean (INC026)
            **dict.fromkeys(("cw_grpo_gain_7b", "over_base_cw_grpo_7b", "gain_7b"), "holds"),
            # all made-up trainings log one entropy
            **dict.fromkeys(("stable_range", "stable_steps", "stable_drop"), "inconclusive"),
            "grpo_unstable": "fails",
        },
        # by method: entropy and reward at four logged steps; Fig. 3's twelve shares and the whole
        figures={"cluster_fig1_7b": 2 * 8, "cluster_fig1_15b": 2 * 8, "cluster_fig3": 13},
    ),
}


SPREADS = compare.SPREADS


@pytest.fixture(scope="module", autouse=True)
def quicker():
    """Leave out the p-values of F-GRPO's App. I, which test_gains.py has, and the verdicts at other
    spreads over seeds, which cov_grpo has below: they take three fifths of a comparison's time."""
    with (
        patch("common.comparison.gains._p_samples", lambda *_: float("nan")),
        patch.object(compare, "SPREADS", {}),
    ):
        yield


@pytest.fixture(scope="module", params=EXPECTED)
def whole(request, tmp_path_factory):
    expected, paper = EXPECTED[request.param], request.param
    root = tmp_path_factory.mktemp("perfect")
    made = perfect.rerun(root, paper, scales=expected.scales)
    with patch.object(compare, "SPREADS", SPREADS if paper == "cov_grpo" else {}):
        return made, assess(made.spec, made.root), expected


def test_every_cell_that_a_row_fills_is_within_noise(whole):
    _, result, expected = whole
    assert result.left_out == []
    cells = result.cells
    filled = cells[cells["rerun"].notna()]
    assert len(filled) == expected.filled
    differ = filled["verdict"] != "within noise"
    assert differ.sum() == expected.differ
    assert set(filled["state"][differ]) <= {"computed"}
    # nothing else comes near: the made-up numbers are the printed ones up to their rounding, and
    # what a set's size leaves of it
    far = filled[filled["difference"].abs() > expected.far]
    assert far.empty, far
    assert len(result.runs) == result.runs["run_id"].nunique() > 0


def test_the_cells_that_no_row_fills_have_their_reason(whole):
    _, result, expected = whole
    rest = result.cells[result.cells["rerun"].isna()]
    counted = {
        start: int(rest["reason"].str.startswith(start).sum()) for start in expected.unfilled
    }
    assert counted == expected.unfilled
    assert sum(counted.values()) == len(rest)


def test_every_claim_gets_its_printed_verdict_or_one_run_cannot_tell(whole):
    made, result, expected = whole
    verdicts, judged = result.verdicts.set_index("id"), set()
    for claim in load(ROOT / "papers" / made.spec.paper / "claims.yaml"):
        name = claim.id
        word, numbers = verdicts.loc[name, ["cluster", "cluster_numbers"]]
        if claim.cluster is None:
            assert numbers == ""
        elif name in expected.waiting:
            assert word == "not run"
        else:
            judged.add(name)
            printed = verdicts["published"][name] if claim.published else "holds"
            # one run tells what it can, and never the opposite of what it was made of
            assert word in (expected.apart.get(name, printed), ONE_RUN), (name, numbers)
            if word == ONE_RUN:
                behind = result.gaps[result.gaps["claim"] == name].query("scope == 'cluster'")
                known = behind["mdd"].dropna()  # a slope has none
                assert (known > 0).all() or (behind["difference"] == 0).all()
            assert "single run" in numbers
    if "cluster_at_half" in verdicts:
        held = [(verdicts[name] == "holds").sum() for name in ("cluster_at_half", "cluster")]
        assert held[0] >= held[1] > (verdicts["cluster_at_twice"] == "holds").sum()
    gaps = result.gaps[result.gaps["scope"] == "cluster"]
    assert set(gaps["claim"]) == judged
    assert gaps["test"].str.startswith("single run").all()


def test_every_gain_agrees_or_one_run_cannot_tell(whole):
    _, result, _ = whole
    run = result.gains[result.gains["rerun"].notna()]
    assert set(run["verdict"]) == {"agrees", "cannot tell"}
    assert len(run) == len(result.gains)
    assert (run["mdd"] > 0).all()


PAIR = ("cluster/qwen7b_grpo", "cluster/qwen7b_f_grpo")
SMALL = tuple(
    f"cluster/distill15b_{row}" for row in ("base", "grpo", "cw_grpo", "cw_grpo_repository")
)


def test_three_seeds_and_64_samples_count_in_place_of_a_run_with_one(tmp_path):
    """Of seed 1 there are evaluations with one sample (the base model's: 16) and with 64. Each with
    64 is a point above that of the seed before."""
    perfect.rerun(tmp_path, "cov_grpo", rows=SMALL, scales=("cluster", "cluster_repository"))
    more = {"seeds": (1, 2, 3), "n": 64, "spread": 1.0}
    made = perfect.rerun(tmp_path, "cov_grpo", rows=SMALL, **more)
    result = assess(made.spec, tmp_path)
    # five sets of three rows, two of them at two more steps of a training
    assert len(result.left_out) == 5 * 3 + 4 * 2
    assert [said for said in result.left_out if "is used instead" not in said] == []
    assert "CW-GRPO (repository)" in set(result.cluster.rows["method"])
    cells = result.cells[result.cells["rerun"].notna() & (result.cells["metric"] == "pass@1")]
    assert len(cells) > 0
    assert set(cells["n_seeds"]) == {3}
    assert set(cells["verdict"]) == {"within noise"}
    assert cells["difference"].abs().max() < 0.1  # the mean of three is as printed
    # t with 2 + 6 degrees of freedom, and half a printed digit; the samples of a set add to it, and
    # of a model that was not trained less is assumed
    half = 2.306 * (1 + 1 / 3) ** 0.5 + 0.05
    assert ((cells["high"] - cells["low"]) / 2).between(0.5 * half, 1.5 * half).all()
    claim = "cw_grpo_avg_15b"
    gaps = result.gaps[(result.gaps["scope"] == "cluster") & (result.gaps["claim"] == claim)]
    assert set(gaps["n_seeds"]) == {3}
    assert set(gaps["test"]) == {"seeds and problems"}
    verdicts = result.verdicts.set_index("id")
    assert verdicts["cluster"][claim] == "holds"


# ---- what is wrong has to be seen


@pytest.fixture(scope="module")
def two_rows(tmp_path_factory):
    return perfect.rerun(tmp_path_factory.mktemp("two"), "f_grpo", rows=PAIR)


def test_the_checkpoint_is_the_best_that_is_not_later_than_the_baselines(two_rows):
    steps = {
        e.row.method: json.loads((e.path / "checkpoint.json").read_text())["step"]
        for e in two_rows.evaluations
    }
    # the focal run's own best is the evaluation after; GRPO's third is the last it may take
    assert steps == {"GRPO": 3 * 153, "F-GRPO": 3 * 153}


def test_a_first_stage_fills_the_cells_until_the_whole_run_does(tmp_path, monkeypatch):
    """Three epochs of ten: the training is the same run, and goes on."""
    few_cells(monkeypatch)
    for scales in (("cluster_v2_first",), ("cluster_v2_first", "cluster")):
        made = perfect.rerun(tmp_path, "f_grpo", scales=scales, rows=PAIR)
        result = assess(made.spec, tmp_path)
        cells = result.cells[result.cells["rerun"].notna() & (result.cells["table"] == "table1")]
        assert set(cells["verdict"]) == {"within noise"}
        trained = result.runs["run_id"].str.fullmatch(r"\w+-s1-[0-9a-f]{8}")
        # of each benchmark only the fuller evaluation is used; Delta NLL is the second stage's
        assert (~trained).sum() == 2 * SETS + (2 if "cluster" in scales else 0)
        assert [said for said in result.left_out if "is used instead" not in said] == []
        assert len(result.left_out) == (2 * SETS if "cluster" in scales else 0)


def test_a_wrong_name_or_step_fills_no_cell(two_rows, tmp_path, monkeypatch):
    few_cells(monkeypatch)
    copy = perfect.copied(two_rows, tmp_path)
    wrong = {
        "AIME24": ({"benchmark": "AIME2024"}, "is not in table1; did you mean AIME24?"),
        "AMC": ({"model": "Qwen2.5-7b"}, "is not in table1; did you mean Qwen2.5-7B?"),
        "MATH500": ({"step": 1530}, "both have it"),  # in a folder next to the right one
    }
    for e in copy.evaluations:
        if e.row.method == "F-GRPO" and e.row.benchmark in wrong:
            changes, _ = wrong[e.row.benchmark]
            perfect.rewritten(e, changes, beside="step" in changes)
    result = assess(copy.spec, copy.root)
    for changes, said in wrong.values():
        named = "".join(f"{key}={value} " for key, value in changes.items() if key != "step")
        assert any(f"{named}{said}" in line for line in result.left_out), result.left_out
    cells = result.cells.set_index(["table", "model", "method", "benchmark", "metric"])
    own = cells.sort_index().loc[("table1", "Qwen2.5-7B", "F-GRPO")]
    for name in (*wrong, "Avg_Math"):  # an average of fewer than its sets is none
        assert own.loc[name, "verdict"].tolist() == ["not run"] * 2
    assert own.loc["AIME25", "verdict"].tolist() == ["within noise"] * 2
    verdicts = result.verdicts.set_index("id")
    assert verdicts["cluster"]["focal_grpo"] == "not run"


# ---- figures


def numbers(figure, path, drawn):
    """Of `save` the numbers: no assertion looks at the pictures, which take most of its time."""
    write_csv(path.with_suffix(".csv"), drawn)
    pyplot().close(figure)


def test_figures_draw_the_printed_numbers(whole, monkeypatch):
    monkeypatch.setattr(cluster_figures, "save", numbers)
    made, result, expected = whole
    paper, alike = made.spec.paper, ("table13", "table14")  # as Table 12
    few = {key: x for key, x in made.spec.figures.items() if not key.startswith(alike)}
    spec = replace(made.spec, figures=few)
    figures = cluster_figures.draw(spec, made.root, result.cells, result.cluster)
    assert {one.name for one in figures if not one.left_out} == set(expected.figures)
    assert {one.name for one in figures if one.left_out} == expected.not_drawn
    folder = made.root / paper / "figures"
    assert {path.name for path in folder.glob("*")} == {f"{name}.csv" for name in expected.figures}
    printed = published(ROOT / "papers" / paper / "published").set_index(CELL)["value"]
    for name in expected.figures:
        drawn = pd.read_csv(folder / f"{name}.csv")
        assert len(drawn) == expected.figures[name]
        if "printed" in drawn:
            assert drawn["printed"].tolist() == printed.reindex(drawn[CELL]).tolist()
            assert (drawn["rerun"] - drawn["printed"]).abs().max() < expected.far
            assert (drawn["low"] < drawn["rerun"]).all()
            assert (drawn["rerun"] < drawn["high"]).all()
            assert drawn[["n_seeds", "n_problems", "n_samples", "step"]].notna().all(axis=None)
            if "deviation" in drawn:  # only of groups of 2 k samples
                assert (drawn["deviation"] > 0).all()
            if paper == "f_grpo":
                assert set(drawn["step"]) == {BEST}
        elif name == "cluster_maze_fig6":  # Table 4 has k = 1 and 128 of it
            for row in drawn[drawn["k"] <= 128].itertuples():
                key = ("Maze Transformer", row.method, f"Maze (N={row.N:g})", f"pass@{row.k:g}")
                assert abs(row.value - printed["table4_v2", *key]) < expected.far
        elif name == "cluster_fig8":
            values = drawn.groupby("curve")["value"].agg(set).to_dict()
            assert values == {word: {value} for word, value in perfect.CONTROLLED.items()}
        elif name == "cluster_fig3":  # only of the steps up to 50
            mean = (drawn["share"] ** 0.2 + drawn["share"] ** 0.15) / 2
            assert drawn["contribution"].tolist() == pytest.approx(mean.tolist())
            assert set(drawn["last"]) == {50}
        elif "curve" in drawn and name != "cluster_maze_fig7":
            for word in perfect.LOGGED:
                own = drawn[drawn["curve"].str.contains(word)]
                wanted = {perfect.logged(paper, method)[word] for method in own["method"]}
                assert set(own["value"]) == wanted
            accuracy = drawn["value"][drawn["curve"].str.contains("pass@1")]
            assert accuracy.between(0, perfect.LOW + 3).all()


def test_a_figure_with_a_missing_row_is_not_drawn(two_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "load", lambda path: load(path)[:5])
    copy = perfect.copied(two_rows, tmp_path)
    folder = tmp_path / "f_grpo" / "figures"

    def drawn():
        result = assess(copy.spec, tmp_path)
        made = cluster_figures.draw(copy.spec, tmp_path, result.cells, result.cluster)
        return {one.name: one.left_out for one in made}

    first = drawn()
    assert first["cluster_table12_v2_grpo"] == ""
    assert (folder / "cluster_table12_v2_grpo.png").exists()
    assert first["cluster_fig1b"] == (
        "rows without a rerun: GRPO (N=2) of Qwen2.5-7B on AIME25, GRPO (N=32) of Qwen2.5-7B on "
        "AIME25 (the results have no run of it)"
    )
    (e,) = (e for e in copy.evaluations if (e.row.method, e.row.benchmark) == ("F-GRPO", "AMC"))
    shutil.rmtree(e.path)
    again = drawn()["cluster_table12_v2_grpo"]
    assert "F-GRPO of Qwen2.5-7B on AMC (" in again
    assert " GRPO of" not in again
    assert not list(folder.glob("cluster_table12_v2_grpo.*"))  # the earlier one is gone


def drawn(root, plot, rows):
    """The caption and rows of a figure of curves."""
    cluster = Gathered(pd.DataFrame(rows), pd.DataFrame(), pd.DataFrame())
    _, table, caption = cluster_figures.along(plot, "cov_grpo", root, pd.DataFrame(), cluster)
    return caption, table[["method", "seed", "step", "value"]].values.tolist()


def test_curves_without_a_methods_log_are_not_drawn(tmp_path):
    def row(method, seed):
        about = {"table": "t", "model": "M", "method": method, "benchmark": "x", "metric": "pass@1"}
        run_id = f"{method}-{seed}"
        path = tmp_path / "cov_grpo" / run_id / "metrics.jsonl"
        write(path, f'{{"step": 1, "entropy": {seed}}}\n{{"step": 2, "entropy": 5}}\n')
        return about | {"k": 1, "value": 1.0, "seed": seed, "step": 2, "run_id": run_id}

    def plot(*columns):
        return Plot("About.", "M", ["A", "B"], [Curve(column, column) for column in columns])

    both = [row("A", 1), row("A", 3), row("B", 2)]
    with pytest.raises(LeftOut, match="curve: B of M"):
        drawn(tmp_path, plot("entropy"), both[:2])
    with pytest.raises(LeftOut, match="curve: A, B of M"):
        drawn(tmp_path, plot("entropy", "reward"), both)
    caption, table = drawn(tmp_path, plot("entropy"), both)
    assert caption == "About. Thin lines: seeds, thick: their mean."
    assert table == [
        *(["A", 1, 1, 1], ["A", 1, 2, 5], ["A", 3, 1, 3], ["A", 3, 2, 5]),
        *(["B", 2, 1, 2], ["B", 2, 2, 5]),
    ]


def test_a_run_that_was_evaluated_at_one_step_has_no_curve(tmp_path):
    def row(metric, step, value, method="A"):
        about = {"table": "t", "model": "M", "seed": 1, "run_id": method, "benchmark": None}
        return about | {"method": method, "metric": metric, "step": step, "value": value}

    plot = Plot("About.", "M", ["A"], [Curve("s", metric="srank, step *")])
    rows = [row("srank, step 5k", 500, 3.0), row("srank", 500, 9.0)]
    with pytest.raises(LeftOut, match="rows without a curve: A of M"):
        drawn(tmp_path, plot, rows)
    rows = [row("srank, step 1k", 100, 2.0), *rows]
    assert drawn(tmp_path, plot, rows)[1] == [["A", 1, 100, 2.0], ["A", 1, 500, 3.0]]
    _, table = drawn(
        tmp_path, replace(plot, start="base"), [row("srank, step 0", 0, 1.0, "base"), *rows]
    )
    assert table[0] == ["A", 1, 0, 1.0]
    assert len(table) == 3
