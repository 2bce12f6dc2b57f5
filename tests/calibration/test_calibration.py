"""Simulated reruns: their model, and that the quick way to draw one is the long way."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from refuses import refuses
from scipy.special import expit

from common.calibration import made, rates
from common.calibration.command import calibrate, main, scales
from common.calibration.draws import Gatherer
from common.calibration.judged import Judge
from common.calibration.table import false_claims, shares, summary, text
from common.calibration.world import AS_PRINTED, HALF, NO_EFFECT, Plan, Roots, World
from common.claims.file import CLUSTER
from common.comparison.compare import assess
from common.comparison.gather import gather
from common.comparison.spec import spec_of
from common.config.files import ROOT

# ---- the model


@pytest.mark.parametrize(
    "passk",
    [
        {1: 15.0, 256: 64.1},
        {8: 96.74, 1: 93.72},
        {1: 50.0},
        {1: 15.0, 2: 20.8, 4: 26.6, 8: 32.4, 16: 38.5, 32: 45.2, 64: 52.2, 128: 58.9, 256: 64.1},
    ],
)
@pytest.mark.parametrize("problems", [30, 541])
def test_rates_have_the_printed_pass_at_k(passk, problems):
    x = rates.logits(tuple(sorted(passk.items())), problems)
    assert len(x) == problems
    found = {k: 100 * (1 - np.mean((1 - expit(x)) ** k)) for k in passk}
    assert found == pytest.approx(passk, abs=1e-3)


def test_one_printed_k_leaves_the_stated_spread():
    a, b = rates.beta({1: 30.0})
    assert (a / (a + b), a + b) == pytest.approx((0.3, rates.SPREAD))


def test_a_seed_moves_small_and_large_k_by_what_is_said():
    passk = ((1, 30.0), (256, 70.0))
    x, move = rates.logits(passk, 500), rates.of_seed(passk, 500, ((1, 1.0), (256, 2.0)))
    for side, wanted in ((0, (1.0, 0.0)), (1, (0.0, 2.0))):
        rate = expit(x + move[:, side])
        moved = [100 * (1 - np.mean((1 - rate) ** k)) - v for k, v in passk]
        assert moved == pytest.approx(wanted, abs=0.15)


def test_without_an_effect_all_that_pairs_join_have_one_baselines_numbers():
    roots = Roots(spec_of("f_grpo"))
    for method in ("F-GRPO", "GRPO", "F-GRPO (gamma=2)"):
        assert roots.row("table1", "Qwen2.5-7B", method) == ("table1", "GRPO")
    assert roots.row("table2", "Qwen2.5-7B", "GRPO (N=32)") == ("table1", "GRPO")
    assert roots.row("table1", "Qwen2.5-7B", "F-DAPO") == ("table1", "DAPO")
    assert roots.row("table2", "Qwen2.5-7B", "GRPO (N=2)") == ("table2", "GRPO (N=2)")


# ---- a draw


def two_curves(x):
    return x.model.name == "Qwen3-8B" and x.table == "table2" and x.label in ("GRPO", "IAC")


def of_7b(x):
    return x.model.name.startswith("Qwen") and x.table == "table2"


@pytest.fixture(scope="module", params=["over_sharpening", "cov_grpo"])
def stored(request, tmp_path_factory):
    """A plan, its gathered rerun and the folder."""
    paper, root = request.param, tmp_path_factory.mktemp("stored")
    only = two_curves if paper == "over_sharpening" else of_7b
    plan = Plan(spec_of(paper))
    made.rerun(root, paper, plan, scales=("cluster",), only=only)
    return plan, gather(root, paper).scopes[CLUSTER], root, only


@pytest.mark.sweep
def test_a_draw_in_place_is_what_storing_and_gathering_it_gives(stored, tmp_path):
    plan, before, root, only = stored
    paper = plan.spec.paper
    draw = World(plan, AS_PRINTED).draw(7)
    made.rerun(tmp_path, paper, draw, scales=("cluster",), only=only)
    found = gather(tmp_path, paper)
    assert found.left_out == []
    long, quick = found.scopes[CLUSTER], Gatherer(before, plan).gathered(draw)
    rows = quick.rows[long.rows.columns]
    pd.testing.assert_frame_equal(rows, long.rows, rtol=1e-9, check_dtype=False)
    pd.testing.assert_frame_equal(quick.counts, long.counts, check_dtype=False)
    draw.write_logs(root / paper)
    for x in plan.trainings:
        logs = [folder / paper / x.run_id / "metrics.jsonl" for folder in (root, tmp_path)]
        assert logs[0].read_text() == logs[1].read_text()
    # and the comparison says the same of both
    whole, brief = assess(plan.spec, tmp_path, found), Judge(plan.spec, root, before)
    brief = brief.verdicts(quick)
    of_claims = whole.verdicts.set_index("id")["cluster"]
    assert brief.claims.set_index("id")["cluster"].to_dict() == {
        name: word for name, word in of_claims.items() if name in set(brief.claims["id"])
    }
    assert set(of_claims.index) - set(brief.claims["id"]) == set(
        of_claims[of_claims == "not claimed here"].index
    )
    assert brief.gains["verdict"].tolist() == whole.gains["verdict"].tolist()
    cells = whole.cells[whole.cells["rerun"].notna()]
    assert brief.cells["verdict"].tolist() == cells["verdict"].tolist()
    assert len(cells) > 10


@pytest.mark.sweep
def test_worlds_are_the_printed_numbers_the_baselines_and_half_way(stored):
    plan, before, _, _ = stored
    gatherer = Gatherer(before, plan)
    worlds = {name: World(plan, name) for name in (AS_PRINTED, NO_EFFECT, HALF)}
    truth = {name: gatherer.truth(world).rows["value"] for name, world in worlds.items()}
    half = (truth[AS_PRINTED] + truth[NO_EFFECT]) / 2
    assert np.abs(truth[HALF] - half)[gatherer.rows].max() < 2  # between the printed k
    for block, printed in zip(plan.blocks, worlds[AS_PRINTED].passk, strict=True):
        wanted = {k: max(v - block.of.below, 0.5) for k, v in block.passk.items()}
        assert printed == pytest.approx(wanted)
    # no two methods differ, and draws are about their truth
    of = pd.DataFrame([vars(one.of) for one in plan.blocks])
    of = of.assign(
        passk=[str({k: round(v, 6) for k, v in x.items()}) for x in worlds[NO_EFFECT].passk]
    )
    assert of.groupby(["benchmark", "below", "model"])["passk"].nunique().eq(1).all()
    draws = [gatherer.gathered(worlds[HALF].draw(i)).rows["value"] for i in range(30)]
    off = (sum(draws) / len(draws) - truth[HALF])[gatherer.rows]
    spread = pd.concat(draws, axis=1).std(axis=1)[gatherer.rows] / len(draws) ** 0.5
    assert (off.abs() <= 4.5 * spread + 0.3).all()


@pytest.mark.sweep
def test_a_draw_is_the_same_however_many_there_are(stored):
    plan = stored[0]
    one, again = World(plan, NO_EFFECT).draw(3), World(replace(plan), NO_EFFECT).draw(3)
    other = World(plan, NO_EFFECT).draw(4)
    assert all(np.array_equal(*both) for both in zip(one.right, again.right, strict=True))
    assert not all(np.array_equal(*both) for both in zip(one.right, other.right, strict=True))


@pytest.mark.sweep
def test_the_truth_of_two_seeds_is_that_of_one(stored):
    plan, before, root, _ = stored
    judge, one = Judge(plan.spec, root, before), Gatherer(before, plan)
    one = one.truth(World(plan, AS_PRINTED))
    second = one.rows.assign(seed=2, run_id=one.rows["run_id"] + "-2")
    both = replace(one, rows=pd.concat([one.rows, second], ignore_index=True))
    assert (judge.truths(one) == "holds").any()
    pd.testing.assert_series_equal(judge.truths(both), judge.truths(one))


# ---- the table


def of(what: str, verdict: str, **key) -> dict:
    return {"what": what, "id": "", "table": "t", "verdict": verdict, "mdd": 2.0} | key


def test_shares_and_what_is_wrong():
    names = ["what", "table", "model", "method", "baseline", "benchmark", "metric", "id"]
    draws = [
        pd.DataFrame(
            [
                of("cell", "within noise"),
                of("gain", "agrees" if i else "cannot tell"),
                of("claim", "fails" if i else "inconclusive (one run)", id="met"),
                of("claim", "holds", id="unmet"),
            ]
        ).reindex(columns=[*names, "verdict", "mdd"])
        for i in range(4)
    ]
    truths = pd.Series({"met": "holds", "unmet": "inconclusive"})
    tables = [shares(draws, world=w, seeds=1, truths=truths) for w in (AS_PRINTED, NO_EFFECT, HALF)]
    table = pd.concat(tables)
    first = table[table["world"] == AS_PRINTED].set_index("what")
    assert first.loc["cell", ["within_noise", "differs"]].tolist() == [1, 0]
    assert first.loc["gain", ["agrees", "cannot_tell", "smaller"]].tolist() == [0.75, 0.25, 0]
    assert np.isnan(first.loc["cell", "holds"])
    wrong = false_claims(table)[["world", "id", "wrong"]]
    assert wrong.values.tolist() == [[AS_PRINTED, "met", 0.75], [NO_EFFECT, "unmet", 1.0]]
    found = summary(table)
    assert found[AS_PRINTED]["gains_agrees"] == 0.75
    assert found[NO_EFFECT]["false_claims"] == {"unmet": 1.0}
    assert "unmet 100 %" in text("p", table)


# ---- what is committed


@pytest.mark.sweep
def test_the_committed_table_begins_with_these_draws():
    """Of the paper that takes least; on another processor a verdict may tip over."""
    stored = pd.read_csv(ROOT / "results/reference/cov_grpo/calibration_first.csv")
    _, few = calibrate("cov_grpo", draws=1, worlds=(AS_PRINTED,))
    key = ["world", "draw", "what", "verdict"]
    both = few.merge(stored, on=key, how="left", suffixes=("", "_stored")).fillna(0)
    assert (both["count"] - both["count_stored"]).abs().max() <= 1
    assert len(few) >= 4


@pytest.mark.parametrize("word", ["scale=smoke", "json=x", "draws=0"])
def test_a_mistaken_word_is_refused_before_anything_is_drawn(word):
    with refuses(*word.split("=")):
        main(["paper=two_stage", word])


def test_every_paper_has_scales_that_printed_numbers_are_of():
    assert scales("f_grpo") == ("cluster", "cluster_v2")
    assert scales("fade") == ("cluster", "cluster_32b", "cluster_base")
    assert scales("over_sharpening") == ("cluster", "cluster_filter")
