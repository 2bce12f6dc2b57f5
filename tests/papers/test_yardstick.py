"""The yardstick's comparisons on made-up frontiers of a known order, and its stored tables."""

import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from refuses import refuses
from tiny import ROOT

from common.metrics.paired import Interval, two_way_interval
from common.palette import look
from common.results.columns import COLUMNS
from common.results.files import read_csv
from common.sweeps.plan import experiments, scales_of
from papers.yardstick import areas
from papers.yardstick.areas import (
    ACCURACY,
    BEST,
    EQUAL_ACCURACY,
    EQUAL_KL,
    OWN,
    PRIMARY,
    READ,
    RUN,
    SAME,
    TESTBEDS,
    Curve,
    curves,
)
from papers.yardstick.figures import draw, figure, rows_of
from papers.yardstick.tables import against_base, controls

PROBLEMS = 30
RATES = ("lr 1e-4", "lr 3e-5")


def curve(method, rate, seed, rises, lost, *, dev_lost=None, noise=0.0) -> Curve:
    """Checkpoints at steps 0, 5, 10, ...: pass@1 is 20 + rises, every diversity 60 - lost on test
    and 60 - dev_lost on dev prompts."""
    rng = np.random.default_rng([seed, *map(ord, method + rate)])
    own = noise * (rng.normal() + rng.normal(size=PROBLEMS))
    rises, values = np.array(rises, float), {}
    for split, less in (("", lost), ("dev_", lost if dev_lost is None else dev_lost)):
        kept = 60 - np.array(less, float)
        values[split + "natural", "pass@1"] = (20 + rises)[:, None] + np.zeros(PROBLEMS)
        values[split + "natural", "token_entropy"] = (0.5 - rises / 40)[:, None]
        values[split + "natural", "kl_from_start"] = (rises / 5)[:, None]
        for benchmark, metric in {one for read in READ.values() for one in read}:
            if metric != "pass@1":
                values[split + benchmark, metric] = kept[:, None] + own
    return Curve(rate, method, seed, 5 * np.arange(len(rises)), values)


def runs(method, slope, *, rate=RATES[0], rises=(0, 2, 5, 8, 12), seeds=9, dev=None, noise=0.3):
    """A line of `slope` points of diversity a point of pass@1; `dev`: that on dev prompts."""
    lost = [slope * x for x in rises]
    on_dev = [(slope if dev is None else dev) * x for x in rises]
    return [
        curve(method, rate, s, rises, lost, dev_lost=on_dev, noise=noise)
        for s in range(1, seeds + 1)
    ]


def against_best(ranking) -> pd.DataFrame:
    best = ranking[(ranking["reading"] == BEST) & (ranking["equal"] == EQUAL_ACCURACY)]
    return best[(best["benchmark"] == "rare") & (best["metric"] == "pass@64")].set_index("method")


def test_the_first_chord_and_what_is_not_reached_are_no_reading():
    one = curve("GRPO", RATES[0], 1, (0, 4, 8), (0, 8, 16))
    assert areas.reading(one, EQUAL_ACCURACY, 3.0, PRIMARY) is None
    assert areas.reading(one, EQUAL_ACCURACY, 4.0, PRIMARY) == pytest.approx(52)
    assert areas.reading(one, EQUAL_ACCURACY, 6.0, PRIMARY) == pytest.approx(48)
    assert areas.reading(one, EQUAL_ACCURACY, 9.0, PRIMARY) is None
    assert areas.reading(one, EQUAL_KL, 1.2, PRIMARY) == pytest.approx(48)
    assert areas.reading(one, EQUAL_KL, 1.2, ACCURACY) == pytest.approx(26)


def test_a_seeds_area_is_the_mean_over_the_levels_that_both_its_runs_have():
    fast = {seed: curve("a", RATES[0], seed, (0, 4, 12), (0, 4, 12)) for seed in (1, 2)}
    slow = {1: curve("b", RATES[0], 1, (0, 2, 9), (0, 4, 18))}
    slow[2] = curve("b", RATES[0], 2, (0, 9, 12), (0, 9, 12))  # past most levels at its first
    (a, b), shared = areas.areas([fast, slow], EQUAL_ACCURACY, range(2, 11), PRIMARY)
    assert shared == {1: [4, 5, 6, 7, 8, 9]}
    assert a[1] == pytest.approx(60 - 6.5)
    assert b[1] == pytest.approx(60 - 13)
    short = {1: curve("c", "", 1, (0, 1), (0, 1))}
    assert areas.areas([fast, short], EQUAL_ACCURACY, range(2, 11), PRIMARY) == ([{}, {}], {})


def test_one_base_that_rises_too_fast_does_not_spoil_the_others():
    """Six of nine seeds are enough for a comparison and for the choice of a rate, five are not."""
    for jumps, said in ((3, "better"), (4, "not read")):
        drawn = [*runs("GRPO", 3), *runs("good", 2), *runs("good", 1, rate=RATES[1], dev=4)]
        fast = [*runs("GRPO", 3, rises=(0, 9, 12)), *runs("good", 2, rises=(0, 9, 12))]
        kept = [c for c in drawn if c.seed > jumps] + [c for c in fast if c.seed <= jumps]
        table = against_best(areas.rank(kept))
        if said == "not read":
            assert table.empty  # GRPO has no rate
            continue
        assert table.loc["good", ["verdict", "rate", "n_seeds"]].tolist() == [said, RATES[0], 6]
        assert table.loc["good", "difference"] == pytest.approx(7, abs=0.5)


def test_a_slow_learner_on_the_same_frontier_is_no_better_and_a_better_frontier_is():
    drawn = [
        *runs("GRPO", 3),
        *runs("slow", 3, rises=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
        *runs("good", 2),
        *runs("bad", 4.5),
        *runs("stays", 3, rises=(0, 1, 2, 3, 4)),
    ]
    table = against_best(areas.rank(drawn))
    assert table["verdict"].to_dict() == {
        "slow": "equivalent", "good": "better", "bad": "worse", "stays": "not read",
    }  # fmt: skip
    assert table.loc["good", "difference"] == pytest.approx(7, abs=0.5)
    assert table.loc["good", ["from", "to", "n_levels", "n_seeds"]].tolist() == [2, 12, 11, 9]
    assert (table["reliability"] > 0.5).all()


def test_a_rate_is_chosen_on_dev_prompts():
    drawn = [
        *runs("GRPO", 3),
        *runs("GRPO", 1, rate=RATES[1], dev=4),  # better on test prompts alone
        *runs("iac", 3, dev=3),
        *runs("iac", 2, rate=RATES[1], dev=2),
    ]
    ranking = areas.rank(drawn)
    table = against_best(ranking)
    assert table.loc["iac", ["rate", "against"]].tolist() == ["lr 3e-5", "lr 1e-4"]
    assert table.loc["iac", "difference"] == pytest.approx(7, abs=0.5)
    own = ranking[(ranking["reading"] == OWN) & (ranking["benchmark"] == "rare")]
    assert own["rate"].tolist() == ["lr 3e-5"]
    assert own["difference"].item() == pytest.approx(14, abs=0.5)
    same = rows_of(ranking, SAME).set_index("rate")["difference"]
    assert same.to_dict() == pytest.approx({"lr 1e-4": 0, "lr 3e-5": -7}, abs=0.5)


@pytest.mark.parametrize(
    ("value", "stderr", "p", "metric", "said"),
    [
        (4.0, 1.0, 0.01, "pass@64", "better"),
        (-4.0, 1.0, 0.01, "pass@64", "worse"),
        (0.5, 1.0, 0.9, "pass@64", "equivalent"),
        (0.5, 1.0, 0.9, "distinct_correct", "undecided"),
        (1.5, 1.0, 0.2, "pass@64", "undecided"),
    ],
)
def test_verdicts(value, stderr, p, metric, said):
    assert areas.verdict(Interval(value, stderr, 30), p, metric) == said
    assert areas.verdict(None, np.nan, metric) == "not read"


def test_an_order_that_half_of_the_seeds_do_not_tell_is_not_reliable():
    rng = np.random.default_rng(4)
    seeds = range(1, 10)
    chance = [{s: rng.normal() for s in seeds} for _ in range(11)]
    known = [{s: 3 * i + rng.normal() for s in seeds} for i in range(11)]
    assert areas.reliability(chance) < 0.5 < 0.9 < areas.reliability(known)
    assert np.isnan(areas.reliability(known[:2]))


def test_controls_pass_fail_or_stay_open():
    drawn = [
        *runs("GRPO", 3, seeds=5),
        *runs("GRPO", 2, rate=RATES[1], seeds=5),
        *runs("KL", 3, seeds=5),
        *runs("DAPO", 3, rises=(0, 1, 3, 4, 5), seeds=5),
        *runs("CISPO", 3, rises=(0, 2, 5, 8, 11), seeds=5),
    ]
    found = controls(drawn).set_index(["rate", "control"])["verdict"]
    assert found["lr 1e-4"].to_dict() == {
        "RL raises pass@1": "passes",
        "DAPO is not below GRPO": "fails",
        "CISPO is not below GRPO": "passes",
        "a lower rate keeps diversity": "passes",
        "a KL penalty keeps diversity": "open",
        "32 responses beat 2": "not run",
    }
    assert "a lower rate keeps diversity" not in found["lr 3e-5"]  # the slowest
    below = (0.6, 1.5, 2.2, 2.9, 3.8)  # 0.7 to 3.7 points by its interval, and 3 are allowed
    rises = [(0, 2, 5, 8, 12 - one) for one in below]
    dapo = [curve("DAPO", RATES[0], 1 + i, x, x) for i, x in enumerate(rises)]
    found = controls([*runs("GRPO", 3, seeds=5), *dapo]).set_index("control")
    assert found.loc["DAPO is not below GRPO", "verdict"] == "open"
    assert found.loc["DAPO is not below GRPO", "high"] == pytest.approx(-0.66, abs=0.02)


def gathered() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows and counts of three seeds of base and GRPO; of 256 samples of a problem 60 + 2 seed are
    right at the start, 128 + 2 seed after the last step."""
    rows, counts = [], []
    for seed in (1, 2, 3):
        more = 2 * seed
        for method, step, n, right in (("base", 0, 256, 60 + more), ("GRPO", 5, 64, 20),
                                       ("GRPO", 10, 256, 128 + more)):  # fmt: skip
            run_id = f"{method}-s{seed}"
            table = "base" if method == "base" else RATES[0]
            for benchmark in ("natural", "rare", "dev_natural", "dev_rare"):
                about = {"table": table, "model": "m", "method": method, "benchmark": benchmark}
                about |= {"seed": seed, "step": step, "run_id": run_id}
                rows.append(about | {"metric": "token_entropy", "value": 0.5 - step / 100})
                rows.append(about | {"metric": "kl_from_start", "value": step / 10})
                for problem, c in (("p1", right), ("p2", 0)):
                    counts.append((table, method, seed, step, benchmark, problem, n, c, min(c, 2)))
    columns = [*RUN, "step", "benchmark", "problem_id", "n", "c", "distinct"]
    return pd.DataFrame(rows, columns=COLUMNS), pd.DataFrame(counts, columns=columns)


def test_after_the_last_step_methods_are_compared_with_their_own_base():
    found = against_base(*gathered()).set_index(["benchmark", "metric"])
    assert set(found.index.get_level_values(0)) == {"natural", "rare"}
    one = found.loc[("natural", "pass@1")]
    expected = [100 * 132 / 512, 100 * 68 / 512, 3]
    assert one[["value", "difference", "n_seeds"]].tolist() == pytest.approx(expected)
    assert 0 < one["low"] < one["value"] < one["high"] < 100
    x, gap = np.array([[x, 0] for x in (130, 132, 134)]), np.array([[68, 0]] * 3)
    ends = two_way_interval(100 * gap / 256).of_difference(100 * 64 / 512)
    assert one[["difference_low", "difference_high"]].tolist() == pytest.approx(ends)
    assert one["high"] == pytest.approx(two_way_interval(100 * x / 256).of_share(2)[1])
    assert found.loc[("rare", "pass@256"), "difference"] == 0


def test_the_interval_of_a_share_stays_inside():
    low, high = Interval(97.0, 3.0, 20).of_share(40)
    assert 50 < low < 97 < high < 100
    assert Interval(50.0, 1.0, 1e6).of_share(40) == pytest.approx((48.04, 51.96), abs=0.01)
    assert Interval(100.0, 0.0, 1.0).of_share(40) == pytest.approx((91.24, 100), abs=0.01)
    assert Interval(0.0, 0.0, 1.0).of_share(40) == pytest.approx((0, 8.76), abs=0.01)


def test_curves_have_what_the_samples_say_and_start_at_their_own_base():
    rows, counts = gathered()
    drawn = curves(rows, counts)
    assert [(c.method, c.rate, c.seed) for c in drawn] == [("GRPO", RATES[0], s) for s in (1, 2, 3)]
    assert drawn[0].values["natural", "kl_from_start"].tolist() == [[0], [0.5], [1]]
    with refuses("seed", 2):
        curves(rows, counts[(counts["method"] != "base") | (counts["seed"] != 2)])


def test_the_stored_tables_are_made_again_from_the_stored_counts(tmp_path):
    reference = ROOT / "results" / "reference"
    for bed in TESTBEDS:
        shutil.copytree(reference / bed / "laptop", tmp_path / bed / "laptop")
    draw(tmp_path)
    for bed in TESTBEDS:
        for name in ("ranking.csv", "against_base.csv", "controls.csv"):
            made = (tmp_path / bed / name).read_bytes()
            assert made == (reference / bed / name).read_bytes(), (bed, name)


@pytest.mark.parametrize("bed", TESTBEDS)
def test_the_rows_are_the_stored_runs(bed):
    rows = read_csv(ROOT / "results" / "reference" / bed / "laptop" / "metrics.csv.gz", [])
    stored = {one.run_id: (one.table, one.method) for one in rows.itertuples()}
    runs = experiments(scales_of("yardstick", f"scale={bed}"))
    assert {x.run_id: (x.table, x.label) for x in runs}.items() <= stored.items()
    assert all(x.model.pretrain.seed == x.seed for x in runs)
    assert all(
        stored[x.run_id][0] == f"lr {x.optim.lr:.0e}".replace("e-0", "e-")
        for x in runs
        if x.optim.steps
    )


def test_a_saved_picture_keeps_the_colours_of_methods_apart(tmp_path):
    ranking = pd.read_csv(ROOT / "results" / "reference" / "third_countdown" / "ranking.csv")
    figure("Subset-Countdown", ranking, tmp_path / "areas")
    picture = Image.open(tmp_path / "areas.png").convert("RGB")
    shown = {"#{:02X}{:02X}{:02X}".format(*color) for _, color in picture.getcolors(2**20)}
    assert {look(method).color for method in ("GRPO", "FADE", "IAC", "GRPO-N")} <= shown
