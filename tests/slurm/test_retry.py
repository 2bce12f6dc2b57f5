"""Which failed jobs are tried again, and from where."""

import errno
import math
from pathlib import Path

import pytest

from common.backends.verl import eased
from common.backends.verl.checkpoints import LATEST, drop_old
from common.backends.verl.tuning import ACTOR, PASS, ROLLOUT
from common.errors import Fault, UserError
from common.results.files import write
from slurm import job
from slurm.attempts import attempts
from slurm.retry import MOST, again


class OutOfMemory(Fault):
    eased = True


@pytest.mark.parametrize(
    ("error", "saved", "tried", "expected"),
    [
        (Fault("NCCL"), 4, 0, True),
        (RuntimeError("CUDA error: an illegal memory access"), 4, MOST - 1, True),
        (Fault("NCCL"), 4, MOST, False),
        (Fault("NCCL"), 2, 0, False),  # no checkpoint since its start
        (OutOfMemory("smaller passes"), 2, 0, True),
        (OutOfMemory("smaller passes"), 2, MOST, False),
        (UserError("optim.lr=9: too high"), 4, 0, False),
        (KeyboardInterrupt(), 4, 0, False),
    ],
)
def test_what_is_tried_again(error, saved, tried, expected):
    assert again(error, began=2, saved=saved, tried=tried) is expected


class Scripted:
    """A task whose attempts save so far and then end so, one after another."""

    def __init__(self, folder, monkeypatch, *ends):
        self.folder, self.ends = folder, [*ends]
        monkeypatch.setattr(job.Stop, "listen", lambda *_, **__: None)
        monkeypatch.setattr(job, "deadline", lambda *_: None)
        monkeypatch.setattr(job.Task, "_run", self.run)
        given = ("train", "key", "f_grpo", str(folder), None, str(folder / "job"), 9, 9, 1, 1)
        self.task = job.Task(*given)

    def run(self, *_):
        saved, error = self.ends.pop(0)
        write(self.folder / "f_grpo" / "key" / "work" / "checkpoints" / LATEST, str(saved))
        if error is not None:
            raise error
        return "done"

    def hows(self) -> list[str]:
        return [row["how"] for row in attempts(self.folder / "job") if "how" in row]


def full_disk(path: Path, monkeypatch) -> UserError:
    """What writing raises there."""

    def fails(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fails)
        with pytest.raises(UserError) as caught:
            write(path, "x")
    return caught.value


def test_a_job_goes_back_into_the_queue_while_it_gets_further(tmp_path, monkeypatch):
    requeued = []
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(job, "requeue", requeued.append)
    full = full_disk(tmp_path / "x", monkeypatch)
    ends = [(2, RuntimeError("NCCL")), (4, full), (4, full), (6, None)]
    one = Scripted(tmp_path, monkeypatch, *ends)
    for step, count in ((2, 1), (4, 2), (4, 2)):  # the disk is still full: it ends there
        with pytest.raises((RuntimeError, UserError)):
            one.task()
        assert requeued == ["7"] * count, step
    assert one.task() == "done"
    rows = attempts(tmp_path / "job")
    assert [row["step"] for row in rows if "start" in row] == [0, 2, 4, 4]
    assert [row.get("again", False) for row in rows if "how" in row] == [True, True, False, False]


def test_a_job_that_has_lost_a_node_goes_back_into_the_queue_a_few_times(tmp_path, monkeypatch):
    requeued = []
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(job, "requeue", requeued.append)
    write(tmp_path / "job" / "ray-7-0" / "lost", "Ray has lost the node b")
    lost = UserError("backend=verl: Ray has lost the node b")
    one = Scripted(tmp_path, monkeypatch, *[(0, lost)] * job.STUCK)
    for _ in range(job.STUCK - 1):
        with pytest.raises(UserError, match="lost the node b"):
            one.task()
    with pytest.raises(UserError, match="3 attempts began at step 0"):
        one.task()
    assert requeued == ["7"] * (job.STUCK - 1)


def test_without_slurm_the_task_asks_for_another_try(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    one = Scripted(tmp_path, monkeypatch, (2, Fault("NCCL")), (2, Fault("NCCL")))
    with pytest.raises(SystemExit) as ended:
        one.task()
    assert ended.value.code == job.AGAIN
    with pytest.raises(Fault):
        one.task()
    assert one.hows() == ["failed: NCCL", "failed: NCCL"]


# ---- what verl's next start finds


def test_only_the_latest_of_six_checkpoints_stays(tmp_path):
    for step in range(1, 7):  # 5 and 6 were cut short
        write(tmp_path / "checkpoints" / f"global_step_{step}" / "actor" / "model.pt", "x")
    write(tmp_path / "checkpoints" / LATEST, "4")
    drop_old(tmp_path)
    left = [path.name for path in (tmp_path / "checkpoints").glob("global_step_*")]
    assert left == ["global_step_4"]
    drop_old(tmp_path / "none")


def test_passes_get_shorter_until_they_hold_one_response(tmp_path):
    logs, report = f"{ROLLOUT}.log_prob_max_token_len_per_gpu", "x\ntorch.OutOfMemoryError: y"
    settings, seen = {PASS: 16_384, logs: 65_536, "other": 1}, []
    for told in (report, "NCCL timed out", report, report):
        seen.append(eased.note(tmp_path, told, settings, 5000))
        settings |= eased.shortened({PASS: 16_384, logs: 65_536, "other": 1}, tmp_path, 5000)
        seen.append(settings[PASS])
    assert seen == [True, 8192, False, 8192, True, 5000, False, 5000]
    assert settings[logs] == 16_384


def test_the_shortest_pass_holds_one_response(big):
    packed = {f"{ACTOR}.use_dynamic_bsz": True}
    assert eased.shortest(big, packed, 1000, 131_072) == 4000
    assert eased.shortest(big, packed, 1000, 3500) == 3500
    split = packed | {f"{ACTOR}.ulysses_sequence_parallel_size": 8}
    assert eased.shortest(big, split, 1001, 131_072) == 501
    on_cpu = {f"{ACTOR}.use_dynamic_bsz": False}
    assert eased.shortest(big, on_cpu, 1000, 131_072) == math.inf
