"""A part of a real verl run is killed or stopped: the run ends by itself, names the part, the log
and how to resume, and leaves nothing running."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
from runs import of_this_run

from common import watch
from common.backends.verl.sockets import MARK


def named(scratch_of: str, part: str) -> int | None:
    """The process of the run whose name has `part`."""
    for process in psutil.process_iter(["environ"]):
        values = (process.info["environ"] or {}).values()
        if any(scratch_of in value for value in values):
            for one in watch.parts([process]):
                if part in one.name:
                    return one.pid
    return None


def launched_by(pid: int) -> list[psutil.Process]:
    """verl's driver and what descends from it."""
    below = psutil.Process(pid).children()
    drivers = [one for one in below if "common.backends.verl.main" in one.cmdline()]
    return [*drivers, *(one for driver in drivers for one in driver.children(recursive=True))]


def running(pid: int, parts: tuple[str, ...]) -> dict[str, int]:
    """How many processes of a training run have each of these in their name."""
    names = [one.name for one in watch.parts(launched_by(pid)) if not one.copy]
    return {part: sum(part in name for name in names) for part in parts}


def marked(process: psutil.Process) -> bool:
    try:
        return MARK in process.environ() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def runs_on(process: psutil.Process) -> bool:
    """A zombie does not: it waits for the first process of the machine to look at it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def drill(trained: subprocess.Popen, log: Path, run: Path, part: str, number: int) -> None:
    """Send a training run, whose output is in `log`, the loss of a part."""
    pid = named(str(run / "work"), part)
    assert pid is not None, f"no {part} runs"
    family = launched_by(trained.pid)
    # who has no mark is neither watched nor ended
    assert [one for one in family if not marked(one)] == []
    os.kill(pid, number)
    code = trained.wait(600)
    said = log.read_text()
    assert code == 2, said[-5000:]  # of an error that is the user's to read (common/errors.py)
    assert part in said.split("the last lines:")[0]
    if number == signal.SIGSTOP:
        assert "is stopped (SIGSTOP)" in said
    last = max((run / "work" / "log").glob("*.txt"))  # where Ray does not come up it starts again
    for text in (str(last), "to resume from step", "the same command again"):
        assert text in said
    until = time.monotonic() + 300
    while of_this_run(run) and time.monotonic() < until:
        time.sleep(0.5)
    assert of_this_run(run) == []
    assert [one for one in family if runs_on(one)] == []
