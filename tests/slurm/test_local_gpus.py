"""One machine without SLURM: GPUs are shared out, evaluations run beside each other, all end
together.

The GPUs are made up, and so is what a task does: `sitecustomize` puts a slurm.job into every child
that notes what it saw.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from processes import alive, until
from refuses import refuses
from tiny import ROOT

from common.sweeps.profiles import load_profile
from slurm.submit import visible_gpus

MADE_UP = """
import json, os, signal, sys, time, types
from dataclasses import dataclass, field
from pathlib import Path

AGAIN = 75

@dataclass(frozen=True)
class Task:
    key: str
    gpus: int
    folder: str
    signal_lead_s: int = 5

    def __call__(self):
        note = Path(self.folder) / "seen.json"
        signal.signal(signal.SIGUSR2, lambda *_: sys.exit(note.with_name("saved").write_text("")))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])  # slurm/start.py blocked it
        seen = {"gpus": os.environ["CUDA_VISIBLE_DEVICES"], "pid": os.getpid()}
        seen |= {"slurm": "SLURM_JOB_ID" in os.environ, "start": time.time()}
        note.write_text(json.dumps(seen))
        if self.key == "long":
            time.sleep(600)
        if self.key in "xyz":  # each waits for the others
            while not all((note.parents[1] / key / note.name).exists() for key in "xyz"):
                time.sleep(0.05)
        note.write_text(json.dumps(seen | {"end": time.time()}))
        if self.key == "bad":
            raise ValueError("it fails")
        if self.key == "again" and not (first := note.with_name("first")).exists():
            first.write_text(os.environ["CUDA_VISIBLE_DEVICES"])
            sys.exit(AGAIN)

sys.modules["slurm.job"] = module = types.ModuleType("slurm.job")
module.Task, module.AGAIN = Task, AGAIN
"""


def started(tmp_path, tasks: dict[str, int], gpus: list[str], needs=None, follows=None):
    """A scheduler in a process of its own, with tasks {key: number of GPUs}."""
    (tmp_path / "made_up").mkdir()
    (tmp_path / "made_up" / "sitecustomize.py").write_text(MADE_UP)
    empty = {key: [] for key in tasks}
    told = {"tasks": [{"key": k, "gpus": g, "folder": str(tmp_path / k)} for k, g in tasks.items()]}
    told |= {"needs": empty | (needs or {}), "follows": empty | (follows or {}), "gpus": gpus}
    (tmp_path / "tasks.json").write_text(json.dumps(told))
    return subprocess.Popen(
        [sys.executable, "-m", "slurm.local_gpus", str(tmp_path / "tasks.json")],
        env=os.environ | {"PYTHONPATH": f"{tmp_path / 'made_up'}:{ROOT}", "SLURM_JOB_ID": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def seen(tmp_path, key: str) -> dict:
    return json.loads((tmp_path / key / "seen.json").read_text())


@pytest.mark.process
def test_tasks_share_the_gpus_and_a_failure_stops_what_needs_it_alone(tmp_path):
    """A training has all GPUs, and its evaluations one each, at the same time. A task that asks for
    another try has it on the same GPUs."""
    tasks = {"train": 3, "x": 1, "y": 1, "z": 1, "bad": 2, "of_bad": 1, "again": 2, "compare": 0}
    needs = {key: ["train"] for key in "xyz"} | {"of_bad": ["bad"]}
    follows = {"bad": [*"xyz"], "again": ["bad"], "compare": [*tasks][:-1]}
    scheduler = started(tmp_path, tasks, ["4", "7", "8"], needs, follows)
    assert json.loads(scheduler.communicate(timeout=120)[0]) == ["bad", "of_bad"]
    found = {key: seen(tmp_path, key) for key in tasks if key != "of_bad"}
    assert found["train"]["gpus"] == "4,7,8"
    assert sorted(found[key]["gpus"] for key in "xyz") == ["4", "7", "8"]
    assert found["compare"]["gpus"] == ""
    assert not any(one["slurm"] for one in found.values())
    starts, ends = ([found[key][when] for key in "xyz"] for when in ("start", "end"))
    assert found["train"]["end"] < min(starts) < max(starts) < min(ends)
    assert (tmp_path / "again" / "first").read_text() == found["again"]["gpus"] == "4,7"
    assert found["compare"]["start"] > max(found["again"]["end"], *ends)
    assert "it fails" in (tmp_path / "bad" / "log.err").read_text()
    assert not (tmp_path / "of_bad" / "seen.json").exists()
    last = json.loads((tmp_path / "of_bad" / "attempts.jsonl").read_text().splitlines()[-1])
    assert last["how"] == "not run, it needs bad"


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2, signal.SIGKILL])
def test_what_ends_the_box_ends_its_tasks(tmp_path, number):
    scheduler = started(tmp_path, {"long": 1, "other": 1}, ["0", "1"])
    note = tmp_path / "long" / "seen.json"
    until(lambda: note.exists() and note.read_text())
    child = seen(tmp_path, "long")["pid"]
    scheduler.send_signal(number)
    assert scheduler.wait(timeout=60) == (1 if number != signal.SIGKILL else -signal.SIGKILL)
    scheduler.stdout.close()
    until(lambda: not alive(child))
    assert (tmp_path / "long" / "saved").exists() == (number != signal.SIGKILL)


def test_the_gpus_are_those_that_the_user_shows(monkeypatch):
    profile = load_profile("local-8x80")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1,GPU-8a")
    assert visible_gpus(replace(profile, gpus_per_node=2)) == ["3", "1"]
    with refuses("gpus_per_node", "8"):
        visible_gpus(profile)
    assert visible_gpus(load_profile("local")) == []
