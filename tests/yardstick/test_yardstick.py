"""The yardstick: what it runs, and its ranking on made-up curves whose order is known."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tiny import TINY

from common.errors import UserError
from common.results.columns import COLUMNS
from common.sweeps.plan import asked, changed
from common.yardstick import command, plan
from common.yardstick.figures import front, gain
from common.yardstick.protocol import COUNTDOWN, FIRST, MAZE, PRIMARY, Protocol
from common.yardstick.ranking import ACCURACY, Curve, curves, first_reach, means
from common.yardstick.ranking import rank as ranked
from common.yardstick.table import markdown

RUN = [*TINY, "eval.n=256", "eval.curve_n=256", "eval.k=[1,64,256]", "eval.rare_nll_samples=0"]
RUN += ["optim.steps=2", "eval.every=1", "sampling.group_size=4"]
PROBLEMS = 40


def at(*levels: float, protocol: Protocol = FIRST) -> Protocol:
    return replace(protocol, levels=levels)


def rank(drawn: list[Curve], levels: tuple[float, ...]) -> pd.DataFrame:
    """In the first edition."""
    return ranked(drawn, at(*levels))


def planned(protocol: Protocol, methods: list[str], seeds: list[int], words: list[str]):
    """What the command plans."""
    config, changes = asked("yardstick", [f"scale={protocol.name}", *words])
    return plan.plan(protocol, changed(config, seeds=seeds), methods, changes)


def curve(method, seed, accuracy, diversity, rate="plain", noise=None) -> Curve:
    """Checkpoints at steps 0, 10, 20, ... whose every diversity measure is `diversity`, plus a
    seed's and a problem's noise that all checkpoints share."""
    noise = np.zeros(PROBLEMS) if noise is None else noise
    steps = 10 * np.arange(len(accuracy))
    measures = FIRST.measures | COUNTDOWN.measures
    values = {m: np.array(diversity, float)[:, None] + noise for m in measures}
    values["training", "steps"] = steps[:, None].astype(float)
    values[ACCURACY] = np.array(accuracy, float)[:, None]
    return Curve(rate, method, seed, steps, values)


def runs(method, accuracy, diversity, seeds=(1, 2, 3), scale=1.0, rate="plain") -> list[Curve]:
    """One curve a seed; the noise depends on method, seed and problem."""
    random = np.random.default_rng([ord(letter) for letter in method])
    noise = scale * (random.normal(size=(9, 1)) + random.normal(size=(9, PROBLEMS)))
    return [curve(method, s, accuracy, diversity, rate, noise[s]) for s in seeds]


def primary(ranking, rate="plain") -> pd.DataFrame:
    chosen = ranking[(ranking["rate"] == rate) & (ranking["metric"] == PRIMARY[1])]
    return chosen[chosen["benchmark"] == PRIMARY[0]].set_index("method")


def test_first_reach_is_linear_and_ignores_what_comes_later():
    assert first_reach(np.array([20.0, 40.0, 10.0, 50.0]), 25.0) == (1, 0.25)
    assert first_reach(np.array([20.0, 18.0, 10.0, 50.0]), 30.0) == (3, 0.5)
    assert first_reach(np.array([20.0, 40.0]), 20.0) == (0, 0.0)
    assert first_reach(np.array([20.0, 29.9]), 30.0) is None


def test_a_slow_learner_is_not_taken_for_a_diverse_one():
    """fast and slow lie on one line, 1 point of diversity a point of accuracy; better loses half as
    much. At the last step slow looks best (66), at 30 % it equals grpo (60) and better has 65."""
    drawn = [
        *runs("grpo", [20, 40], [70, 50], scale=0),
        *runs("slow", [20, 24, 34], [70, 66, 56], scale=0),
        *runs("better", [20, 30, 50], [70, 65, 55], scale=0),
    ]
    last = {c.method: c.mean(PRIMARY)[-1] for c in drawn}
    assert last == {"grpo": 50, "slow": 56, "better": 55}
    table = primary(rank(drawn, (30.0,)))
    assert table["value"].to_dict() == pytest.approx({"better": 65, "grpo": 60, "slow": 60})
    assert table["rank"].to_dict() == {"better": 1, "grpo": 2, "slow": 2}
    assert table.loc["better", "difference"] == pytest.approx(5)
    assert (table.loc["better", "p"], table.loc["slow", "p"]) == (0, 1)
    assert pd.isna(table.loc["grpo", "p"])


def test_steps_are_read_at_the_level_and_few_are_good():
    drawn = [*runs("grpo", [20, 40], [70, 50]), *runs("slow", [20, 24, 34], [70, 66, 56])]
    ranking = rank(drawn, (30.0,))
    steps = ranking[(ranking["metric"] == "steps") & (ranking["rate"] == "plain")]
    steps = steps.set_index("method")
    assert steps["value"].to_dict() == pytest.approx({"grpo": 5, "slow": 16})
    assert steps["rank"].to_dict() == {"grpo": 1, "slow": 2}


def test_a_method_that_one_seed_does_not_take_there_is_not_ranked():
    drawn = [
        *runs("grpo", [20, 40], [70, 50]),
        *runs("weak", [20, 40], [70, 69], seeds=(1, 2)),
        *runs("weak", [20, 29], [70, 69], seeds=(3,)),
        *runs("late", [20, 40], [70, 60], seeds=(1, 2)),
    ]
    table = primary(rank(drawn, (30.0,)))
    assert table.loc["weak", ["n_seeds", "n_reached"]].tolist() == [3, 2]
    assert table.loc["weak", ["value", "rank", "low", "difference", "p", "p_holm"]].isna().all()
    assert table.loc["late", ["n_seeds", "n_reached"]].tolist() == [2, 2]
    assert table.loc["late", "difference"] == pytest.approx(5, abs=3)
    assert table.loc["late", ["low", "difference_low", "p"]].isna().all()  # fewer than 3 seeds
    assert table["rank"].dropna().to_dict() == {"late": 1, "grpo": 2}


def test_intervals_and_holm():
    """A gap of 12 with noise 1 is found among nine methods without one; Holm multiplies the least p
    by the number of tests, GRPO and the unranked apart."""
    drawn = [*runs("grpo", [20, 40], [70, 50]), *runs("good", [20, 40], [70, 74])]
    for i in range(9):
        drawn += runs(f"same{i}", [20, 40], [70, 50])
    drawn += runs("never", [20, 21], [70, 69])
    table = primary(rank(drawn, (30.0,)))
    good = table.loc["good"]
    assert good["difference_low"] < 12 < good["difference_high"]
    assert good["value"] == pytest.approx((good["low"] + good["high"]) / 2)
    tested = table["p"].dropna().sort_values()
    assert set(tested.index) == {"good", *(f"same{i}" for i in range(9))}
    least, second = tested.index[:2]
    assert least == "good"
    assert good["p_holm"] == pytest.approx(10 * good["p"])
    assert good["p_holm"] < 0.05
    expected = min(1, max(9 * tested[second], good["p_holm"]))
    assert table.loc[second, "p_holm"] == pytest.approx(expected)
    assert (table.drop(index="good")["p_holm"].dropna() > 0.05).all()


def test_differences_are_taken_on_the_seeds_of_both():
    shift = {1: 0.0, 2: 30.0, 3: -30.0, 4: 1000.0}  # a seed's own, the same in both methods
    both = [
        curve(method, seed, [20, 40], [70 + at, 50 + at + gain])
        for method, gain, seeds in (("grpo", 0, (1, 2, 3)), ("kept", 8, (1, 2, 3, 4)))
        for seed, at in shift.items()
        if seed in seeds
    ]
    kept = primary(rank(both, (30.0,))).loc["kept"]
    assert kept["difference"] == pytest.approx(4)
    assert kept["n_seeds"] == 4
    assert kept["difference_high"] - kept["difference_low"] < 1e-6  # the shift cancels


def test_seeds_of_one_base_model_say_less():
    drawn = [*runs("grpo", [20, 40], [70, 50]), *runs("good", [20, 40], [70, 60])]
    shared = primary(ranked(drawn, replace(at(30.0), bases=1))).loc["good"]
    apart = primary(ranked(drawn, replace(at(10.0), bases=3))).loc["good"]
    assert shared["difference"] == pytest.approx(apart["difference"])
    for ends in (("difference_low", "difference_high"), ("low", "high")):
        assert shared[ends[1]] - shared[ends[0]] > 1.2 * (apart[ends[1]] - apart[ends[0]])


@pytest.fixture
def simulated():
    """simulated(trial, gain) -> p_holm by method: 3 seeds of 3 base models, which vary most (sd 3),
    and twenty methods like GRPO but "good", which has `gain` more."""
    alone = replace(at(10.0), measures={PRIMARY: "rare pass@64"}, bases=3)

    def make(trial: int, gain: float) -> pd.Series:
        random = np.random.default_rng(trial)
        problem = random.normal(size=PROBLEMS) * 10
        drawn = []
        for method in ("grpo", "good", *"abcdefghijklmnopqrs"):
            better = gain if method == "good" else 0
            for seed in (1, 2, 3):
                noise = problem + random.normal() * 3 + random.normal(size=PROBLEMS) * 5
                kept = 70 + better, 50 + better
                drawn.append(curve(method, seed, [20, 40], kept, noise=noise))
        return primary(ranked(drawn, alone))["p_holm"]

    return make


@pytest.mark.sweep
def test_no_method_differs_where_none_does(simulated):
    """Of 100 tables at most 8 call any method different (5 do; by `two_way_interval` 12)."""
    assert sum((simulated(trial, 0) < 0.05).any() for trial in range(100)) <= 8


@pytest.mark.sweep
def test_a_large_difference_is_found_with_three_seeds(simulated):
    significant = sum(simulated(trial, 15)["good"] < 0.05 for trial in range(30))
    assert significant >= 15


def made_up(wrong_problem=False, base=True) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows and counts of two base runs, GRPO (both rates) and iac (plain), as `gather` writes
    them. Right of 256 on the two natural problems: base 0 or 128, grpo 128 and 256 at step 5."""
    planned = [
        ("base-s1", "both", "base", 1, 0, (0, 128)),
        ("base-s2", "both", "base", 2, 0, (128, 0)),
        ("grpo-s1", "both", "grpo", 1, 5, (128, 256)),
        ("iac-s1", "plain", "iac", 1, 5, (64, 64)),
    ]
    rows, counts = [], []
    for run_id, table, method, seed, step, right in planned:
        if method == "base" and not base:
            continue
        for benchmark in ("natural", "rare"):
            names = ["p1", "p9" if wrong_problem and method == "iac" else "p2"]
            for name, c in zip(names, right, strict=True):
                counts.append((run_id, step, benchmark, name, 256, c, min(c, 2)))
            row = {"table": table, "model": "m", "method": method, "benchmark": benchmark}
            row |= {"metric": "token_entropy", "value": 0.5, "unit": "nats", "seed": seed}
            rows.append(row | {"step": step, "run_id": run_id})
    columns = ["run_id", "step", "benchmark", "problem_id", "n", "c", "distinct"]
    return pd.DataFrame(rows, columns=COLUMNS), pd.DataFrame(counts, columns=columns)


def test_curves_start_at_the_base_model_and_a_run_of_both_rates_stands_in_both():
    drawn = curves(*made_up(), FIRST)
    assert [(c.method, c.rate) for c in drawn] == [
        ("grpo", "plain"),
        ("grpo", "equalised"),
        ("iac", "plain"),
    ]
    grpo, _, iac = drawn
    assert grpo.steps.tolist() == [0, 5]
    assert grpo.values[ACCURACY].tolist() == [[25, 25], [50, 100]]  # the base runs' mean first
    assert iac.values["natural", "distinct_correct"].tolist() == [[1, 1], [2, 2]]
    assert iac.values["natural", "token_entropy"].tolist() == [[0.5], [0.5]]
    table = means(drawn).set_index(["rate", "method", "step", "benchmark", "metric"])
    assert table.loc[("plain", "iac", 5, "natural", "pass@1"), "mean"] == 25
    assert table.loc[("plain", "iac", 5, "natural", "pass@1"), "n_seeds"] == 1


def test_with_several_base_models_a_run_starts_at_its_own_and_is_read_so_much_above_it():
    rows, counts = made_up()
    iac = rows["run_id"] == "iac-s1"
    active = rows[iac].iloc[:1].assign(benchmark="training", metric="active_groups", value=70.0)
    active = pd.concat([active, active.assign(run_id="grpo-s1")])
    rows = pd.concat([rows, active], ignore_index=True)
    rows.loc[rows["run_id"] == "iac-s1", "seed"] = 2
    two = replace(COUNTDOWN, bases=2)
    drawn = {c.method: c for c in curves(rows, counts, two)}
    assert drawn["grpo"].values[ACCURACY][0].tolist() == [0, 50]  # of base-s1
    assert drawn["iac"].values[ACCURACY][0].tolist() == [50, 0]  # of base-s2
    assert drawn["grpo"].at(10.0, above=True)[ACCURACY].mean() == pytest.approx(35)
    assert drawn["grpo"].at(60.0, above=True) is None
    rows.loc[rows["run_id"] == "grpo-s1", "seed"] = 3
    rows.loc[rows["run_id"] == "iac-s1", "seed"] = 5
    with pytest.raises(UserError, match=r"grpo-s1.*no finished run of the base model"):
        curves(rows[rows["run_id"] != "base-s1"], counts, replace(COUNTDOWN, bases=4))


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(UserError, match="no finished run of the base model"):
        curves(*made_up(base=False), FIRST)
    with pytest.raises(UserError, match=r"iac-s1.*other problems"):
        curves(*made_up(wrong_problem=True), FIRST)


def test_the_page_says_what_is_missing_and_what_differs():
    drawn = [
        *runs("grpo", [20, 40], [70, 50]),
        *runs("good", [20, 40], [70, 90]),
        *runs("bad", [20, 40], [70, 10]),
        *runs("same", [20, 40], [70, 50], seeds=(1, 2)),
        *runs("weak", [20, 29], [70, 69]),
    ]
    ranking = rank(drawn, (30.0, 35.0))
    ranking.loc[ranking["method"] == "same", ["p", "p_holm"]] = (
        0.01,
        0.3,
    )  # uncorrected is not enough
    text = markdown(at(30.0, 35.0), ranking, {"odd": "needs groups"})
    assert "one model of 0.4 M parameters, one task" in text
    assert re.search(r"recipe \(configs/yardstick.yaml\), seeds: 2 to 3\.", text)
    lines = {
        m: line for line in text.splitlines() for m in re.findall(r"^\| \d* ?\| `(\w+)`", line)
    }
    assert re.match(r"\| 1 \| `good` \| \*\*8.* ± .*\*\* ↑ \| \+", lines["good"])
    assert "** ↓" in lines["bad"]
    assert "**" not in lines["same"]
    assert lines["same"].endswith("| 2 |")
    assert lines["weak"].count(" – ") == 9
    assert lines["weak"].endswith("0 of 3 |")
    assert "- `odd`: needs groups" in text


@pytest.mark.sweep
def test_a_method_is_told_from_a_smaller_step(tmp_path):
    """10 points above the base model a third of the rate is worth 6 points to GRPO; "same" is worth
    2, "good" 14, and its twin 3 more than GRPO's."""
    drawn = []
    for rate, kept in (
        ("plain", {"grpo": 50, "same": 54, "good": 78}),
        ("lower", {"grpo": 62, "same": 62, "good": 68}),
    ):
        for method, last in kept.items():
            drawn += runs(method, [20, 40], [70, last], scale=0.01, rate=rate)
    drawn += runs("weak", [20, 29], [70, 60])
    once, twice = at(10.0, protocol=COUNTDOWN), at(10.0, 15.0, protocol=COUNTDOWN)
    found = ranked(drawn, once)
    gained = primary(found, "against_lower")["difference"]
    expected = {"good": 8, "same": -4, "grpo": -6}
    assert gained.drop("weak").to_dict() == pytest.approx(expected, abs=0.1)
    assert primary(found, "plain")["difference"].dropna().to_dict() == pytest.approx(
        {"good": 14, "same": 2}, abs=0.1
    )
    twins = primary(found, "lower")["difference"].dropna()
    assert twins.to_dict() == pytest.approx({"good": 3, "same": 0}, abs=0.1)
    gain(once, found, tmp_path / "gain")
    told = pd.read_csv(tmp_path / "gain.csv").set_index(["rate", "method"])["difference"]
    assert told["against_lower"].to_dict() == pytest.approx(expected, abs=0.1)
    assert told["lower"].to_dict() == pytest.approx({"good": 3, "same": 0}, abs=0.1)
    text = markdown(twice, ranked(drawn, twice), {})
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads == [
        "## Against GRPO at a third of the learning rate",
        "## At the same learning rate",
        "## Both at a third of the learning rate",
    ]
    assert "recipe (configs/yardstick_countdown.yaml)" in text
    assert " | groups alike | steps | " in text


def test_cover_and_collapse_are_read_from_counts_and_rows():
    rows, counts = made_up()
    counts["n"] = 256
    active = (
        rows[rows["run_id"] == "iac-s1"]
        .iloc[:1]
        .assign(benchmark="training", metric="active_groups", value=70.0, unit="percent")
    )
    grpo = active.assign(run_id="grpo-s1", value=40.0)
    rows = pd.concat([rows.assign(table="plain"), active, grpo], ignore_index=True)
    found = {c.method: c.values for c in curves(rows, counts, COUNTDOWN)}
    assert found["iac"]["training", "collapse_rate"].tolist() == [[30], [30]]
    assert found["grpo"]["training", "collapse_rate"].tolist() == [[60], [60]]
    # right of 256: iac 64 and 64, grpo 128 and 256
    assert found["iac"]["natural", "cover@0.5"][1].tolist() == [0, 0]
    assert found["grpo"]["natural", "cover@0.5"][1].tolist() == [100, 100]
    assert found["iac"]["rare", "cover@0.1"][1].tolist() == [100, 100]
    assert ("rare", "pass@256") not in found["iac"]


def test_front_holds_what_is_highest_somewhere():
    rows = [
        *[("grpo", step, 20 + step, 80 - step) for step in (0, 10, 20)],
        *[("early", step, 20 + step / 2, 80 - step / 4) for step in (0, 10)],
        *[("late", step, 20 + step, 80 - step * 0.8) for step in (0, 10, 20)],
        *[("below", step, 20 + step, 80 - 2 * step) for step in (0, 10, 20)],
    ]
    points = pd.DataFrame(rows, columns=["method", "step", "accuracy", "diversity"])
    assert front(points) == ["late", "early"]  # late at 30 of 40 accuracies, early below 25
    assert front(points, shown=1) == ["late"]
    assert front(points[points["method"].isin(["grpo", "below"])]) == []  # GRPO has its own color


def test_plan_seed_by_seed_at_both_rates(tmp_path):
    where = [*RUN, f"results_dir={tmp_path}"]
    found, refused = planned(FIRST, ["gspo", "grpo", "iac", "fade"], [1, 2], where)
    assert refused == {}
    first = [("base", "both"), ("grpo", "both"), ("gspo", "both"), ("iac", "plain")]
    first += [("iac_equalised", "equalised"), ("fade", "plain"), ("fade_equalised", "equalised")]
    assert [(x.name, x.table) for x in found] == first * 2
    assert [x.seed for x in found] == [1] * 7 + [2] * 7
    assert len({x.run_id for x in found}) == 14
    assert {x.model.pretrain.seed for x in found} == {0}

    by_name = {x.name: x for x in found}
    assert by_name["iac_equalised"].label == "iac"
    assert by_name["iac_equalised"].optim.equalise_to == by_name["grpo"].method.advantage
    assert by_name["iac"].optim.equalise_to is None
    assert by_name["base"].optim.steps == 0


def test_the_second_edition_takes_three_base_models_in_turn(tmp_path):
    where = [word for word in TINY if not word.startswith("model.pretrain.seed")]
    where += ["optim.mini_batches=2", "eval.n=64", "eval.curve_n=64", f"results_dir={tmp_path}"]
    found, refused = planned(COUNTDOWN, ["iac"], [1, 2, 3, 4], where)
    assert refused == {}
    assert [(x.seed, x.model.pretrain.seed) for x in found[::5]] == [
        (1, 0),
        (2, 1),
        (3, 2),
        (4, 0),
    ]
    assert [x.name for x in found[:5]] == ["base", "grpo", "grpo_lower", "iac", "iac_lower"]


@pytest.mark.parametrize("protocol", [COUNTDOWN, MAZE])
def test_the_second_edition_has_a_lower_rate_twin_of_every_run(protocol, tmp_path):
    where = [f"results_dir={tmp_path}"]
    found, refused = planned(protocol, ["grpo", "ucpo"], [3], where)
    assert refused == {}
    assert [(x.name, x.table, x.label) for x in found] == [
        ("base", "both", "base"),
        ("grpo", "plain", "grpo"),
        ("grpo_lower", "lower", "grpo"),
        ("ucpo", "plain", "ucpo"),
        ("ucpo_lower", "lower", "ucpo"),
    ]
    _, plain, lower, *_ = found
    assert lower.optim.lr == pytest.approx(plain.optim.lr / 3)
    assert plain.optim.mini_batches >= 4
    assert plain.eval.every == 5
    assert {x.paper for x in found} == {protocol.name}


def test_rates_that_differ_by_an_epsilon_alone_are_one_run(tmp_path):
    where = [*RUN, f"results_dir={tmp_path}"]
    _, x = planned(FIRST, ["grpo"], [1], [*where, "method.advantage.epsilon=1e-5"])[0]
    _, reference = planned(FIRST, ["grpo"], [1], where)[0]
    assert x.method.advantage != reference.method.advantage
    assert [one.table for one in plan._rates(FIRST, x, reference)] == ["both"]


def test_plan_names_what_the_backend_refuses(tmp_path):
    where = [*RUN, f"results_dir={tmp_path}", "sampling.group_size=2"]
    found, refused = planned(FIRST, ["pass_at_k_chen", "gspo"], [1], where)
    assert {x.label for x in found} == {"base", "grpo", "gspo"}
    assert list(refused) == ["pass_at_k_chen"]
    assert "k=4" in refused["pass_at_k_chen"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("seeds=1,x", "seeds=x"),
        ("workers=0", "workers=0"),
        ("draw=no", "draw=no"),
        ("methods=grppo", "methods=grppo"),
        ("eval.curve_n=64", "eval.curve_n=64"),
        ("protocol=fourth", "protocol=fourth.*yardstick_countdown.*third_maze"),
        ("optim.setps=4", "setps"),
    ],
)
def test_mistakes_on_the_command_line(tmp_path, word, message):
    with pytest.raises(UserError, match=message):
        command.main([*RUN, f"results_dir={tmp_path}", "methods=grpo", word])


@pytest.mark.sweep
def test_from_runs_to_figure_and_again_from_the_tables_alone(results, tmp_path, monkeypatch):
    started = []

    def here(tasks, workers, then=()):
        for title, function, arguments in [*tasks, *then]:
            if title.startswith("relu-"):
                raise UserError("relu has failed")
            started.append(title)
            function(*arguments)

    monkeypatch.setattr("common.sweeps.reproduce.run_all", here)
    words = [*RUN, f"results_dir={results}", "seeds=1"]
    with pytest.raises(UserError, match="relu has failed"):
        command.main([*words, "methods=grpo,mean_only,relu"])
    folder = results / "yardstick"
    assert [title.split("-s1-")[0] for title in started] == [
        "base",
        "grpo",
        "mean_only",
        "mean_only_equalised",
    ]
    text = (folder / "yardstick.md").read_text()
    assert "- `relu`, `relu_equalised`: no finished run" in text
    rows = pd.read_csv(folder / "metrics.csv.gz")
    assert set(rows["table"]) == {"plain", "equalised", "both"}
    lr = [
        pd.read_json(path / "metrics.jsonl", lines=True)["lr"].iloc[-1]
        for path in sorted(folder.glob("mean_only*-s1-*"))
    ]
    # groups of 4, 1 right: GRPO (1 - 1/4) / (1/2) = 3/2, mean_only 3/4
    assert lr[1] / lr[0] == pytest.approx(2, rel=1e-4)
    ranking = pd.read_csv(folder / "ranking.csv")
    assert set(ranking["method"]) == {"grpo", "mean_only"}
    assert (folder / "figures" / "frontier.png").stat().st_size > 10_000

    copy = tmp_path / "reference"
    (copy / "yardstick").mkdir(parents=True)
    for name in ("metrics.csv", "counts.csv.gz"):
        shutil.copy(folder / name, copy / "yardstick" / name)
    again = [word.replace(str(results), str(copy)) for word in words]
    command.main([*again, "methods=grpo,mean_only,relu", "draw=only"])
    for name in ("ranking.csv", "curves.csv", "yardstick.md", "figures/frontier.csv"):
        assert (copy / "yardstick" / name).read_bytes() == (folder / name).read_bytes(), name
    assert len(started) == 4


def test_without_results_the_command_says_so(tmp_path):
    with pytest.raises(UserError, match=r"metrics.csv does not exist"):
        command.main([*RUN, f"results_dir={tmp_path}", "methods=grpo", "draw=only"])
