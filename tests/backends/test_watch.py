import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import psutil
import pytest
from interrupted import Stopped
from launches import launched
from processes import alive
from refuses import refuses

from common import watch
from common.backends.verl import process
from common.backends.verl import progress as marks
from common.backends.verl.sockets import MARK
from common.errors import UserError
from common.watch import FIRST, GRACE_S, STALLED, SeenProcess, Watch
from slurm import ray_cluster

RAYLET = SeenProcess(1, 0.0, "raylet")
ACTOR = SeenProcess(2, 0.0, "ray::RewardLoopWorker")


def seen(*looks, stall_s: float = 1e9, **how) -> list[str | None]:
    """What a watch says to (time, parts, progress)."""
    watched = Watch(stall_s, **how)
    return [watched.look(alive, progress, now) for now, alive, progress in looks]


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (["/env/ray/core/src/ray/raylet/raylet", "--raylet_socket_name=x"], True),
        (["/env/ray/core/src/ray/gcs/gcs_server", "--log_dir=x"], True),
        (["ray::WorkerDict.actor_rollout_update"], True),
        (["VLLM::Worker_TP0"], True),
        (["ray::IDLE"], False),
        (["/usr/bin/python3", "-P", "-m", "common.verifiers.worker"], False),
        (["/usr/bin/python3", "-u", "/env/ray/_private/log_monitor.py"], False),
    ],
)
def test_what_must_live_as_long_as_the_run(words, needed):
    assert SeenProcess(1, 0.0, watch.name_of(words)).needed == needed


def steps(*times: float) -> list[float]:
    """Looks every five seconds up to each of `times`."""
    return [5.0 * i for i in range(int(times[-1] / 5) + 1)]


def test_a_part_that_dies_is_named_after_the_grace():
    looks = [(0.0, [RAYLET, ACTOR], 0), *((t, [RAYLET], t) for t in steps(GRACE_S + 5)[1:])]
    said = seen(*looks)
    assert said[:-1] == [None] * (len(said) - 1)
    assert said[-1].startswith("ray::RewardLoopWorker (pid 2) has died, 60 s ago")


def test_a_stopped_part_is_named_and_one_that_went_on_is_not():
    halted = SeenProcess(9, 0.0, "python3 -m common.verifiers.worker", stopped=True)
    stopped = [(t, [RAYLET, halted], t) for t in steps(GRACE_S)]
    assert "is stopped (SIGSTOP)" in seen(*stopped)[-1]
    went_on = [(t, [RAYLET, SeenProcess(9, 0.0, halted.name, t % 40 == 0)], t) for t in steps(300)]
    assert set(seen(*went_on)) == {None}


def test_without_progress_a_run_ends_after_the_limit_or_five_of_its_steps():
    looks = [(t, [RAYLET], "the same") for t in steps(130)]
    said = seen(*looks, stall_s=120, longest=1.0)
    assert [text is None for text in said] == [t < 120 for t, _, _ in looks]
    assert "no progress for 2.2 minutes" in said[-1]
    assert "raylet (pid 1)" in said[-1]
    assert seen(*looks, stall_s=120)[-1] is None  # before the first step there is more time
    assert seen(*looks, stall_s=120 / FIRST)[-1] is not None
    assert seen(*looks, stall_s=120, longest=50.0)[-1] is None
    assert seen(*looks, stall_s=120, longest=120 / STALLED)[-1] is not None
    assert set(seen(*((t, [RAYLET], t) for t in steps(500)), stall_s=120)) == {None}


def test_a_suspended_job_starts_to_count_again():
    """SLURM stops all processes of a job and lets them go on hours later."""
    halted = SeenProcess(2, 0.0, ACTOR.name, stopped=True)
    looks = [(0.0, [halted], 0), (5.0, [halted], 0), (7200.0, [halted], 0), (7205.0, [ACTOR], 0)]
    assert set(seen(*looks, stall_s=1800)) == {None}


def test_a_machine_too_busy_to_look_is_given_time_and_a_dead_part_is_still_found():
    """Looks that come every two minutes: SLURM's time slices, or more processes than cores."""
    late = [(120.0 * i, [RAYLET], "the same") for i in range(30)]
    assert set(seen(*late, stall_s=1800, longest=1.0)) == {None}
    often = [(5.0 * i, [RAYLET], "the same") for i in range(30 * 24)]
    assert "no progress" in seen(*often, stall_s=1800, longest=1.0)[-1]
    said = seen((0.0, [RAYLET, ACTOR], 0), *((now, [RAYLET], now) for now, *_ in late[1:]))
    assert "has died" in said[-1]


def test_a_run_that_ends_by_itself_names_what_died_first():
    """Ray ends a run that has lost its raylet, and says that an actor is unavailable."""
    storage = SeenProcess(7, 0.0, "ray::SimpleStorageUnit")
    watched = Watch(1e9)
    assert watched.had_died(0.0) is None
    for now, left in [(0.0, [RAYLET, ACTOR, storage]), (5.0, [ACTOR, storage]), (10.0, [storage])]:
        assert watched.look(left, now, now) is None
    assert watched.had_died(12.0) == "raylet (pid 1) had died 7 s before"


def test_progress_is_what_the_run_makes_and_the_log_only_before(tmp_path):
    work = tmp_path / "work"
    log, metrics = work / "log" / "001.txt", work / "log" / "001.jsonl"
    states = [marks.progress(work, log, metrics)]

    def changed() -> bool:
        states.append(marks.progress(work, log, metrics))
        return states[-1] != states[-2]

    log.parent.mkdir(parents=True)
    log.write_text("loading")
    assert changed()
    assert marks.progress(work, None, metrics) == states[0]  # nor after so many hours
    marks.beat(work)
    assert changed()
    log.write_text("loading and the same warning again")
    assert not changed()
    written = ["log/001.jsonl", "checkpoints/global_step_1/actor/x.pt", "validation/1.jsonl"]
    for name in (*written, "../checkpoints/.step-00050.tmp/model.safetensors"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x")
        assert changed()
        assert not changed()


def test_a_limit_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv(watch.MINUTES, "soon")
    with refuses("RLVR_STALL_MINUTES", "soon"):
        watch.stall_s()


# ---- with real processes


def started(program: str, *words: str, **environment: str) -> tuple[subprocess.Popen, list[int]]:
    """A Python program, and the numbers of processes that it prints first."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    return child, [int(word) for word in child.stdout.readline().split()]


NODE = """
import os, subprocess, sys, time
parts = [("a", "ray::WorkerDict"), ("a", "VLLM::EngineCore"), ("b", "ray::WorkerDict")]
def start(mark, name):
    marked = os.environ | {sys.argv[1]: mark}
    return subprocess.Popen(["bash", "-c", f"exec -a {name} sleep 600"], env=marked)
children = [start(mark, name) for mark, name in parts]
print(*[child.pid for child in children], flush=True)
while True: [child.poll() for child in children], time.sleep(0.05)
"""


def sleeps(pid: int) -> bool:
    """Whether it has become `sleep`, with its words and environment: Linux names a new program a
    moment before it has either."""
    process = psutil.Process(pid)
    return process.name() == "sleep" and bool(process.environ())


@pytest.mark.process
def test_a_node_of_several_launches_misses_what_died_alone():
    child, pids = started(NODE, MARK)
    try:
        while not all(map(sleeps, pids)):
            time.sleep(0.05)
        watches: dict[str, Watch] = {}
        assert ray_cluster.wrong_here(child.pid, watches, 0.0) is None
        assert sorted(watches) == ["a", "b"]
        for pid in pids[1:]:  # a part of a, and all of b, which has ended
            os.kill(pid, signal.SIGKILL)
            while alive(pid):
                time.sleep(0.05)
        said = [ray_cluster.wrong_here(child.pid, watches, t) for t in steps(5 + GRACE_S)[1:]]
        assert said[:-1] == [None] * (len(said) - 1)
        assert said[-1].startswith(f"VLLM::EngineCore (pid {pids[1]}) has died")
    finally:
        child.kill()
        child.wait()
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)


PARTS = """
import os, subprocess, sys, time
names = ["ray::WorkerDict", "VLLM::EngineCore", "ray::IDLE"]
children = [subprocess.Popen(["bash", "-c", f"exec -a {name} sleep 600"]) for name in names]
print(*[child.pid for child in children], flush=True)
time.sleep(600)
"""


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(watch, "GRACE_S", 1.0)
    monkeypatch.setattr(process, "LOOK_S", 0.1)


@pytest.mark.process
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("which", "number", "said"),
    [
        (1, signal.SIGKILL, "VLLM::EngineCore .* has died"),
        (2, signal.SIGSTOP, "ray::IDLE .* is stopped"),
    ],
)
def test_a_launch_ends_when_a_part_does(tmp_path, monkeypatch, which, number, said):
    log, ready, sent = tmp_path / "log" / "001.txt", [], []

    def strike(_):
        pids = [int(pid) for pid in log.read_text().split()]
        if len(pids) == 3 and {psutil.Process(pid).name() for pid in pids} == {"sleep"}:
            ready.append(time.monotonic())  # by its name; looked at between two of these calls
        if len(ready) == 3:
            sent.append(time.monotonic())
            os.kill(pids[which], number)

    with pytest.raises(UserError, match=said) as error:
        list(launched(tmp_path, monkeypatch, PARTS, strike))
    assert f"its log is {log}" in str(error.value)
    assert not any(alive(int(pid)) for pid in log.read_text().split())


@pytest.mark.process
@pytest.mark.usefixtures("impatient")
def test_a_launch_ends_where_nothing_moves_or_a_node_is_lost(tmp_path, monkeypatch):
    monkeypatch.setenv(watch.MINUTES, "0.02")
    with pytest.raises(UserError, match=r"no progress for .*running: ray::WorkerDict"):
        list(launched(tmp_path, monkeypatch, PARTS))
    monkeypatch.delenv(watch.MINUTES)
    (tmp_path / "lost").write_text("Ray has lost the node b")
    monkeypatch.setenv(process.LOST, str(tmp_path / "lost"))
    with pytest.raises(UserError, match="Ray has lost the node b"):
        list(launched(tmp_path, monkeypatch, PARTS))


@pytest.mark.process
@pytest.mark.usefixtures("impatient")
def test_ctrl_c_ends_all_at_once_wherever_it_comes(tmp_path, monkeypatch):
    log = tmp_path / "log" / "001.txt"

    def interrupted(_):
        if log.read_text():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(launched(tmp_path, monkeypatch, PARTS, interrupted))
    assert not (tmp_path / marks.STOP).exists()
    assert not any(alive(int(pid)) for pid in log.read_text().split())


@pytest.mark.process
@pytest.mark.usefixtures("impatient")
def test_a_launch_that_is_to_stop_asks_the_trainer_and_waits_for_it(tmp_path, monkeypatch):
    program = """
import time
from pathlib import Path
work = Path(METRICS).parents[1]
while not (work / "stop").exists(): time.sleep(0.05)
open(METRICS, "w").write('{"step": 2, "data": {"timing_s/step": 7}}\\n')
(work / "saved").touch()
"""
    asked, steps = [], deque()  # which keeps what came before the generator raised

    def on_step(longest):
        asked.append(longest)
        if len(asked) == 2:
            raise Stopped("the time limit")

    with pytest.raises(Stopped, match="the time limit"):
        steps.extend(line["step"] for line in launched(tmp_path, monkeypatch, program, on_step))
    assert list(steps) == [2]
    assert asked == [0.0, 0.0]
    assert Path(tmp_path / "saved").exists()
