from pathlib import Path

import pytest
import yaml
from interrupted import Stopped, interrupted
from refuses import refuses

from common.backends.local import train
from common.results.collect import verify
from common.results.files import read_csv, read_jsonl
from common.sweeps.reproduce import done

MOVES = "method.entropy_coef=0.01"  # every step moves the model
WEIGHTS = "model.safetensors"


@pytest.fixture
def asked(tiny):
    return lambda steps, *words: tiny(MOVES, f"optim.steps={steps}", *words)


def test_a_shorter_run_is_the_beginning_of_a_longer_one(asked, tmp_path):
    first = train(asked(3, "keep_state=true"), progress=False)
    stored = {name: (first / name).read_bytes() for name in ("counts.csv", "eval/step-00003.csv")}
    weights = (first / "model" / WEIGHTS).read_bytes()
    samples = (first / "samples" / "rare.jsonl.gz").read_bytes()
    curve = (first / "metrics.jsonl").read_text()
    x = asked(6)
    assert x.run_id == first.name
    assert not done(x)
    run = train(x, progress=False)
    assert run == first
    assert verify(run) == []
    assert done(x)
    assert (run / "metrics.jsonl").read_text().startswith(curve)
    assert (run / "eval" / "step-00003.csv").read_bytes() == stored["eval/step-00003.csv"]
    assert (run / "checkpoints" / "step-00003" / WEIGHTS).read_bytes() == weights
    assert (run / "samples-00003" / "rare.jsonl.gz").read_bytes() == samples
    assert (run / "meta-00003.json").exists()
    assert not (run / "checkpoint.pt").exists()  # the longer one keeps no state
    assert yaml.safe_load((run / "config.yaml").read_text())["optim"]["steps"] == 6
    whole = train(asked(6, "name=whole"), progress=False)
    for name in (f"model/{WEIGHTS}", "samples/rare.jsonl.gz", "counts.csv"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    logs = [read_jsonl(one / "metrics.jsonl") for one in (run, whole)]
    for log in logs:  # at step 3 one evaluation has eval.n samples, the other eval.curve_n
        del log[2]["pass@1/natural"], log[2]["pass@1/rare"]
    assert logs[0] == logs[1]
    rows = read_csv(run / "metrics.csv")
    assert sorted(set(rows["step"])) == [3, 6]
    assert set(rows["run_id"]) == {run.name}


def test_one_that_was_killed_while_it_was_taken_back_goes_on_all_the_same(asked, monkeypatch):
    run = train(asked(3, "keep_state=true"), progress=False)
    unlink = Path.unlink

    def dies(path, *arguments, **named):
        if path.name == "DONE":
            raise Stopped
        unlink(path, *arguments, **named)

    monkeypatch.setattr(Path, "unlink", dies)
    interrupted(train, asked(6), progress=False)
    monkeypatch.setattr(Path, "unlink", unlink)
    assert not done(asked(6))
    train(asked(6), progress=False)
    assert len(read_jsonl(run / "metrics.jsonl")) == 6
    assert (run / "checkpoints" / "step-00003" / WEIGHTS).exists()


def test_a_longer_run_has_the_steps_of_a_shorter_one(asked):
    run = train(asked(6), progress=False)
    written = (run / "DONE").read_bytes()
    assert done(asked(3))
    assert train(asked(3), progress=False) == run
    assert (run / "DONE").read_bytes() == written


def test_without_its_state_a_finished_run_is_left_as_it_is(asked):
    run = train(asked(3), progress=False)
    with refuses("optim.steps", 6):
        train(asked(6), progress=False)
    assert verify(run) == []
    assert done(asked(3))


def test_a_run_that_is_past_the_steps_asked_for_is_named(asked):
    steps = iter(range(100))

    def stops():
        if next(steps) == 4:
            raise Stopped

    interrupted(train, asked(6), progress=False, on_step=stops)
    with refuses("optim.steps", 3):
        train(asked(3), progress=False)
    assert train(asked(6), progress=False).name == asked(3).run_id


def test_a_run_stopped_before_its_last_evaluation_has_that_step_on_its_curve(asked, monkeypatch):
    from common.backends.evaluations import Evaluations

    last = Evaluations.last
    monkeypatch.setattr(Evaluations, "last", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(asked(3), progress=False)
    monkeypatch.setattr(Evaluations, "last", last)
    run = train(asked(6), progress=False)
    assert (run / "eval" / "step-00003.csv").exists()
