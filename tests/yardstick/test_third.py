"""The third edition: what it runs, and its comparisons on made-up frontiers of a known order."""

import re
import shutil
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from tiny import TINY

from common.errors import UserError
from common.metrics.paired import Interval, two_way_interval
from common.results.columns import COLUMNS
from common.sweeps.plan import scales_of
from common.yardstick import answer, areas, command, third
from common.yardstick.controls import carries, controls
from common.yardstick.last import against_base
from common.yardstick.ranking import ACCURACY, Curve, curves
from common.yardstick.third import EDITIONS, EQUAL_ACCURACY, EQUAL_KL, PRIMARY
from common.yardstick.third_page import markdown

MAZE = EDITIONS["third_maze"]
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
        for benchmark, metric in {one for read in third.READ.values() for one in read}:
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
    best = ranking[(ranking["reading"] == areas.BEST) & (ranking["equal"] == EQUAL_ACCURACY)]
    return best[(best["benchmark"] == "rare") & (best["metric"] == "pass@64")].set_index("method")


@pytest.mark.sweep
def test_each_seed_has_its_own_base_and_the_controls_come_first():
    stages = third.plan(scales_of("yardstick", "scale=third_maze"))
    faster = ("lr 1e-4", "lr 3e-5", "lr 1e-5")
    every = [x for runs in stages for x in runs]
    assert len({x.run_id for x in every}) == len(every) == 9 + 12 * 4 * 9 + 4 * 3 * 5
    assert all(x.model.pretrain.seed == x.seed for x in every)
    assert {x.label for x in stages[0]} == {"base", *third.CONTROLLED}
    assert {x.seed for x in stages[0]} == {1, 2, 3, 4, 5}
    groups = [(1, 2, 3), (4, 5, 6), (7, 8, 9), range(1, 10)]
    for group, seeds in zip(stages[1:], groups, strict=True):
        assert {x.seed for x in group} == set(seeds)
    assert {x.table for x in stages[-1]} == {"lr 3e-6"}
    assert {x.table for runs in stages[:-1] for x in runs} == {"base", *faster}
    assert len(third.methods([x.label for x in every])) == 11
    by_rate = {x.table: x for x in every if x.label == "GRPO"}
    points = {x.optim.steps // x.eval.every for x in by_rate.values()}
    assert len(points) == 1
    lengths = [x.optim.lr * x.optim.steps for x in by_rate.values()]
    assert max(lengths) / min(lengths) < 2
    every_step = sorted(x.eval.every for x in by_rate.values())
    assert all(slow % fast == 0 for fast, slow in pairwise(every_step))
    kinds = {x.data.benchmarks[name]["split"] for x in every for name in ("natural", "rare")}
    assert kinds == {"test"}
    assert {x.data.benchmarks["dev_rare"]["split"] for x in every} == {"dev"}


@pytest.mark.sweep
def test_after_the_controls_there_are_only_the_rates_that_they_allow():
    stages = third.plan(scales_of("yardstick", "scale=third_countdown"))
    allowed = third.at_rates(stages, ["lr 3e-5"])
    assert allowed[0] == stages[0]
    for runs, every in zip(allowed[1:4], stages[1:4], strict=True):
        assert {x.table for x in runs} == {"base", "lr 3e-5"} & {x.table for x in every}
        assert {x.label for x in runs} == {x.label for x in every}
    assert third.at_rates(stages, []) == stages[:1]
    judged = pd.DataFrame(
        {"rate": ["a", "a", "b", "b"], "verdict": ["passes", "open", *["passes"] * 2]}
    )
    assert carries(judged) == ["b"]


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
    own = ranking[(ranking["reading"] == areas.OWN) & (ranking["benchmark"] == "rare")]
    assert own["rate"].tolist() == ["lr 3e-5"]
    assert own["difference"].item() == pytest.approx(14, abs=0.5)
    same = answer.rows_of(ranking, areas.SAME).set_index("rate")["difference"]
    assert same.to_dict() == pytest.approx({"lr 1e-4": 0, "lr 3e-5": -7}, abs=0.5)


def test_each_smaller_rate_is_read_against_the_next_one():
    slower = runs("GRPO", 2, rate="lr 1e-5")
    ranking = areas.rank([*runs("GRPO", 3), *runs("GRPO", 1, rate=RATES[1]), *slower])
    step = answer.rows_of(ranking, areas.NEXT)
    assert step[["rate", "against"]].to_numpy().tolist() == [["lr 1e-5", "lr 3e-5"]]
    assert step["difference"].item() == pytest.approx(-7, abs=0.5)
    assert len(answer.rows_of(ranking, areas.OWN)) == 2
    assert re.search(r"From 3e-5 to 1e-5 GRPO gains -7\.\d \[", answer.smallest(ranking, "1e-5")[1])


def test_of_rates_that_read_as_many_levels_the_smallest_is_chosen():
    """No seed has run at both."""
    levels = third.LEVELS[EQUAL_ACCURACY]
    by_rate = {
        rate: {s: curve("iac", rate, s, (0, 2, 5, 8, 12), (0, 2, 5, 8, 12)) for s in seeds}
        for rate, seeds in zip(RATES, ((1, 2, 3), (4, 5, 6)), strict=True)
    }
    assert areas.chosen_rate(by_rate, levels) == RATES[1]
    by_rate[RATES[0]][7] = by_rate[RATES[0]][1]
    assert areas.chosen_rate(by_rate, levels) == RATES[0]


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
                    counts.append((run_id, step, benchmark, problem, n, c, min(c, 2)))
    columns = ["run_id", "step", "benchmark", "problem_id", "n", "c", "distinct"]
    return pd.DataFrame(rows, columns=COLUMNS), pd.DataFrame(counts, columns=columns)


def test_after_the_last_step_methods_are_compared_with_their_own_base():
    found = against_base(*gathered()).set_index(["benchmark", "metric"])
    assert set(found.index.get_level_values(0)) == {"natural", "rare"}
    one = found.loc[("natural", "pass@1")]
    expected = [100 * 132 / 512, 100 * 68 / 512, 3]
    assert one[["value", "difference", "n_seeds"]].tolist() == pytest.approx(expected)
    spread = one["difference_high"] - one["difference_low"]
    assert 0 < one["low"] < one["value"] < one["high"] < 100
    x, gap = np.array([[x, 0] for x in (130, 132, 134)]), np.array([[68, 0]] * 3)
    assert spread == pytest.approx(2 * two_way_interval(100 * gap / 256).half())
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
    drawn = curves(rows, counts, MAZE.curves)
    assert [(c.method, c.rate, c.seed) for c in drawn] == [("GRPO", RATES[0], s) for s in (1, 2, 3)]
    assert drawn[0].values["natural", "kl_from_start"].tolist() == [[0], [0.5], [1]]
    with pytest.raises(UserError, match="no finished run of the base model"):
        curves(rows[rows["run_id"] != "base-s2"], counts, MAZE.curves)


def test_the_page_says_what_is_compared_and_ranks_nothing_unreliable():
    rows, counts = gathered()
    last = against_base(rows, counts)
    drawn = [*runs("GRPO", 3), *runs("iac", 2), *runs("fade", 2), *runs("max_rl", 3)]
    ranking, found = areas.rank(drawn), controls(drawn)
    text = " ".join(markdown(MAZE, ranking, last, found).split())  # its lines are wrapped
    assert "Every control passes at: no rate" in text
    assert "2 of 3 methods, each at its best rate, keep more rare pass@64 than" in text
    assert "(1e-4): iac, fade. max_rl keeps as much." in text
    unreliable = ranking.assign(reliability=0.2)
    lines = [line.split(" | ")[0] for line in markdown(MAZE, unreliable, last, found).splitlines()]
    order = [line.strip("| ") for line in lines if line.strip("| ") in ("iac", "fade", "max_rl")]
    assert order[:3] == ["fade", "iac", "max_rl"]
    assert "no method has been compared" in markdown(MAZE, ranking.iloc[:0], last, found)
    assert markdown(MAZE, ranking.iloc[:0], last.iloc[:0], found)


def test_the_answer_names_who_keeps_more_and_the_control_beside_it():
    drawn = [*runs("GRPO", 3), *runs("GRPO", 2, rate=RATES[1], seeds=6)]
    few = [*drawn, *runs("bad", 5), *runs("good", 1), *runs("fast", 3, rises=(0, 11, 12))]
    ranking = areas.rank(few)
    said = answer.sentence(MAZE, ranking)
    assert "1 of 3 methods, each at its best rate, keeps more rare pass@64 than GRPO" in said
    assert "than GRPO at its best rate (3e-5): good. bad keeps" in said
    assert " bad keeps less; fast could not be read. " in said
    assert "3e-5 is the smallest rate" in said
    assert answer.smallest(ranking, "1e-4") == []
    assert said.endswith("GRPO itself keeps more at 3e-5 than at 1e-4.")
    assert "(6 of 9 seeds so far, each from its own base model)" in said
    assert "distinct right answers" in answer.secondary(ranking)
    assert answer.secondary(ranking.iloc[:0]) == ""
    assert answer.narrow(ranking) == ["3 methods ran at 1e-4 alone."]
    both = [*few, *runs("bad", 5, rate=RATES[1]), *runs("good", 1, rate=RATES[1])]
    assert answer.narrow(areas.rank(both)) == ["1 method ran at 1e-4 alone."]
    alike = areas.rank([*runs("GRPO", 3), *runs("GRPO", 3, rate=RATES[1])])
    assert "not shown to keep more than 1e-4" in answer.control(alike)
    assert "none of 1 methods, each at its best rate, is shown to keep more" in answer.sentence(
        MAZE, areas.rank(drawn[:9] + runs("b", 3))
    )
    assert "could not be compared" in answer.control(ranking.iloc[:0])


@pytest.mark.parametrize("word", ["methods=iac", "seeds=1"])
def test_what_the_edition_fixes_is_refused(word, tmp_path):
    with pytest.raises(UserError, match=word):
        command.main(["protocol=third_maze", f"results_dir={tmp_path}", word])


@pytest.mark.sweep
@pytest.mark.trains
def test_from_runs_to_tables_stage_by_stage(tmp_path, monkeypatch, capsys):
    """Two methods at one rate, three seeds from three base models, in tiny."""
    plan, shown = third.plan, ("base", "GRPO", "IAC")

    def few(config):
        return [
            [x for x in runs if x.seed <= 3 and x.label in shown and x.table in ("base", "lr 1e-4")]
            for runs in plan(config)
        ]

    def here(tasks, workers, then=()):
        for title, function, arguments in [*tasks, *then]:
            if title.startswith("iac-s3"):
                raise UserError("iac has failed")
            function(*arguments)

    monkeypatch.setattr(third, "plan", few)
    allowed = ["lr 1e-4"]
    monkeypatch.setattr("common.yardstick.controls.carries", lambda _: allowed)
    monkeypatch.setattr("common.sweeps.reproduce.run_all", here)
    apart = ("optim.lr", "eval.n", "eval.k", "eval.curve_n", "eval.rare")
    words = [word for word in TINY if not word.startswith(apart)]
    words += ["data.benchmarks.dev_natural.size=6", "data.benchmarks.dev_rare.size=6"]
    words += ["optim.steps=4", "eval.every=1", "eval.batch=2048", "sampling.group_size=8"]
    words = ["protocol=third_countdown", f"results_dir={tmp_path}", *words]
    with pytest.raises(UserError, match="iac has failed"):
        command.main(words)
    folder = tmp_path / "third_countdown"
    said = capsys.readouterr().out
    assert "controls.csv, controls.md" in said
    assert "yardstick.md" not in said  # the second stage is not whole
    judged = pd.read_csv(folder / "controls.csv").set_index(["rate", "control"])
    first = judged.loc[("lr 1e-4", "RL raises pass@1")]
    assert first[["n_seeds", "step"]].tolist() == [3, 3]
    metrics = pd.read_csv(folder / "metrics.csv.gz")
    assert set(metrics["metric"]) == {"token_entropy", "kl_from_start"}
    bases = {path.name for path in (tmp_path / "models").glob("test-qwen2-*")}
    assert len(bases) == 3
    # elsewhere, from the tables alone: only what failed is trained, and the tables have both
    kept, trained = tmp_path / "elsewhere" / "third_countdown", []
    shutil.copytree(folder, kept)
    shutil.copytree(tmp_path / "models", tmp_path / "elsewhere" / "models")

    def train(tasks, workers, then=()):
        for title, function, arguments in [*tasks, *then]:
            trained.append(title)
            function(*arguments)

    monkeypatch.setattr("common.sweeps.reproduce.run_all", train)
    words[1] = f"results_dir={tmp_path / 'elsewhere'}"
    command.main(words)
    assert [title.rpartition("-")[0] for title in trained] == ["iac-s3"]
    whole = pd.read_csv(kept / "metrics.csv.gz")
    stayed = whole[whole["run_id"].isin(metrics["run_id"])]
    assert stayed.reset_index(drop=True).equals(metrics)
    assert set(whole["run_id"]) == {*metrics["run_id"], *trained}
    last = pd.read_csv(kept / "against_base.csv")
    assert set(last["method"]) == {"GRPO", "IAC"}
    assert set(last["benchmark"]) == {"natural", "rare"}
    assert last["n_seeds"].eq(3).all()
    page = (kept / "yardstick.md").read_bytes()
    command.main([*words, "draw=only"])
    assert (kept / "yardstick.md").read_bytes() == page
    assert b"has been compared" in page  # four steps of a tiny model rise by no two points
    # where no rate passes, nothing but the controls is shown or run
    allowed.clear()
    (kept / "yardstick.md").unlink()
    command.main(words)
    assert not (kept / "yardstick.md").exists()
    assert len(trained) == 1
