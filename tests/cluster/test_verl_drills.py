"""Every part of a real verl run is killed or stopped, with RLVR_DRILLS=all, and a finished one goes
on to more steps: a start of verl takes minutes, so make test-verl does one of the drills, in
test_verl_run.py.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from drills import drill, named
from runs import flags, of_this_run, pretrained

from common.backends.verl.process import LOOK_S
from common.config.files import ROOT
from common.experiment import load
from common.results.collect import verify
from common.results.files import read_csv, read_jsonl

pytestmark = pytest.mark.skipif(
    find_spec("verl") is None or os.environ.get("RLVR_DRILLS") != "all",
    reason="RLVR_DRILLS=all: a start of verl for each part; test_verl_run.py has one of them",
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
PATIENCE = 1800  # seconds for a start of verl: the machine may be busy


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return pretrained(tmp_path_factory.mktemp("drills"))


def test_a_finished_run_goes_on_to_more_steps(model, tmp_path):
    def trained(*words: str) -> Path:
        arguments = flags(model, tmp_path, "eval.every=1", *words)
        command = [sys.executable, "-m", "papers.f_grpo", *arguments]
        with open(tmp_path / "log.txt", "ab") as output:
            code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output).returncode
        assert code == 0, (tmp_path / "log.txt").read_text()[-5000:]
        run = tmp_path / "f_grpo" / load(arguments, "f_grpo").run_id
        assert verify(run) == []
        return run

    run = trained("optim.steps=2", "keep_state=true")
    kept = ("eval/step-00002.csv", "model/model.safetensors", "samples/natural.jsonl.gz")
    before = [(run / name).read_bytes() for name in kept]
    curve = (run / "metrics.jsonl").read_text()
    assert trained("optim.steps=3") == run
    moved = (kept[0], "checkpoints/step-00002/model.safetensors", "samples-00002/natural.jsonl.gz")
    assert [(run / name).read_bytes() for name in moved] == before
    assert (run / "metrics.jsonl").read_text().startswith(curve)
    assert [row["step"] for row in read_jsonl(run / "metrics.jsonl")] == [1, 2, 3]
    assert (run / kept[1]).read_bytes() != before[1]
    assert sorted(set(read_csv(run / "metrics.csv")["step"])) == [1, 2, 3]
    assert not (run / "work").exists()


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
        until, metrics = time.monotonic() + PATIENCE, run / "metrics.jsonl"
        while trained.poll() is None and time.monotonic() < until:
            if metrics.exists() and metrics.read_text().count("\n") >= 2:
                break
            time.sleep(0.5)
        assert trained.poll() is None, log.read_text()[-5000:]
        time.sleep(2 * LOOK_S)
        if part in ABSENT and named(str(run / "work"), part) is None:
            pytest.skip(ABSENT[part])
        drill(trained, log, run, part, number)
        assert Path(run / "work" / "checkpoints").exists()
    finally:
        for left in of_this_run(run):  # of one that has failed the drill
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        trained.wait()
