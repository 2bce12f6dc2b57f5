"""Nodes and profiles that will not do, on a real SLURM."""

import os
import subprocess
import sys

import pytest
from tiny import ROOT

NO_FLOCK = """
import errno, fcntl
def flock(*_):
    raise OSError(errno.ENOTSUP, "Operation not supported")
fcntl.flock = flock
"""


@pytest.fixture
def no_flock(tmp_path, monkeypatch):
    """Jobs that are submitted now can lock no file, as on Lustre without `-o flock`."""
    (tmp_path / "sitecustomize.py").write_text(NO_FLOCK)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ['PYTHONPATH']}")


def test_a_node_says_everything_that_it_lacks(slurm, tmp_path, no_flock):
    given = ["-A", "lab", "--gres=gpu:1", "--cpus-per-task=5"]
    asked = [sys.executable, "-m", "rlvr_papers", "preflight", "device=cuda", f"folder={tmp_path}"]
    done = subprocess.run(
        ["srun", *given, *asked], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 2, done.stderr
    for problem in ("cpus=5: verl reserves 6", "flock=Operation not supported", "triton="):
        assert problem in done.stderr


def test_a_job_that_can_lock_nothing_ends_at_once_and_says_so(lab, no_flock):
    """A resumed one too: it must not wait a quarter of an hour for a lock that nobody holds."""
    (run,) = lab.runs(1)
    place = lab.root / lab.paper / run.run_id
    place.mkdir(parents=True)
    (place / ".lock").touch()
    lab.submit([run])
    assert lab.settled(600)[run.run_id].state == "failed"
    (ended,) = [row["how"] for row in lab.attempts(run) if "how" in row]
    assert "results_dir=" in ended
    assert "cannot be locked" in lab.show()
