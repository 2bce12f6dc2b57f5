import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from launches import launched
from processes import alive
from tiny import ROOT

from common.backends.verl import process, sockets
from common.errors import Fault, UserError

pytestmark = pytest.mark.process


def test_metrics_are_followed_and_nothing_survives(tmp_path, monkeypatch):
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "0")  # as SLURM sets it; verl refuses to start
    program = """
import subprocess, sys
open(METRICS, "w").write('{"step": 1}\\n{"step": 2}\\n{"st')
sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
print("sleeper", sleeper.pid, os.environ["TMPDIR"], os.environ.get("RANK"))
print("ROCR_VISIBLE_DEVICES" in os.environ)
"""
    assert list(launched(tmp_path, monkeypatch, program)) == [{"step": 1}, {"step": 2}]
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
        list(launched(tmp_path, monkeypatch, program))
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
        list(launched(tmp_path, monkeypatch, program))


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
    assert list(launched(tmp_path, monkeypatch, program)) == [{"step": 1}]


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
    assert list(launched(tmp_path, monkeypatch, program)) == [{"step": 1}]
    assert [file.parent.name for file in (tmp_path / "log").rglob("raylet.out")] == ["001.ray"]
    monkeypatch.setattr(process, "STARTS", 1)
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(UserError, match=error):
        list(launched(tmp_path, monkeypatch, program))


def test_what_a_killed_launch_left_is_removed_by_the_next(tmp_path, monkeypatch):
    scratch, shared = tmp_path / "scratch", tmp_path / "segment"
    scratch.mkdir()
    shared.write_text("")
    mark = {**os.environ, process.MARK: str(scratch)}
    orphan = subprocess.Popen(["sleep", "600"], env=mark, start_new_session=True)
    noted = {"scratch": str(scratch), "shared": [str(shared)]}
    (tmp_path / process.LEFT).write_text(json.dumps(noted))
    list(launched(tmp_path, monkeypatch, "print(1)"))
    assert orphan.wait(10) == -signal.SIGKILL
    assert not scratch.exists()
    assert not shared.exists()
