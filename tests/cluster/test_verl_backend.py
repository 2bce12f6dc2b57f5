"""What goes in and out of verl around a run: the resume decision, metrics, samples, verdicts, the
child process. Nothing is trained here."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from processes import alive
from tiny import ROOT

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from omegaconf import OmegaConf

from common.backends import saving as clock
from common.backends.verl import (
    backend,
    experiment_trainer,
    process,
    reward,
    rows,
    sockets,
)
from common.backends.verl.experiment_trainer import (
    ExperimentTrainer,
    observed,
)
from common.backends.verl.trainer import MethodTrainer
from common.errors import Fault, UserError
from common.experiment import load
from common.results.files import read_jsonl
from common.types import Verdict

TINY = ["device=cpu", "optim.steps=6", "eval.every=3", "eval.n=8", "eval.k=[1]", "eval.curve_n=4"]


# ---- resuming


@pytest.mark.parametrize(
    ("saved", "evaluated", "expected"),
    [
        (0, [], (False, False)),
        (2, [], (False, False)),  # no point of the curve
        (3, [3], (False, False)),
        (3, [], (False, True)),  # killed between the checkpoint and its evaluation
        (6, [3], (True, True)),  # only the last evaluation is missing
        (6, [3, 6], None),
    ],
)
def test_what_the_next_launch_does(saved, evaluated, expected, tmp_path):
    x, work = load([*TINY], "f_grpo"), tmp_path / "work"  # 6 steps, evaluated every 3
    latest = work / "checkpoints" / "latest_checkpointed_iteration.txt"
    latest.parent.mkdir(parents=True)
    if saved:
        latest.write_text(str(saved))
    (work / "validation").mkdir()
    for step in evaluated:
        (work / "validation" / f"{step}.jsonl").write_text("")
    found = backend.launch_settings(x, work)
    keys = ("trainer.val_only", "trainer.val_before_train")
    assert found == (None if expected is None else dict(zip(keys, expected, strict=True)))
    if expected == (False, True):  # not again what a shorter run has evaluated where it ended
        earlier = tmp_path / "eval" / "step-00003-counts.csv"
        earlier.parent.mkdir()
        earlier.write_text("")
        assert not backend.launch_settings(x, work)["trainer.val_before_train"]


def test_of_the_work_folder_the_last_checkpoint_alone_is_kept_on_demand(tmp_path):
    x, work = load([*TINY, "keep_state=true"], "f_grpo"), tmp_path / "work"
    for step in (3, 6):
        (work / "checkpoints" / f"global_step_{step}" / "actor").mkdir(parents=True)
    (work / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("6")
    (work / "log").mkdir()
    (work / "train.parquet").write_text("")
    backend.only_state(x, work)
    names = sorted(path.name for path in work.rglob("*"))
    assert names == ["actor", "checkpoints", "global_step_6", "latest_checkpointed_iteration.txt"]


def test_a_longer_run_keeps_the_evaluations_of_the_shorter_one(tmp_path):
    words = [*TINY, "eval.n=2", "eval.k=[1,2]", "eval.curve_n=1"]
    short, longer = (load([*words, f"optim.steps={n}"], "f_grpo") for n in (3, 6))
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "active_groups": 0.5}\n')
    dump(tmp_path / "work" / "validation" / "3.jsonl")
    rows.write_results(short, tmp_path, tmp_path / "work")
    stored = (tmp_path / "eval" / "step-00003.csv").read_bytes()
    (tmp_path / "work" / "validation" / "3.jsonl").rename(tmp_path / "3.jsonl")
    dump(tmp_path / "work" / "validation" / "6.jsonl")
    rows.write_results(longer, tmp_path, tmp_path / "work")
    assert (tmp_path / "eval" / "step-00003.csv").read_bytes() == stored
    assert set(pd.read_csv(tmp_path / "metrics.csv")["step"]) == {3, 6}
    # stopped before it was finished, it has the samples of the last step on its curve
    (tmp_path / "3.jsonl").rename(tmp_path / "work" / "validation" / "3.jsonl")
    assert len(rows.sampled(longer, tmp_path / "work", 3)[0].rows) == 4


def test_log_probs_at_another_temperature_than_the_samples_make_no_entropy(tmp_path):
    words = [*TINY, "eval.n=2", "eval.k=[1,2]", "sampling.temperature=0.7", "backend=verl"]
    dump(tmp_path / "validation" / "6.jsonl")
    for apart, of_eval, missing in (("1", "0.6", True), ("1", "1", False), ("null", "0.6", False)):
        more = f"sampling.log_prob_temperature={apart}", f"eval.temperature={of_eval}"
        found = rows.sampled(load([*words, *more, "eval.curve_n=1"], "f_grpo"), tmp_path, 6)
        assert {bool(one.rows.log_prob.isna().all()) for one in found} == {missing}


# ---- what comes out


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


def test_every_column_is_found_in_a_line_that_verl_has_logged():
    """A step of a real run on a CPU, where PyTorch counts no memory."""
    (line,) = read_jsonl(Path(__file__).with_name("verl_line.jsonl"))
    row = rows.curve_row(line)
    data = line["data"]
    assert data["actor/perf/max_memory_allocated_gb"] == row["memory_gib"] == 0.0
    absent = {"actor/kl_loss", "timing_s/ref", "rollout_corr/rollout_is_mean"}  # not in this run
    absent |= {"timing_s/save_checkpoint", "timing_s/testing"}  # not in this step
    assert set(rows.COLUMN_OF) - set(data) == absent


TIMED = """
import torch
import torch.distributed as dist
from omegaconf import OmegaConf
from verl.workers.engine_workers import ActorRolloutRefWorker, initialize_global_process_group_ray

from common.backends.verl.worker import PolicyWorker

# as verl's TrainingWorker does; on a CPU torch refuses the backend that it names itself
make = lambda *_: initialize_global_process_group_ray(timeout_second=None, backend="cpu:gloo")
ActorRolloutRefWorker.__init__ = make
PolicyWorker(OmegaConf.create({"nccl_timeout": 77}), "actor")
cpu = torch.device("cpu")
for group in (dist.group.WORLD, dist.init_device_mesh("cpu", (1,)).get_group(), dist.new_group()):
    print(group._get_backend(cpu).options._timeout.total_seconds())
print(dist.distributed_c10d._get_default_timeout("nccl").total_seconds())
"""


def test_verls_key_is_how_long_ranks_wait_for_each_other():
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    words = [sys.executable, "-c", TIMED]
    done = subprocess.run(words, cwd=ROOT, env=os.environ | place, capture_output=True, text=True)
    assert done.stdout.split() == ["77.0"] * 4, done.stderr[-2000:]


def test_a_row_that_a_kill_kept_from_the_log_is_in_the_checkpoint(tmp_path):
    curve = tmp_path / "metrics.jsonl"
    curve.write_text('{"step": 1}\n')
    folder = tmp_path / "checkpoints" / "global_step_2"
    folder.mkdir(parents=True)
    kept = rows.keep({"rlvr/reward": 0.5, "actor/lr": 1e-4, "perf/mfu/actor": 0.3})
    (folder / rows.ROW).write_text(json.dumps({"step": 2, "data": kept}))
    assert rows.lost_row(curve, tmp_path, 2) == {"step": 2, "reward": 0.5, "lr": 1e-4}
    curve.write_text('{"step": 1}\n{"step": 2}\n')
    assert rows.lost_row(curve, tmp_path, 2) is None
    assert rows.lost_row(curve, tmp_path, 1) is None


def dump(path: Path, missing: int = 0) -> None:
    """verl's file of validation samples: two benchmarks, two problems, two samples each."""
    lines = [
        dict(
            uid=f"u{problem}{name}_{sample}_0", output=f"text {sample}", benchmark=name,
            problem_id=problem, outcome="correct" if sample else "wrong",
            parsed=json.dumps("1+1" if sample else None), tokens=3, log_prob=-1.5, stopped=True,
        )
        for name in ("natural", "rare")
        for problem in ("p", "q")
        for sample in (1, 0)
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines[: len(lines) - missing]))


# ---- verdicts


def test_rewards_keep_the_verdict_and_are_judged_in_batches(tmp_path, monkeypatch):
    x = load([*TINY, "reward.correct=1", "reward.wrong=-1"], "f_grpo")
    sizes = []

    def verify(pairs):
        sizes.append(len(pairs))
        return [Verdict("correct", 1.0, "x") if a == b else Verdict("wrong", 0.0) for a, b in pairs]

    file = str(tmp_path / "judge.json")
    monkeypatch.setitem(reward._made, file, (x.reward, reward.Batcher(verify)))
    extra = dict(problem_id="p", tokens=3, log_prob=-1.0, stopped=True)

    async def both():
        jobs = [reward.judge("natural", text, "1", dict(extra), file) for text in ("1", "2", "1")]
        return await asyncio.gather(*jobs)

    scores = asyncio.run(both())
    assert [score["score"] for score in scores] == [1.0, -1.0, 1.0]
    assert [score["outcome"] for score in scores] == ["correct", "wrong", "correct"]
    assert json.loads(scores[1]["parsed"]) is None
    assert max(sizes) > 1


def test_a_verifier_that_fails_is_no_zero(tmp_path, monkeypatch):
    def verify(pairs):
        raise UserError("verifier nonsense: cannot be trusted")

    file = str(tmp_path / "judge.json")
    x = load([*TINY], "f_grpo")
    monkeypatch.setattr(reward, "_start", lambda _: (x.reward, reward.Batcher(verify)))
    with pytest.raises(UserError, match="cannot be trusted"):
        asyncio.run(reward.judge("natural", "1", "1", {}, file))
    assert "verifier nonsense" in (tmp_path / reward.FAULT).read_text()


# ---- the child process


def child(tmp_path, monkeypatch, program: str) -> list[dict]:
    """process.launch with `program` in verl's place; in it METRICS is the file of metrics."""
    code = "import os; METRICS = os.environ['VERL_FILE_LOGGER_PATH']\n" + program
    real = subprocess.Popen
    monkeypatch.setattr(
        process.subprocess, "Popen", lambda args, **k: real([sys.executable, "-c", code], **k)
    )
    with open(tmp_path / "lock", "w") as lock:
        given = dict(threads=1, keep_open=lock.fileno())
        return list(process.launch(tmp_path / "verl.yaml", tmp_path, **given))


def test_metrics_are_followed_and_nothing_survives(tmp_path, monkeypatch):
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "0")  # as SLURM sets it; verl refuses to start
    program = """
import subprocess, sys
open(METRICS, "w").write('{"step": 1}\\n{"step": 2}\\n{"st')
sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
print("sleeper", sleeper.pid, os.environ["TMPDIR"], os.environ.get("RANK"))
print("ROCR_VISIBLE_DEVICES" in os.environ)
"""
    assert child(tmp_path, monkeypatch, program) == [{"step": 1}, {"step": 2}]
    _, pid, scratch, *passed = (tmp_path / "log" / "001.txt").read_text().split()
    assert passed == ["None", "False"]  # this process's rank would confuse verl's workers
    assert not Path(scratch).exists()
    assert not alive(int(pid))


def test_a_driver_dies_with_its_launcher(tmp_path):
    program = """
import subprocess, sys
from pathlib import Path
from common.backends.verl import process
real, work = subprocess.Popen, Path(sys.argv[1])
subprocess.Popen = lambda _, **k: real(["sleep", "600"], **k)
list(process.launch(work / "verl.yaml", work, threads=1, keep_open=0))
"""
    launcher = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT)
    left = tmp_path / process.LEFT
    while not left.exists():  # it has looked at what it started
        assert launcher.poll() is None
        time.sleep(0.1)
    scratch = Path(json.loads(left.read_text())["scratch"])
    driver = process.marked(scratch)
    assert driver
    launcher.kill()
    launcher.wait()
    psutil.wait_procs(driver, timeout=60)
    assert process.marked(scratch) == []
    shutil.rmtree(scratch)


def test_a_failing_child_is_reported_with_its_last_lines_bounded(tmp_path, monkeypatch):
    program = """
for i in range(1000): print(i, "x" * 5000)
open(os.path.join(os.path.dirname(METRICS), "..", "fault.txt"), "w").write("no verdicts")
raise RuntimeError("the engine core died")
"""
    with pytest.raises(UserError, match="exit code 1") as error:
        child(tmp_path, monkeypatch, program)
    text = str(error.value)
    assert not isinstance(error.value, Fault)
    assert "the verifier failed: no verdicts" in text
    assert "error: RuntimeError: the engine core died" in text
    assert len(text) < 12_000
    assert str(tmp_path / "log" / "001.txt") in text


def test_a_verifier_that_was_late_is_a_fault_and_tried_again(tmp_path, monkeypatch):
    program = """
file = os.path.join(os.path.dirname(METRICS), "..", "fault.txt")
open(file, "w").write("Fault: verifier x cannot be started: did not start in time")
raise SystemExit(1)
"""
    with pytest.raises(Fault, match="did not start in time"):
        child(tmp_path, monkeypatch, program)


def test_files_that_fail_for_a_moment_end_no_run(tmp_path, monkeypatch):
    def stale(*_):
        raise UserError("cannot write: Stale file handle")

    monkeypatch.setattr(process, "write_json", stale)
    monkeypatch.setattr(process, "LOOK_S", 0.0)
    program = """
import time
open(METRICS, "w").write('{"step": 1}\\n')
time.sleep(1)
"""
    assert child(tmp_path, monkeypatch, program) == [{"step": 1}]


def test_launches_of_one_node_have_sockets_of_their_own(monkeypatch, tmp_path):
    """verl's own name is the same for all, and whoever comes later removes the other's."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    handle, found = "ipc:///tmp/rl-colocate-zmq-01000000-replica-0-rank-0.sock", set()
    for name in ("one", "two"):
        monkeypatch.setenv(sockets.MARK, f"somewhere/rlvr-{name}")
        found.add(sockets.own(handle))
    assert {Path(address.removeprefix("ipc://")).parent for address in found} == {tmp_path}
    assert len(found) == 2


BROKEN = {"raylet": ("Check failed: " + process.NO_AGENT, "lost"), "node": ("", process.NO_NODE)}


@pytest.mark.parametrize("part", BROKEN)
def test_ray_is_started_again_where_it_does_not_come_up(tmp_path, monkeypatch, part):
    """Our watch, or an actor that is missed, may end such a launch before Ray gives up."""
    raylet, error = BROKEN[part]
    program = f"""
logs = os.path.join(os.environ["TMPDIR"], "ray", "session_latest", "logs")
os.makedirs(logs)
open(os.path.join(logs, "raylet.out"), "w").write("{raylet}")
if "001" in METRICS:
    raise Exception("{error}. This could happen because")
open(METRICS, "w").write('{{"step": 1}}\\n')
"""
    assert child(tmp_path, monkeypatch, program) == [{"step": 1}]
    assert [file.parent.name for file in (tmp_path / "log").rglob("raylet.out")] == ["001.ray"]
    monkeypatch.setattr(process, "STARTS", 1)
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(UserError, match=error):
        child(tmp_path, monkeypatch, program)


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


def test_what_a_killed_launch_left_is_removed_by_the_next(tmp_path, monkeypatch):
    scratch, shared = tmp_path / "scratch", tmp_path / "segment"
    scratch.mkdir()
    shared.write_text("")
    mark = {**os.environ, process.MARK: str(scratch)}
    orphan = subprocess.Popen(["sleep", "600"], env=mark, start_new_session=True)
    noted = {"scratch": str(scratch), "shared": [str(shared)]}
    (tmp_path / process.LEFT).write_text(json.dumps(noted))
    child(tmp_path, monkeypatch, "print(1)")
    assert orphan.wait(10) == -signal.SIGKILL
    assert not scratch.exists()
    assert not shared.exists()
