"""Our trainer around verl's own steps: what it logs, saves and stops for. Nothing is trained."""

import math
import threading
from pathlib import Path

import pytest

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

import numpy as np
from omegaconf import OmegaConf

from common.backends import saving as clock
from common.backends.verl import experiment_trainer, process, rows
from common.backends.verl.experiment_trainer import ExperimentTrainer, observed
from common.backends.verl.trainer import MethodTrainer
from common.health import findings
from common.results.files import read_jsonl


def test_a_step_is_summed_up_as_the_local_loop_does():
    verdict = dict(outcome="correct", tokens=4, stopped=True)
    samples = [
        verdict,
        verdict | dict(outcome="wrong", stopped=False),
        verdict | dict(outcome="unparsed", tokens=12),
        verdict | dict(outcome="timeout"),
    ]
    row = observed(["a", "b", "a", "b"], [1.0, -1.0, -1.0, -1.0], samples)
    assert row == dict(
        reward=-0.5, solve_rate=0.25, active_groups=0.5, unparsed=0.25, timeout=0.25, error=0,
        response_length=6, truncated=0.25,
    )  # fmt: skip


@pytest.mark.parametrize("lost", [math.nan, math.inf, -math.inf])
def test_what_verls_own_logger_has_written_of_a_lost_gradient_is_read(lost, tmp_path, monkeypatch):
    from verl.utils.tracking import FileLogger

    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(path))
    logger = FileLogger("project", "name")
    logger.log({"rlvr/reward": 0.5, "actor/grad_norm": np.float32(lost)}, step=1)
    logger.finish()
    (line,), _ = process._whole_lines(path, 0)
    row = rows.curve_row(line)
    assert math.isnan(row["grad_norm"])
    assert [one.rule.column for one in findings([row])] == ["grad_norm"]


@pytest.fixture
def saving(tmp_path, monkeypatch):
    """A trainer that keeps the model of step 1, and the steps that it has saved."""
    saved = []
    monkeypatch.setattr(MethodTrainer, "__init__", lambda x, config: setattr(x, "config", config))
    monkeypatch.setattr(MethodTrainer, "_save_checkpoint", lambda x: saved.append(x.global_steps))
    folder = str(tmp_path / "run" / "work" / "checkpoints")
    own = {"save_freq": 1, "keep_models": [1], "default_local_dir": folder, "device": "cpu"}
    made = ExperimentTrainer(OmegaConf.create({"trainer": own}))
    made.seen, made.global_steps = {}, 1
    return made, saved


def test_a_kept_model_is_exported_while_training_goes_on(saving, monkeypatch):
    (made, saved), begun, may_end = saving, threading.Event(), threading.Event()

    def export(*_):
        begun.set()
        assert may_end.wait(60)

    monkeypatch.setattr(experiment_trainer, "export", export)
    made._save_checkpoint()
    assert begun.wait(60)
    assert saved == [1]
    made.global_steps = 2
    second = threading.Thread(target=made._save_checkpoint)
    second.start()
    second.join(0.5)
    assert saved == [1]  # the checkpoint that is exported is not deleted
    may_end.set()
    second.join(60)
    assert saved == [1, 2]


def test_a_validation_that_a_kill_cut_short_is_no_file(tmp_path, monkeypatch):
    given = (["prompt"] * 2, ["text"] * 2, ["gold"] * 2, [0.0] * 2, {"outcome": ["wrong"] * 2})
    write, folder = ExperimentTrainer._write_generations, tmp_path / "validation"
    with pytest.raises(IndexError):  # verl has written its first line
        write(*given[:3], [0.0], given[4], str(folder), 5)
    assert not (folder / "5.jsonl").exists()
    write(*given, str(folder), 5)
    assert [row["outcome"] for row in read_jsonl(folder / "5.jsonl")] == ["wrong"] * 2
    assert [*folder.rglob("*.jsonl")] == [folder / "5.jsonl"]


def test_the_step_of_a_stop_is_saved_and_is_the_last(saving, monkeypatch):
    (made, _), own = saving, saving[0].config.trainer
    monkeypatch.setattr(MethodTrainer, "step", lambda *_: None)
    own.keep_models, own.total_epochs = [], 9
    made.saving.every, made.total_training_steps = 50, 1000
    made.step()
    assert (own.save_freq, own.total_epochs) == (1000, 9)
    stop = Path(own.default_local_dir).parent / experiment_trainer.STOP
    stop.parent.mkdir(parents=True)
    stop.write_text("")
    made.step()
    assert (own.save_freq, own.total_epochs) == (1, 0)


def test_the_trainer_saves_by_the_clock_and_its_first_step_in_any_case(saving, monkeypatch):
    (made, saved), own = saving, saving[0].config.trainer
    monkeypatch.setattr(MethodTrainer, "step", lambda *_: None)
    monkeypatch.setattr(clock, "steps_between", lambda step_s, save_s: 4)
    own.keep_models, made.saving.every, made.total_training_steps = [3], None, 12
    monkeypatch.setattr(experiment_trainer, "export", lambda *_: None)
    for made.global_steps in range(1, 13):
        made.step()
        if made.global_steps % own.save_freq == 0:  # as verl does
            made._save_checkpoint()
    assert saved == [1, 3, 7, 11, 12]
