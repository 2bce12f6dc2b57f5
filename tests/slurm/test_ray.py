"""A Ray cluster over the two tasks that a real srun starts. Needs the environment of verl."""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import one_machine
import pytest
from tiny import ROOT

from common.errors import UserError
from common.results.files import write
from slurm import ray_cluster

PROGRAM = """
import os, signal, subprocess, sys, threading, time
from pathlib import Path
import psutil
from common.backends.verl import process
from common.errors import UserError
from slurm import ray_cluster
folder = Path(sys.argv[1])
def lose():
    while not (folder / "strike").exists():
        time.sleep(0.1)
    for part in psutil.Process().children(recursive=True):
        if part.name() == "raylet":
            part.kill()
if os.environ["SLURM_PROCID"] == "0":
    with ray_cluster.head(folder, 2, 4):
        # as verl joins it: a process of its own, in the environment that a launch makes
        made = process.environment(folder, folder / "metrics", 1)
        done = subprocess.run([sys.executable, "-c", sys.argv[2]], env=made)
        assert done.returncode == 0
        (folder / "strike").touch()
        began = time.monotonic()
        while not process._lost_node() and time.monotonic() < began + 60:
            time.sleep(0.1)
        print(process._lost_node(), f"after {time.monotonic() - began:.1f} s", flush=True)
else:
    threading.Thread(target=lose, daemon=True).start()
    try:
        ray_cluster.work(folder, 4)
    except UserError as error:
        print(error, flush=True)
"""
DRIVER = """
import os
import ray
ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)
total = ray.cluster_resources()
alive = sum(node["Alive"] for node in ray.nodes())
print("nodes", alive, "CPU", total["CPU"], "GPU", total["GPU"], flush=True)
ray.shutdown()
"""


def test_two_nodes_join_one_is_missed_and_nothing_is_left(slurm, tmp_path):
    if find_spec("ray") is None:
        pytest.skip("ray is not installed: make setup-cluster-cpu, and run this from .venv-cluster")
    before = set(Path(tempfile.gettempdir()).glob("ray-*"))
    words = ["-A", "lab", "-N2", "--ntasks-per-node=1", "--cpus-per-task=3", "--gpus-per-node=4"]
    logs = [f"--{name}={tmp_path}/%t.log" for name in ("output", "error")]
    program = [sys.executable, "-c", PROGRAM, str(tmp_path / "ray"), DRIVER]
    done = subprocess.run(
        ["srun", *words, *logs, *program], env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=1000
    )
    said = (tmp_path / "0.log").read_text()
    assert done.returncode == 0, said[-3000:]
    assert "nodes 2 CPU 6.0 GPU 8.0" in said
    assert "its Ray has ended" in said
    assert "ray ended with" in (tmp_path / "1.log").read_text()
    assert set(Path(tempfile.gettempdir()).glob("ray-*")) <= before
    names = {one_machine.name(pid) for pid in one_machine.processes(slurm)}
    assert not names & {"raylet", "gcs_server"}


@pytest.fixture
def no_ray(tmp_path, monkeypatch):
    """A `ray` that ends at once when started, and whose status never answers."""
    script = tmp_path / "ray"
    script.write_text(
        f'#!/bin/sh\necho "$1$SPT_NOENV" >> {tmp_path}/calls\n[ "$1" = start ] || exec sleep 3600\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(ray_cluster, "PROGRAM", str(script))
    monkeypatch.setattr(ray_cluster, "STATUS_S", 1)
    scratch = tmp_path / "head"
    write(scratch / "session_latest" / "logs" / "raylet.err", "x")
    monkeypatch.setattr(ray_cluster.tempfile, "mkdtemp", lambda **_: str(scratch))
    return tmp_path


def test_a_head_that_dies_is_started_again_and_then_given_up(no_ray):
    """`ray status` alone would wait for it for ever."""
    cluster = ray_cluster.head(no_ray / "shared", 2, 4)
    with pytest.raises(UserError, match="ray ended with 0 while waiting for the head"), cluster:
        raise AssertionError("there is no cluster")
    assert (no_ray / "calls").read_text().split().count("start1") == ray_cluster.TRIES
    assert (no_ray / "shared" / "done").exists()  # or the workers would wait
    assert [log.name for log in (no_ray / "shared").glob("*.ray/*")] == ["raylet.err"]
    assert "RAY_ADDRESS" not in os.environ
