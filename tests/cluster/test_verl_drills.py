"""Real parts of a real verl run are killed or stopped: the run ends by itself, names the part, the
log and how to resume, and leaves nothing running.

A start of verl takes minutes, so make test-verl does one of them. All: RLVR_DRILLS=all.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from runs import flags, of_this_run, pretrained

from common import watch
from common.backends.verl.process import LOOK_S
from common.backends.verl.sockets import MARK
from common.config.files import ROOT
from common.experiment import load

pytestmark = pytest.mark.skipif(
    find_spec("verl") is None, reason="verl is not installed here: make test-cluster runs these"
)
PARTS = [
    "common.backends.verl.main",  # verl's driver
    "VLLM::EngineCore",
    "VLLM::Worker",
    "ray::TaskRunnerV1",
    "ray::WorkerDict",
    "ray::vLLMHttpServer",
    "ray::AgentLoopWorker",
    "ray::RewardLoopWorker",
    "ray::SimpleStorageUnit",
    "ray::TransferQueueController",
    "raylet",
    "gcs_server",
]
ABSENT = {  # on a CPU it is there
    "VLLM::Worker": "an engine of one rank is its own worker: VLLM::EngineCore is that drill",
}
DRILLS = [(part, number) for number in (signal.SIGSTOP, signal.SIGKILL) for part in PARTS]
DRILLS += [("common.verifiers.worker", signal.SIGSTOP)]  # killed, it is forked again
if os.environ.get("RLVR_DRILLS") != "all":
    DRILLS = DRILLS[1:2]  # what nobody but us notices
PATIENCE = 1800  # seconds for a start of verl: the machine may be busy


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return pretrained(tmp_path_factory.mktemp("drills"))


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


def marked(process: psutil.Process) -> bool:
    try:
        return MARK in process.environ() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(("part", "number"), DRILLS)
def test_the_run_ends_says_why_and_leaves_nothing(model, tmp_path, part, number):
    arguments = flags(model, tmp_path, "optim.steps=500", "eval.every=500")
    run = tmp_path / "f_grpo" / load(arguments, "f_grpo").run_id
    log = tmp_path / "log.txt"
    with open(log, "wb") as output:
        trained = subprocess.Popen(
            [sys.executable, "-m", "papers.f_grpo", *arguments],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        drill(trained, log, run, part, number)
    finally:
        for left in of_this_run(run):  # of one that has failed the drill
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        trained.wait()


def runs_on(process: psutil.Process) -> bool:
    """A zombie does not: it waits for the first process of the machine to look at it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def drill(trained, log, run, part, number):
    until, metrics = time.monotonic() + PATIENCE, run / "metrics.jsonl"
    while trained.poll() is None and time.monotonic() < until:
        if metrics.exists() and metrics.read_text().count("\n") >= 2:
            break
        time.sleep(0.5)
    assert trained.poll() is None, log.read_text()[-5000:]
    time.sleep(2 * LOOK_S)
    pid = named(str(run / "work"), part)
    if pid is None and part in ABSENT:
        pytest.skip(ABSENT[part])
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
    for text in (str(last), "to resume from step", "papers.f_grpo"):
        assert text in said
    until = time.monotonic() + 30
    while of_this_run(run) and time.monotonic() < until:
        time.sleep(0.5)
    assert of_this_run(run) == []
    assert [one for one in family if runs_on(one)] == []
    assert Path(run / "work" / "checkpoints").exists()
