"""A part of a real run is stopped or killed: the launch ends within three minutes and says which
part it was, nothing of it is left, and the same command goes on from the last checkpoint.

A start of verl takes a minute of a core and more, so only `make drill` makes these; in the gate
test_verl_stock.py stops a part of a run that it needs anyway.
"""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from runs import DEVICE, flags, of_this_run, pretrained

from common import watch
from common.backends.verl.process import LEFT, LOOK_S
from common.config.files import ROOT
from common.experiment import load

pytestmark = [
    pytest.mark.skipif("DRILLS" not in os.environ, reason="make drill runs these"),
    pytest.mark.skipif(
        find_spec("verl") is None or DEVICE != "cpu", reason="needs verl, and is for a CPU"
    ),
]
ENGINE, TRAINER, ENDS_S, PATIENCE = "VLLM::EngineCore", "ray::WorkerDict", 180, 1800
DRILLS = [(ENGINE, signal.SIGSTOP), (TRAINER, signal.SIGKILL), (ENGINE, signal.SIGKILL)]


def wait(until, what: str, seconds: float) -> float:
    """Wait until it is so; return the seconds that it took."""
    began = time.monotonic()
    while not until():
        assert time.monotonic() < began + seconds, what
        time.sleep(0.2)
    return time.monotonic() - began


@pytest.fixture(scope="module")
def command(tmp_path_factory) -> tuple[list[str], Path]:
    folder = tmp_path_factory.mktemp("drill")
    words = flags(pretrained(folder), folder, "optim.steps=500", "eval.every=500")
    run = folder / "f_grpo" / load(words, "f_grpo").run_id
    return [sys.executable, "-m", "rlvr_papers", "train", "paper=f_grpo", *words], run


@pytest.mark.parametrize(("part", "number"), DRILLS)
def test_a_lost_part_ends_the_run_and_is_named(command, tmp_path, part, number):
    words, run = command
    curve, log = run / "metrics.jsonl", tmp_path / "log.txt"
    steps = lambda: curve.read_text().count("\n") if curve.exists() else 0  # noqa: E731
    begun = steps()
    with open(log, "wb") as output:
        trained = subprocess.Popen(words, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        at_work = lambda: trained.poll() is not None or steps() >= begun + 2  # noqa: E731
        wait(at_work, "no step", PATIENCE)
        assert trained.poll() is None, log.read_text()[-5000:]
        time.sleep(2 * LOOK_S)  # it has been seen
        seen = watch.parts(map(psutil.Process, of_this_run(run)))
        lost = [one for one in seen if part in one.name and not one.copy]
        os.kill(lost[0].pid, number)
        took = wait(lambda: trained.poll() is not None, "the launch goes on", ENDS_S)
    finally:
        for pid in of_this_run(run) if trained.poll() is None else ():
            os.kill(pid, signal.SIGKILL)
        trained.wait()
    print(f"{part}, {signal.Signals(number).name}: ended after {took:.0f} s")
    said = log.read_text()
    assert trained.returncode == 2, said[-5000:]
    assert f"{part} (pid {lost[0].pid})" in said.replace(lost[0].name, part)
    assert f"{run / 'work' / 'log'}" in said
    assert of_this_run(run) == []
    outside = json.loads((run / "work" / LEFT).read_text())
    assert outside["shared"]
    assert [path for path in (outside["scratch"], *outside["shared"]) if Path(path).exists()] == []
    assert (run / "work" / "checkpoints").exists()  # the next one goes on from there
