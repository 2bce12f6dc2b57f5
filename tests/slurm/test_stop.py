import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from lab import SETS
from tiny import ROOT

from common.backends import run_experiment
from common.results.files import write, write_json
from common.sweeps.plan import Sweep, evaluations_of
from common.sweeps.profiles import load_profile
from slurm import job, plan, records, status, stop
from slurm.attempts import attempts
from slurm.script import parameters

# ---- what SLURM says


DISABLED = "sacct: error: Slurm accounting storage is disabled"


def commands(folder, monkeypatch, **scripts):
    """These shell scripts are all the commands that there are."""
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize("accounting", ["fails", "is not there"])
def test_without_accounting_the_queue_and_our_own_records_tell(tmp_path, monkeypatch, accounting):
    """Each job but the first has left the queue."""
    there, bin = tmp_path / "f_grpo" / "cluster" / "1", tmp_path / "bin"
    bin.mkdir()
    scripts = {"sbatch": "exit 0", "squeue": "echo '7_0|RUNNING|None'"}
    if accounting == "fails":
        scripts["sacct"] = f"echo '{DISABLED}' >&2; exit 1"
    commands(bin, monkeypatch, **scripts)
    start = {"start": 1.0, "step": 0, "node": "n", "job": ""}
    written = {
        "runs": [start],
        "lost": [start],
        "failed": [start, {"end": 2.0, "how": "failed: no space left"}],
        "empty": [start, {"end": 2.0, "how": "done"}],
        "never": [],
        "done": [start, {"end": 2.0, "how": "done"}],
    }
    alike = {"kind": "train", "predicted": None, "steps": 9, "log": str(tmp_path / "none")}
    rows = [{"key": key, "job_id": f"7_{i}", **alike} for i, key in enumerate(written)]
    write_json(there / "jobs.json", rows)
    for key, lines in written.items():
        own = there / "runs" / key / "attempts.jsonl"
        write(own, "".join(json.dumps(line) + "\n" for line in lines))
    write(tmp_path / "f_grpo" / "done" / "DONE", "{}")
    found = {one.key: (one.state, one.detail) for one in status.statuses(tmp_path, "f_grpo")}
    assert found["runs"] == ("running", "None")
    assert found["done"] == ("done", "")
    assert found["failed"] == ("failed", "failed: no space left")
    assert found["empty"] == ("failed", "ended without a result")
    assert found["lost"][0] == found["never"][0] == "gone"
    why = DISABLED if accounting == "fails" else "sacct not found"
    assert why in found["never"][1]


def test_a_log_is_cut_and_harmless(tmp_path):
    log = tmp_path / "x.err"
    log.write_bytes(b"first\n" * 100 + b"\x1b[31mred\x00\xff" + b"x" * 1000 + b"\nlast\n")
    lines = status.tail(log)
    assert lines[0] == str(log)
    assert lines[-1] == "last"
    assert len(lines) == 1 + status.TAIL
    assert max(map(len, lines[1:])) == 200
    assert "\x1b" not in "".join(lines)
    assert "was never written" in status.tail(tmp_path / "none.err")[0]


# ---- signals and the clock


def test_the_clock_stops_before_the_limit_and_leaves_room_for_a_step(monkeypatch):
    now = time.time()
    assert not stop.Stop(None, 10).poll()
    assert not stop.Stop(now + 100, 10).poll()
    late = stop.Stop(now + 5, 10)
    assert late.poll()
    assert late.requeue
    slow = stop.Stop(now + 100, 10)
    monkeypatch.setattr(time, "time", lambda: now + 60)  # one step took a minute: 40 s are left
    assert slow.poll()


def test_while_a_step_runs_the_longest_counts_and_the_alarm_stays(monkeypatch):
    """verl's: asked a few times a second, and its trainer has yet to save."""
    now = time.time()
    one = stop.Stop(now + 100, 10)
    for _ in range(3):
        one.between_steps(40.0)
    with pytest.raises(stop.Stopped, match="the clock"):
        one.between_steps(60.0)
    asked = []
    monkeypatch.setattr(signal, "setitimer", lambda *given: asked.append(given))
    with pytest.raises(stop.Stopped):
        one.between_steps(60.0)
    assert asked == []
    with pytest.raises(stop.Stopped):
        one.between_steps()
    assert asked == [(signal.ITIMER_REAL, 0)]


SIGNALLED = """
import os, signal, subprocess, sys, threading, time
from slurm.stop import Stop, Stopped
stop = Stop(None, 10)
stop.listen(polled=sys.argv[2] == "polled")
child = subprocess.Popen(["sleep", "60"])
before = stop.poll()
if sys.argv[3:]:
    pid = os.getpid()
    again = f"(while sleep 1.5; do kill -CONT {pid} || exit; done) &"
    subprocess.run(["sh", "-c", f"{again} kill -STOP {pid}"])
os.killpg(0, int(sys.argv[1]))  # as SLURM does: every process of the step
try:
    while not stop.reason:
        time.sleep(0.05)
    stop.closed = True
    # until what listens has done all that the signal asks for, or, where nothing does, ends this
    while threading.active_count() > 1 or sys.argv[2] != "polled":
        time.sleep(0.05)
    timer = signal.getitimer(signal.ITIMER_REAL)[0] > 5
    print(before, stop.poll(), stop.requeue, child.poll(), timer)
except Stopped as stopped:
    print(stopped)
finally:
    child.kill()
"""


@pytest.mark.parametrize(
    ("number", "how", "said"),
    [
        (signal.SIGUSR2, ["polled"], "False True True None True"),  # the child lives; alarm is set
        (signal.SIGUSR2, ["polled", "suspended before"], "False True True None True"),
        (signal.SIGTERM, ["polled"], "False True False None False"),
        (signal.SIGUSR2, ["compare"], "USR2: time limit or preemption; no checkpoint in time"),
    ],
)
def test_what_a_signal_asks_for(number, how, said):
    words = [sys.executable, "-c", SIGNALLED, str(int(number)), *how]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=60, start_new_session=True
    )
    assert done.stdout.startswith(said), done.stderr


ENDS = """
import ctypes, signal, sys
from slurm.stop import Stop
stop = Stop(None, 10)
stop.listen(polled=sys.argv[1] == "polled")
libc = ctypes.CDLL(None)  # as it exits, and Python has given back its handlers: kill(0, signal)
libc.on_exit(ctypes.cast(libc.kill, ctypes.c_void_p), ctypes.c_void_p(int(sys.argv[2])))
stop.close()
"""


@pytest.mark.parametrize("number", [signal.SIGUSR2, signal.SIGTERM])
@pytest.mark.parametrize("how", ["polled", "compare"])
def test_a_signal_after_its_end_makes_no_finished_job_a_failed_one(how, number):
    words = [sys.executable, "-c", ENDS, how, str(int(number))]
    done = subprocess.run(words, cwd=ROOT, timeout=60, start_new_session=True)
    assert done.returncode == 0


DIES = """
import os, signal, sys
from slurm.job import Task

class Dies(Task):
    def _run(self, x, stop):
        os.kill(os.getpid(), signal.SIGTERM)
        raise RuntimeError("a child died")

Dies("compare", "key", "f_grpo", sys.argv[1], None, sys.argv[2], 60, 10, 1, 1)()
"""


def test_a_job_whose_child_died_of_the_signal_has_not_failed(tmp_path):
    words = [sys.executable, "-c", DIES, str(tmp_path), str(tmp_path / "job")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "RuntimeError: a child died" in done.stderr
    said = "stopped: TERM: preempted or cancelled: a child died"
    assert [row.get("how") for row in attempts(tmp_path / "job")] == [None, said]


class AfterOneStep(stop.Stop):
    """Lets one step pass, then asks for a stop."""

    asked = -1

    def poll(self, longest=None) -> bool:
        self.asked += 1
        return self.asked == 1


def test_a_stopped_job_goes_on_with_the_first_benchmark_that_is_not_complete(
    one, tmp_path, monkeypatch
):
    """Each attempt draws one chunk; there are two of each benchmark."""
    x = replace(one, optim=replace(one.optim, steps=0))
    run_experiment(x, progress=False)
    sets = {name: [*words, "eval.prompts.size=2", "batch=8"] for name, words in SETS.items()}
    (made,) = (
        made
        for made in plan.plan(
            [x], evaluations_of([x], Sweep("t", [], [], [], benchmarks=sets, n=8))
        )
        if made.kind == "evaluate"
    )
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(asdict(made.config)))
    given = (made.kind, made.key, x.paper, x.results_dir, str(tmp_path / "suite.yaml"))
    task = job.Task(*given, str(tmp_path / "job"), 9, 9, 1, 0, made.makes)
    monkeypatch.setattr(job, "Stop", AfterOneStep)
    monkeypatch.setattr(AfterOneStep, "listen", lambda *_, **__: None)
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    there = []
    for _ in range(3):
        with pytest.raises(SystemExit):
            task()
        there.append(status.made(Path(x.results_dir), x.paper, made))
    assert there == [(), made.makes[:1], made.makes[:1]]
    task()
    assert status.made(Path(x.results_dir), x.paper, made) == made.makes
    rows = attempts(tmp_path / "job")
    assert [row["step"] for row in rows if "start" in row] == [0, 1, 2, 3]  # chunks of both


BOTH = "requeue 7_1\nupdate JobId=7_1 ExcNodeList=n1,n2\n"
EARLY = """
import os, signal, sys

class Signalled:
    def find_spec(self, name, *_):
        if name == "slurm.retry":
            os.kill(os.getpid(), signal.SIGUSR2)

sys.meta_path.insert(0, Signalled())
"""


@pytest.mark.process
def test_an_element_of_an_array_that_is_stopped_while_it_imports_comes_back(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(EARLY)
    given = ("f_grpo", str(tmp_path), None)
    tasks = [
        job.Task("compare", key, *given, str(tmp_path / key), 60, 10, 1, 0) for key in ("a", "b")
    ]
    file = records.write_tasks(tmp_path / "tasks.json", tasks)
    env = {
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "SLURM_JOB_ID": "8",
        "SLURM_ARRAY_JOB_ID": "7",
        "SLURM_ARRAY_TASK_ID": "1",
    }
    words = [sys.executable, "-m", "slurm.start", str(file), "-u", "-m", "submitit.core._submit"]
    done = subprocess.run(words, env=os.environ | env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert attempts(tmp_path / "a") == []
    assert attempts(tmp_path / "b")[-1]["how"].startswith("stopped: USR2")
    assert (tmp_path / "again-7_1").read_text() == ""  # the batch script sees it


@pytest.mark.process
@pytest.mark.parametrize(("again", "told"), [(None, ""), ("", "requeue 7_1\n"), ("n1,n2", BOTH)])
def test_the_batch_script_puts_back_what_asks_for_it(tmp_path, again, told):
    """With no SLURM in the container: the script itself runs outside."""
    for name, does in (("scontrol", f'echo "$@" >> {tmp_path}/told'), ("squeue", "echo soon")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "told").write_text("")
    (tmp_path / "runs").mkdir()
    given = parameters([plan.Job("compare", "x", None)], tmp_path, load_profile("test"), None)
    file = tmp_path / "runs" / "again-7_1"
    file.write_text("left by a killed attempt")
    asks = "" if again is None else f"printf %s '{again}' > {file}; "
    ends = f"{asks}test ${stop.END} = soon && (exit 3)"
    lines = [*given["setup"], ends, *given["teardown"]]
    env = {"SLURM_JOB_ID": "8", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1"}
    env |= {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", "\n".join(lines)], env=env)
    assert done.returncode == 3
    assert (tmp_path / "told").read_text() == told
    assert [*(tmp_path / "runs").iterdir()] == []
    lines[-1] = "true"
    env["PATH"] = "/usr/sbin-without-slurm"
    done = subprocess.run(["/bin/bash", "-c", "\n".join(lines)], env=env, capture_output=True)
    assert (done.returncode, b"scontrol=" in done.stderr) == (1, True)
