from dataclasses import replace

from interrupted import Stopped, interrupted
from refuses import refuses

from common.backends import solve_rates
from common.backends.prompts import prompts as of_experiment
from common.datasets.prompts import stated
from common.datasets.solve_rate import filtered, rates
from common.evaluation import engines
from common.types import Prompt
from slurm import plan

PROMPTS = [Prompt(f"p{i}", f"text {i}", "1") for i in range(8)]
RIGHT = [8, 0, 4, 8, 2, 6, 8, 1]  # of 8: the mean is 37 / 64
RATES = {f"p{i}": right / 8 for i, right in enumerate(RIGHT)}


def kept(**asked) -> list[str]:
    return [prompt.id for prompt in filtered(prompts=PROMPTS, rates=RATES, n=8, **asked)]


def test_the_easiest_share_goes_and_the_order_stays(capsys):
    assert kept(drop_easiest=0.49) == ["p1", "p2", "p4", "p5", "p7"]
    assert (
        "5 of 8 prompts, mean 0.325 of 0.578 by 8 samples, none above 0.750"
        in capsys.readouterr().err
    )
    assert kept(drop_easiest=0.12) == [p.id for p in PROMPTS]  # 0.96 of a prompt
    one = kept(drop_easiest=0.13)
    assert len(one) == 7
    assert one == kept(drop_easiest=0.13)  # of three equals, always the same
    gone = set(p.id for p in PROMPTS) - set(one)
    assert gone < {"p0", "p3", "p6"}


def test_the_easiest_go_until_the_mean_is_reached():
    assert len(kept(mean=0.55)) == 7  # 29 / 56 = 0.518
    assert kept(mean=0.325) == ["p1", "p2", "p4", "p5", "p7"]  # 13 / 40, just met
    assert kept(mean=0.32) == ["p1", "p2", "p4", "p7"]
    assert kept(mean=0.9) == [p.id for p in PROMPTS]


def test_what_cannot_be_filtered_is_refused_in_a_line(tmp_path):
    for asked, value in (
        ({}, None),
        ({"mean": 0.5, "drop_easiest": 0.5}, None),
        ({"mean": 0.0}, 0.0),
        ({"drop_easiest": 1.5}, 1.5),
    ):
        with refuses("solve_rate", value):
            kept(**asked)
    with refuses("solve_rate", "['new']"):
        filtered(prompts=[*PROMPTS, Prompt("new", "x", "1")], rates=RATES, n=8, mean=0.5)
    with refuses("data.train.solve_rate", tmp_path / "counts.csv"):
        rates(tmp_path / "counts.csv")


def asked(x, **changes):
    train = x.data.train | {"solve_rate": {"n": 4, "drop_easiest": 0.25} | changes}
    return replace(x, data=replace(x.data, train=train))


def measured(x):
    (one,) = solve_rates.measurements(x)
    return one.path


def test_a_pass_that_is_killed_after_two_chunks_draws_the_other_three(tiny, tmp_path, monkeypatch):
    """And ends with the bytes of one that was left alone; then the run trains on what is left."""
    monkeypatch.setattr("common.evaluation.config.BATCH", 32)  # 8 prompts of 40
    drawn, each = [], engines.drawn
    monkeypatch.setattr(engines, "drawn", lambda *words: drawn.append(words[2]) or each(*words))
    x = asked(tiny())
    alone = replace(x, results_dir=str(tmp_path / "alone"))
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "models").symlink_to(f"{x.results_dir}/models")
    solve_rates.measure(alone, lambda: None)
    drawn.clear()

    def kill():
        if len(drawn) == 2:
            raise Stopped

    with refuses("data.train.solve_rate"):
        of_experiment(x)
    interrupted(solve_rates.measure, x, kill)
    folder = measured(x)
    assert drawn == [0, 8]
    assert len(list((folder / "samples").iterdir())) == 2
    assert not (folder / "counts.csv").exists()
    solve_rates.measure(x, lambda: None)
    assert drawn == [0, 8, 16, 24, 32]
    solve_rates.measure(x, lambda: None)  # a finished one is found
    assert len(drawn) == 5
    other = measured(alone)
    names = ["counts.csv", *(f"samples/{file.name}" for file in (other / "samples").iterdir())]
    assert len(names) == 6
    for name in names:
        assert (folder / name).read_bytes() == (other / name).read_bytes()
    every, _ = of_experiment(tiny())
    train, _ = of_experiment(x)
    assert len(train) == 30
    rate = rates(folder / "counts.csv")
    assert min(rate[p.id] for p in every if p not in train) >= max(rate[p.id] for p in train)
    assert x.run_id != tiny().run_id


def test_the_pass_is_shared_by_all_that_start_alike(tiny):
    x = asked(tiny())
    same = asked(tiny("seed=3", "method=f_grpo", "optim.steps=9", "name=b"))
    assert measured(x) == measured(same)
    others = [asked(tiny("eval.max_tokens=19")), asked(x, n=8), asked(tiny("data.train.size=41"))]
    paths = {measured(one) for one in (x, *others)}
    assert len(paths) == 4
    assert solve_rates.measurements(tiny()) == []
    assert solve_rates.measurements(asked(tiny("optim.steps=0"))) == []


def test_a_large_set_is_measured_in_parts(tiny, monkeypatch):
    """Each prompt once, in evaluations that are jobs side by side; the run waits for all."""
    monkeypatch.setattr(solve_rates, "PART", 56)  # 14 prompts; 40 are three parts
    x = asked(tiny())
    parts = solve_rates.measurements(x)
    assert [stated(one.eval.prompts) for one in parts] == [14] * 3
    jobs = [job for job in plan.plan([x], []) if job.kind == "rates"]
    (trained,) = (job for job in plan.plan([x], []) if job.kind == "train")
    assert {job.key for job in jobs} == {one.path.name for one in parts}
    assert {*trained.needs} > {job.key for job in jobs}
    assert len({job.needs for job in jobs}) == 1  # no part waits for another
    solve_rates.measure(x, lambda: None)
    known = [rates(one.path / "counts.csv") for one in parts]
    every, _ = of_experiment(tiny())
    assert [len(one) for one in known] == [13, 13, 14]
    assert sorted(key for one in known for key in one) == sorted(prompt.id for prompt in every)
    train, _ = of_experiment(x)
    assert len(train) == 30
    (parts[1].path / "counts.csv").unlink()
    with refuses("data.train.solve_rate"):
        of_experiment(x)
