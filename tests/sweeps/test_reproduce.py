from dataclasses import replace

import pytest
from compositions import asked
from compositions import runs as runs_of
from refuses import refuses

from common.errors import UserError
from common.sweeps.chosen import only
from common.sweeps.plan import experiments, makers, with_seed
from common.sweeps.reproduce import compute, reproduce, train_all
from common.sweeps.schedule import Scheduled
from papers.f_grpo.simulation.config import Simulation


def test_the_rest_waits_for_the_base_model_and_the_end_for_all(monkeypatch, tmp_path):
    calls = []

    def noted(tasks, workers):
        calls.append((tasks, workers))

    monkeypatch.setattr("common.sweeps.reproduce.run_all", noted)
    config = asked("f_grpo", "scale=smoke", "workers=3", f"results_dir={tmp_path}")
    waiting = replace(config.parts["theory"], after="base")
    config = replace(config, parts=config.parts | {"theory": waiting})
    reproduce(config, calls.append)
    (tasks, workers), end = calls
    assert workers == 3
    first, rest = tasks[:3], tasks[3:]
    names = [task.key.split("-")[:2] for task in first]
    assert names == [["base", "s1"], ["base", "s2"], ["simulation"]]
    assert not any(task.needs for task in first)
    assert (rest[0].key, rest[0].needs) == ("theory", (first[0].key, first[1].key))
    assert all(len(task.needs) == 1 for task in rest[1:])
    assert len(tasks) == len(experiments(config)) + 2
    assert end is config


def test_a_part_with_a_configuration_gets_it_checked(monkeypatch, tmp_path):
    given = []

    def noted(config: Simulation) -> None:
        given.append(config)

    monkeypatch.setattr("papers.f_grpo.simulation.tables.run", noted)
    compute(asked("f_grpo", "scale=smoke", f"results_dir={tmp_path}"), "simulation")
    (config,) = given
    assert (config.steps, config.workers) == (100, 1)
    assert config.results_dir == str(tmp_path / "smoke")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["scale=huge"], "scale=huge: use one of"),
        (["workers=0"], "workers=0: must be at least 1"),
        (["+speed=2"], "unknown key speed"),
        (["+scales.smoke.sweep=[]"], "sweep"),
        (["scale=smoke", "+scales.smoke.parts.teory=[]"], r"scales.smoke.parts=teory: .*theory"),
        (["parts.theory.after=lunch"], "parts.theory.after"),
        (["scales.smoke.sweeps.0.rows=[study/no_such]"], "rows=study/no_such"),
    ],
)
def test_bad_requests_are_refused(overrides, message):
    with pytest.raises(UserError, match=message):
        asked("f_grpo", *overrides)


def test_where_a_run_failed_the_others_are_compared_before_the_error(monkeypatch, tmp_path):
    def failing(tasks, workers):
        raise UserError("relu has failed")

    monkeypatch.setattr("common.sweeps.reproduce.run_all", failing)
    compared = []
    with pytest.raises(UserError, match="relu has failed"):
        reproduce(asked("f_grpo", "scale=smoke", f"results_dir={tmp_path}"), compared.append)
    assert len(compared) == 1


def test_every_base_model_is_made_before_what_starts_from_it(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(
        "common.sweeps.reproduce.run_all", lambda tasks, workers: calls.append(tasks)
    )
    rows = runs_of("f_grpo", "smoke")[:2]
    found = [replace(with_seed(x, n), results_dir=str(tmp_path)) for n in range(3) for x in rows]
    base, trained = found[::2], found[1::2]

    beside = [Scheduled("theory", call=print)]
    train_all([*base, *trained], 2, beside=beside)
    train_all([*trained, *base], 2)  # in any order
    made = [(x.run_id, ()) for x in base]
    waits = [(x.run_id, (y.run_id,)) for x, y in zip(trained, base, strict=True)]
    noted = [[(task.key, task.needs) for task in tasks] for tasks in calls]
    assert noted == [[*made, ("theory", ()), *waits], [*waits, *made]]

    calls.clear()
    for x in base:
        (tmp_path / x.paper / x.run_id).mkdir(parents=True)
        (tmp_path / x.paper / x.run_id / "DONE").touch()
    train_all([*base, *trained], 2, beside=beside)
    assert [task.key for task in calls[0]] == ["theory", *(x.run_id for x in trained)]
    assert not any(task.needs for task in calls[0])


@pytest.mark.sweep
def test_asked_rows_and_seeds_are_the_scales_own_runs_from_base_models_of_their_own():
    own = {x.run_id: x for x in runs_of("cov_grpo", "full")}
    few = experiments(only(asked("cov_grpo", "scale=full"), "grpo,base,clip_cov", "6,5"))
    assert {(x.name, x.seed) for x in few} == {
        (name, seed) for name in ("grpo", "base", "clip_cov") for seed in (5, 6)
    }
    assert [x.name for x in few if x.run_id not in own] == ["clip_cov"]  # seed 6 of five
    assert all(own.get(x.run_id, x) == x for x in few)
    more = experiments(only(asked("cov_grpo", "scale=full"), "grpo,base", "11"))
    assert {x.seed: x.model.pretrain.seed for x in more} == {n: n for n in range(1, 12)}
    assert [(x.name, x.seed) for x in makers(more)] == [("base", n) for n in range(1, 12)]


@pytest.mark.parametrize(
    ("key", "value"), [("rows", "no_such"), ("seeds", "0"), ("seeds", "6-5"), ("seeds", "two")]
)
def test_rows_and_seeds_that_are_not_there_are_refused(key, value):
    with refuses(key, value):
        only(asked("cov_grpo", "scale=laptop"), **({"rows": "", "seeds": ""} | {key: value}))
