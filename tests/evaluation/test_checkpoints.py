import json
from dataclasses import replace

import pandas as pd
import pytest
import yaml
from interrupted import Stopped, interrupted
from refuses import refuses, refuses_file

from common.claims.select import indexed, select, tidy
from common.comparison.gather import gather
from common.evaluation import checkpoints, engines
from common.evaluation.checkpoints import best_step, choose, plateau_step
from common.evaluation.run import evaluate
from common.results.collect import verify
from common.results.columns import COLUMNS
from common.results.files import read_csv
from common.sweeps.plan import Sweep, evaluations_of

SMALL = ["eval.prompts.size=6", "batch=16"]
SETS = {"Natural": ["eval=countdown_natural", *SMALL], "Rare": ["eval=countdown_rare", *SMALL]}
SWEEP = Sweep("t", [], [], [], benchmarks=SETS, n=8)
CURVE = {  # step -> pass@1 of two sets; averages 20, 35, 35, 30
    10: (10, 30),
    20: (50, 20),
    30: (30, 40),
    40: (20, 40),
}


def curve(points: dict) -> pd.DataFrame:
    rows = [
        {"benchmark": name, "metric": metric, "step": step, "value": value}
        for step, values in points.items()
        for name, value in zip("ab", values, strict=False)
        for metric, value in (("pass@1", value), ("pass@4", 100 - value), ("truncated", 99))
    ]
    return pd.DataFrame(rows).reindex(columns=COLUMNS)


def run_folder(path, points: dict = CURVE, kept=(), finished=True):
    for step, values in points.items():
        place = path / "eval" / f"step-{step:05d}.csv"
        place.parent.mkdir(parents=True, exist_ok=True)
        curve({step: values}).to_csv(place, index=False)
        (place.parent / f"step-{step:05d}-counts.csv").write_text("benchmark\n")
    for folder in ("model", *(f"checkpoints/step-{step:05d}" for step in kept)):
        (path / folder).mkdir(parents=True)
    if finished:
        (path / "DONE").write_text("{}")
    return path


# ---- the choice


def test_the_best_step_by_hand():
    assert best_step(curve(CURVE)) == 20  # the earlier of two at 35
    assert best_step(curve({**CURVE, 40: (90, 90)})) == 40
    assert best_step(curve({**CURVE, 20: (90,)})) == 30  # a set was not measured at step 20
    assert best_step(curve({**CURVE, 40: (90, 90)}), at_most=30) == 20
    assert best_step(curve(CURVE), at_most=19) == 10
    with refuses("checkpoint", "best"):
        best_step(curve(CURVE), at_most=9)


def test_the_checkpoint_that_is_evaluated(tmp_path):
    run = run_folder(tmp_path / "kept", kept=(10, 20, 30))
    assert choose(run, "last") == checkpoints.Checkpoint(40, "model", "")
    best = checkpoints.Checkpoint(20, "checkpoints/step-00020", "")
    assert choose(run, "best") == best
    early = run_folder(tmp_path / "early", {10: (50, 50), 20: (1, 1)})
    assert choose(run, "best", baseline=early).step == 10  # with no more compute than `early`
    assert choose(run, "last", baseline=early).step == 40


def test_of_a_run_that_has_gone_on_the_first_steps_alone_are_candidates(tmp_path):
    run = run_folder(tmp_path / "longer", {**CURVE, 50: (90, 90)}, kept=(10, 20, 30, 40))
    assert choose(run, "best").folder == "model"
    assert choose(run, "best", steps=40).folder == "checkpoints/step-00020"
    assert choose(run, "last", steps=40).folder == "checkpoints/step-00040"
    early = run_folder(tmp_path / "early", {10: (50, 50), 20: (1, 1), 50: (99, 99)})
    assert choose(run, "best", baseline=early, steps=40).step == 10
    short = run_folder(tmp_path / "short", kept=(10, 20, 30))
    assert choose(short, "last", steps=40) == checkpoints.Checkpoint(40, "model", "")


def test_what_cannot_be_evaluated_is_refused(tmp_path):
    with refuses_file(tmp_path / "a"):
        choose(run_folder(tmp_path / "a", finished=False), "last")
    gone = run_folder(tmp_path / "b")
    (gone / "model").rmdir()
    with refuses("checkpoint", "last"):
        choose(gone, "last")


# ---- what an evaluation is


def test_an_evaluation_takes_over_what_its_experiment_says(tiny):
    a = tiny("seed=3", "label=A", "eval.temperature=0.7", "eval.max_tokens=19", "model.chat=qwen")
    words = {"X": ["eval=math500"], "Y": ["eval=math500", "max_tokens=7", "top_p=0.9"]}
    sweep = Sweep("t", [], [], [], benchmarks=words, n=5)
    x, y = evaluations_of([replace(a, backend="verl", device="cuda")], sweep)
    assert (x.n, x.temperature, x.max_tokens, x.seed) == (5, 0.7, 19, 3)
    assert (x.engine, x.device, x.label) == ("vllm", "cuda", "test-qwen2")
    assert x.eval.prompts["chat"] == "qwen"
    assert x.row.trained in x.model.path
    assert (y.max_tokens, y.top_p) == (7, 0.9)
    assert evaluations_of([a], replace(sweep, n=None, benchmarks={"X": words["X"]}))[0].n == 256
    local = evaluations_of([a], SWEEP)[0]
    assert local.engine == "local"
    assert {"paper": "f_grpo", "scope": "laptop", "table": "laptop"}.items() <= vars(
        local.row
    ).items()
    with refuses("baselines.A", "B"):
        evaluations_of([a], replace(SWEEP, baselines={"A": "B"}))


def test_its_run_folder_names_the_training_and_does_not_depend_on_where_it_lies(tiny):
    x = evaluations_of([tiny("seed=3")], SWEEP)[0]
    assert x.path.name.startswith(f"{x.row.trained}-Natural-")
    moved = replace(x, results_dir="elsewhere", model=replace(x.model, path="elsewhere/model"))
    assert moved.path.name == x.path.name
    rows = [replace(x.row, checkpoint="best"), replace(x.row, steps=3)]
    for change in ({"n": 9}, *({"row": row} for row in rows), {"temperature": 2.0}):
        assert replace(x, **change).path.name != x.path.name


# ---- from a trained model to the comparison


@pytest.fixture
def trained(tiny):
    from common.backends import run_experiment

    x = tiny("keep_checkpoints=true", "scope=cluster", "eval.rare_nll_samples=0")
    run_experiment(x, progress=False)
    return x


def test_its_rows_reach_the_comparison_with_counts(trained, results, monkeypatch):
    loaded = []

    def load_model(model, *more):
        loaded.append(model.path)
        return engines_load(model, *more)

    engines_load = engines.load_model
    monkeypatch.setattr(engines, "load_model", load_model)
    planned = evaluations_of([trained], replace(SWEEP, checkpoint="best"))
    folders = [evaluate(e) for e in planned]
    assert folders == [e.path for e in planned]
    for e, folder in zip(planned, folders, strict=True):
        assert verify(folder) == []
        taken = json.loads((folder / "checkpoint.json").read_text())
        assert loaded.pop(0) == str(results / "f_grpo" / trained.run_id / taken["folder"])
        curve = checkpoints.curve_of(results / "f_grpo" / trained.run_id)
        assert taken["step"] == best_step(curve)
        metrics = read_csv(folder / "metrics.csv")
        told = metrics[["table", "model", "method", "benchmark", "seed", "step", "run_id"]]
        assert told.drop_duplicates().values.tolist() == [
            ["laptop", "test-qwen2", "grpo", e.row.benchmark, 1, taken["step"], folder.name]
        ]
        assert {"pass@1", "pass@8", "avg@8"} <= set(metrics["metric"])
        config = yaml.safe_load((folder / "config.yaml").read_text())
        assert config["scope"] == "cluster"
        assert config["row"]["trained"] == trained.run_id
    found = gather(results, "f_grpo")
    assert (list(found.scopes), found.left_out) == (["cluster"], [])
    rows, counts = found.scopes["cluster"].rows, found.scopes["cluster"].counts
    both = {"table": "laptop", "method": "grpo", "metric": "pass@1"}
    hit = select("here", both | {"benchmark": ["Natural", "Rare"]}, tidy(rows), indexed(counts))
    assert hit.by_problem.shape == (1, 12)
    assert hit.values[0] == pytest.approx(hit.by_problem.mean())


def test_other_checkpoints_than_at_the_beginning_are_not_mixed(trained, monkeypatch):
    x = evaluations_of([trained], SWEEP)[0]

    def stop():
        raise Stopped

    interrupted(evaluate, x, stop)
    assert not (x.path / "DONE").exists()
    other = checkpoints.Checkpoint(3, "checkpoints/step-00003", "")
    with monkeypatch.context() as changed:
        changed.setattr(checkpoints, "choose", lambda *_: other)
        with refuses_file(x.path / "checkpoint.json"):
            evaluate(x)
    assert evaluate(x) == x.path
    assert (x.path / "DONE").exists()


def test_a_step_that_was_not_kept_is_refused(tmp_path):
    run = run_folder(tmp_path / "kept", kept=(10, 20, 30))
    assert choose(run, 30) == checkpoints.Checkpoint(30, "checkpoints/step-00030", "")
    assert choose(run, 40).folder == "model"
    with refuses("checkpoint", 25):
        choose(run, 25)
    last = run_folder(tmp_path / "last")
    for choice in (10, "best"):
        with refuses("checkpoint", choice):
            choose(last, choice)


# ---- the plateau: 40 problems, 8 samples each

RISING = {10: [0] * 40, 20: [4] * 40, 30: [4] * 40, 40: [7] * 40, 50: [2] * 40}


def right(points: dict[int, list[int]]) -> pd.DataFrame:
    rows = [
        {"benchmark": "a", "problem_id": str(i), "step": step, "n": 8, "c": c}
        for step, counts in points.items()
        for i, c in enumerate(counts)
    ]
    return pd.DataFrame(rows)


def test_the_plateau_is_the_highest_two_evaluations_in_a_row_that_are_similar():
    assert plateau_step(right(RISING), [1, 8]) == 30  # not the peak, 40, which is a single point
    higher = {**RISING, 60: [6] * 40, 70: [6] * 40, 80: [6] * 40}
    assert plateau_step(right(higher), [1, 8]) == 70  # of equal pairs the earliest
    assert plateau_step(right({1: [0] * 40, 2: [4] * 40, 3: [7] * 40}), [1, 8]) is None


def test_similar_is_within_the_noise_of_problems_for_every_k():
    one = {10: [4] * 40}
    # +1 on 24, -1 on 16: mean 1/40, its standard error 0.0196 = sqrt((1 - 0.04) / 39) / 8
    assert plateau_step(right({**one, 20: [5] * 24 + [3] * 16}), [1]) == 20  # 1.27 of them
    assert plateau_step(right({**one, 20: [5] * 28 + [3] * 12}), [1]) is None  # 2.73 of them
    # the same pass@1, a half of the problems lost: pass@8 is not similar
    lost = {10: [4] * 40, 20: [8] * 20 + [0] * 20}
    assert plateau_step(right(lost), [1]) == 20
    assert plateau_step(right(lost), [1, 8]) is None
    with refuses("checkpoint", "plateau"):
        plateau_step(right({10: [4] * 40, 20: [4] * 39}), [1])


def test_the_plateaus_checkpoint_or_the_best_where_there_is_none(tmp_path):
    def stored(name, points, kept):
        shares = {step: (100 * sum(c) / 320,) for step, c in points.items()}
        run = run_folder(tmp_path / name, shares, kept=kept)
        for step, counts in right(points).groupby("step"):
            place = run / "eval" / f"step-{step:05d}-counts.csv"
            counts.drop(columns="step").to_csv(place, index=False)
        return run

    run = stored("a", RISING, (10, 20, 30, 40))
    assert choose(run, "plateau") == checkpoints.Checkpoint(30, "checkpoints/step-00030", "")
    assert choose(run, "best").step == 40
    never = stored("c", {10: [0] * 40, 20: [7] * 40, 30: [4] * 40}, (10, 20))
    taken = choose(never, "plateau")
    assert taken.step == 20
    assert taken.note


def test_a_row_is_evaluated_at_further_steps_and_a_base_model_once(tiny):
    sweep = replace(SWEEP, checkpoint=3, also_at={"Rare": [4, 6]})
    trained, base = tiny("label=A"), tiny("label=base", "optim.steps=0")
    found = evaluations_of([trained, base], sweep)
    steps = [(e.row.method, e.row.benchmark, e.row.checkpoint) for e in found]
    assert steps == [
        *[("A", "Natural", 3), ("A", "Rare", 3), ("A", "Rare", 4), ("A", "Rare", 6)],
        *[("base", "Natural", 0), ("base", "Rare", 0)],
    ]
    assert len({e.path for e in found}) == 6
    assert found[-1].model == base.model  # as it is, whatever folder a training would have
    with refuses("also_at", "['Other']"):
        evaluations_of([trained], replace(SWEEP, also_at={"Other": [1]}))
