"""Jobs side by side: which begins when and where; runs are all tried, failures are named, and no
worker outlives a killed parent."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from processes import alive, until
from tiny import ROOT

from common.errors import UserError
from common.sweeps.schedule import Scheduled, run_all, schedule

SLEEPERS = """
import time, os, sys
from pathlib import Path
from functools import partial
from common.sweeps.schedule import Scheduled, run_all

def sleep(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)

if __name__ == "__main__":
    run_all([Scheduled(name, call=partial(sleep, sys.argv[1])) for name in "ab"], workers=2)
"""


@pytest.mark.parametrize(
    ("jobs", "bad", "told"),
    [
        # two places: `wide` is not overtaken by `small`, and waits for both
        ({"a": {}, "wide": {"places": 2}, "small": {}}, "", ["a:0", "wide:01", "small:0"]),
        ({"a": {}, "b": {}, "c": {}}, "", ["a:0", "b:1", "c:0"]),
        # what waits is overtaken by what does not
        ({"a": {}, "of_a": {"needs": ["a"]}, "b": {}}, "", ["a:0", "b:1", "of_a:0"]),
        # a failure takes those along that need it, and lets those begin that follow
        (
            {
                "a": {},
                "of_a": {"needs": ["a"]},
                "of_that": {"needs": ["of_a"]},
                "last": {"follows": ["a", "of_that"]},
            },
            "a",
            ["a:0", "of_a lacks a", "of_that lacks of_a", "last:0"],
        ),
    ],
)
def test_the_order_and_the_places(jobs, bad, told):
    """The job that began first ends first."""
    seen, running = [], []

    def begin(job, places):
        seen.append(f"{job.key}:{''.join(places)}")
        running.append(job.key)

    def ended():
        key = running.pop(0)
        yield key, key != bad

    def lost(job, lacking):
        seen.append(f"{job.key} lacks {','.join(lacking)}")

    made = [Scheduled(key, **words) for key, words in jobs.items()]
    failed = schedule(made, ["0", "1"], begin, ended, lost)
    assert seen == told
    assert failed == [key for key in jobs if key == bad or f"{key} lacks" in " ".join(told)]


def note(folder: str, name: str) -> None:
    if name == "bad":
        raise UserError("this one is bad")
    (Path(folder) / name).touch()


@pytest.mark.process
def test_one_failure_stops_no_other_and_is_named(tmp_path, forked):
    tasks = [
        Scheduled(name, call=partial(note, str(tmp_path), name))
        for name in ("first", "bad", "last")
    ]
    with pytest.raises(UserError, match=r"1 of 3 runs failed.*\n  bad: this one is bad"):
        run_all(tasks, workers=1)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["first", "last"]


@pytest.mark.process
def test_workers_end_with_a_killed_parent(tmp_path):
    script = tmp_path / "sleepers.py"
    script.write_text(SLEEPERS)
    marks = tmp_path / "marks"
    marks.mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, script, marks], env=environment, stderr=subprocess.DEVNULL
    )
    until(lambda: len(list(marks.iterdir())) == 2)
    workers = [int(file.name) for file in marks.iterdir()]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    until(lambda: not any(alive(worker) for worker in workers))
    assert len(set(workers)) == 2
