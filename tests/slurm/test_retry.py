import errno
import math
from pathlib import Path

import pytest

from common.backends.verl import eased, process
from common.backends.verl.checkpoints import LATEST, drop_old
from common.backends.verl.layout import OFFLOAD, PART
from common.backends.verl.tuning import ACTOR, PASS, ROLLOUT
from common.errors import Fault, UserError
from common.results.files import write
from slurm import job, stop
from slurm.attempts import attempts
from slurm.retry import MOST, STUCK, BadNodes, after
from slurm.stop import Stopped


class OutOfMemory(Fault):
    eased = True


IDLE, WELL, TRIED = {"how": "x", "idle": True}, {"how": "x"}, {"how": "x", "again": True}
USER, CUDA = UserError("optim.lr=9"), RuntimeError("CUDA error: an illegal memory access")
GONE = {"stopped": True, "returns": True, "preempted": True}
LIMIT = {"stopped": True, "returns": True}


@pytest.mark.parametrize(
    ("error", "steps", "earlier", "how", "expected"),  # steps: began, saved, reached
    [
        (Fault("x"), (2, 4, 4), [], {}, "back again"),
        (CUDA, (2, 4, 4), (MOST - 1) * [TRIED], {}, "back again"),
        (Fault("x"), (2, 4, 4), MOST * [TRIED], {}, ""),
        (USER, (2, 4, 4), [], {}, ""),
        (KeyboardInterrupt(), (2, 4, 4), [], {}, ""),
        # no checkpoint since its start: settings that have worked may meet a fault early, too
        (Fault("x"), (2, 2, 3), [WELL, IDLE], {}, "back again idle"),
        (Fault("x"), (2, 2, 3), [IDLE, IDLE], {}, "stuck idle"),
        (Fault("x"), (2, 2, 3), [IDLE, WELL, IDLE], {}, "back again idle"),
        (Fault("x"), (0, 0, 3), [], {}, "back again idle"),
        (Fault("x"), (0, 0, 3), [{"start": 1.0, "step": 0}, IDLE], {}, "stuck idle"),
        (OutOfMemory("x"), (0, 0, 0), [TRIED, TRIED], {}, "back again"),
        (OutOfMemory("x"), (0, 0, 0), MOST * [TRIED], {}, ""),
        # stopped and lost
        (Stopped("x"), (2, 4, 4), MOST * [TRIED], LIMIT, "back"),
        (Stopped("x"), (2, 4, 4), [], {"stopped": True}, ""),
        (Stopped("x"), (2, 2, 3), [IDLE], LIMIT, "back idle"),
        (Stopped("x"), (2, 2, 3), [IDLE, IDLE], LIMIT, "stuck idle"),
        (Stopped("x"), (2, 2, 3), [IDLE, IDLE], GONE, "back"),
        (Stopped("x"), (2, 2, 2), [IDLE, IDLE], GONE, "stuck idle"),
        (Fault("x"), (2, 2, 3), [IDLE, IDLE], GONE, "back"),
        (CUDA, (2, 4, 4), [], {"stopped": True}, ""),
        (USER, (0, 0, 0), [IDLE], {"lost": "2 nodes"}, "back idle"),
        (USER, (0, 0, 0), [IDLE, IDLE], {"lost": "2 nodes"}, "stuck idle"),
    ],
)
def test_what_is_tried_again(error, steps, earlier, how, expected):
    began, saved, reached = steps
    rows = [*earlier, {"start": 1.0, "step": began}]
    then = after(error, rows, saved=saved, reached=reached, **how)
    said = {name for name in ("back", "again", "stuck", "idle") if getattr(then, name)}
    assert said == {*expected.split()}


@pytest.mark.parametrize(
    ("error", "node", "lost", "expected"),
    [
        (CUDA, "n1", "", ("n1",)),
        (RuntimeError("CUDA error: device-side assert triggered"), "n1", "", ()),  # a bad index
        (CUDA, "", "", ()),  # which of them was it?
        (RuntimeError("CUDA error: out of memory"), "n1", "", ()),
        (BadNodes("GPU 1=41.2", ("n2", "n3")), "", "", ("n2", "n3")),
        (USER, "", "node=n4: raylet (pid 7) has died", ("n4",)),
        (USER, "", "Ray has lost a node: 1 of 2 nodes answer", ()),
        (UserError("CUDA error: x"), "n1", "", ()),  # it does not come back
    ],
)
def test_a_bad_node_is_avoided(error, node, lost, expected):
    rows, far = [{"start": 1.0, "step": 2}], {"saved": 4, "reached": 4}
    assert after(error, rows, **far, node=node, lost=lost).avoid == expected


SINFO = "n1|mix|gpu:8|h100\nn2|idle|gpu:8|h100\nn3|down*|gpu:8|h100\nn4|idle|gpu:8|a100"


@pytest.mark.parametrize(
    ("avoid", "asked", "expected"),
    [
        (["n1"], "1|low|", "n1"),
        (["n1"], "2|low|", ""),  # only n2 is left
        (["n1", "n2"], "1|low|", ""),  # n3 is down and n4 has other GPUs
        (["n1"], "1|low|n[4-5]", "n1,n4,n5"),
        (["n1"], "", ""),
        ([], "1|low|n4", ""),
    ],
)
def test_as_many_nodes_as_a_job_takes_are_never_excluded(monkeypatch, avoid, asked, expected):
    said = {"squeue": asked + "\n", "scontrol": "n4\nn5\n", "sinfo": SINFO}
    monkeypatch.setattr(stop, "_output", lambda program, *_: said[program])
    assert stop._excluded("7", {*avoid}) == expected


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
    monkeypatch.setattr(job, "requeue", lambda _, key, avoid: requeued.append((key, *avoid)))
    full = full_disk(tmp_path / "x", monkeypatch)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    ends = [(2, CUDA), (4, full), *STUCK * [(4, full)], (6, None)]
    one = Scripted(tmp_path, monkeypatch, *ends)
    for count in (1, 2, 3, 4, 4):  # the disk is still full: it ends there
        with pytest.raises((RuntimeError, UserError)):
            one.task()
        assert requeued == [("7", "n1"), *3 * [("7",)]][:count]
    assert one.task() == "done"
    rows = attempts(tmp_path / "job")
    assert [row["step"] for row in rows if "start" in row] == [0, 2, 4, 4, 4, 4]
    again = [row.get("again", False) for row in rows if "how" in row]
    assert again == [True, True, True, True, False, False]


def test_a_job_that_has_lost_a_node_goes_back_into_the_queue_a_few_times(tmp_path, monkeypatch):
    requeued = []
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(job, "requeue", lambda _, key, avoid: requeued.append((key, *avoid)))
    write(tmp_path / "job" / "ray-7-0" / "lost", "node=b: its Ray has ended")
    lost = UserError("backend=verl: node=b: its Ray has ended")
    one = Scripted(tmp_path, monkeypatch, *[(0, lost)] * STUCK)
    for _ in range(STUCK - 1):
        with pytest.raises(UserError, match="node=b: its Ray"):
            one.task()
    with pytest.raises(UserError, match=f"key: the last {STUCK} attempts"):
        one.task()
    assert requeued == [("7", "b")] * (STUCK - 1)


def test_without_slurm_the_task_asks_for_another_try(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    one = Scripted(tmp_path, monkeypatch, (2, Fault("NCCL")), (2, UserError("optim.lr=9")))
    with pytest.raises(SystemExit) as ended:
        one.task()
    assert ended.value.code == job.AGAIN
    with pytest.raises(UserError):
        one.task()
    assert one.hows() == ["failed: NCCL", "failed: optim.lr=9"]


def test_no_job_waits_for_a_lock_where_files_cannot_be_locked(tmp_path, monkeypatch):
    """As on Lustre without `-o flock`: the check of the node says so."""

    def flock(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", flock)
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits"))
    (tmp_path / ".lock").touch()
    job._wait_for_lock(tmp_path / ".lock")


# ---- what verl's next start finds


def test_only_the_latest_of_six_checkpoints_stays(tmp_path):
    for step in range(1, 7):  # 5 and 6 were cut short
        write(tmp_path / "checkpoints" / f"global_step_{step}" / "actor" / "model.pt", "x")
    write(tmp_path / "checkpoints" / LATEST, "4")
    drop_old(tmp_path)
    left = [path.name for path in (tmp_path / "checkpoints").glob("global_step_*")]
    assert left == ["global_step_4"]
    drop_old(tmp_path / "none")


def test_passes_get_shorter_until_they_hold_one_response_and_then_states_move(tmp_path):
    logs, report = f"{ROLLOUT}.log_prob_max_token_len_per_gpu", "x\ntorch.OutOfMemoryError: y"
    whole = {PASS: 16_384, logs: 65_536, "other": 1, PART: 0.6}
    seen, settings = [], whole
    for told in (report, "NCCL timed out", report, report, report):
        seen.append(eased.note(tmp_path, told, settings, 5000))
        settings = whole | eased.shortened(whole, tmp_path, 5000)
        seen.append(settings[PASS])
    assert seen == [True, 8192, False, 8192, True, 5000, True, 5000, False, 5000]
    assert settings[logs] == 16_384
    assert settings[f"{OFFLOAD}.param_offload"] is settings[f"{OFFLOAD}.optimizer_offload"] is True


def test_a_vllm_that_cannot_wake_gets_a_smaller_share(tmp_path):
    woken = "CUDA Error: out of memory at /x/csrc/cumem_allocator.cpp:62"
    whole, shares = {PASS: 16_384, PART: 0.6}, []
    settings = whole
    while eased.note(tmp_path, woken, settings, 5000):
        settings = whole | eased.shortened(whole, tmp_path, 5000)
        shares.append(settings[PART])
    assert shares == [0.5, 0.4, 0.3]
    assert settings[PASS] == 16_384


def test_main_memory_that_ran_out_shortens_no_pass(tmp_path):
    told = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory"
    assert not eased.note(tmp_path, told, {PASS: 16_384, PART: 0.6}, 5000)
    assert eased.shortened({PASS: 16_384}, tmp_path, 5000) == {PASS: 16_384}
    log = tmp_path / "1.txt"
    log.write_text(told)
    assert "memory_gb" in process.report("x", log, tmp_path / "none")


def test_the_shortest_pass_holds_one_response(big):
    packed = {f"{ACTOR}.use_dynamic_bsz": True}
    assert eased.shortest(big, packed, 1000, 131_072) == 4000
    assert eased.shortest(big, packed, 1000, 3500) == 3500
    split = packed | {f"{ACTOR}.ulysses_sequence_parallel_size": 8}
    assert eased.shortest(big, split, 1001, 131_072) == 501
    on_cpu = {f"{ACTOR}.use_dynamic_bsz": False}
    assert eased.shortest(big, on_cpu, 1000, 131_072) == math.inf
