import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import FORK, heed
from tiny import ROOT, TINY

from common.backends import run_experiment
from common.results.collect import verify
from common.results.files import read_csv, read_jsonl


def start(function, *arguments) -> multiprocessing.Process:
    process = FORK.Process(target=function, args=arguments)
    process.start()
    return process


def dies_at_write(x, number: int, after: bool) -> None:
    """Run `x` until its `number`-th file is to be renamed into place; die just before or after."""
    rename, count = os.replace, iter(range(1, 10**6))
    assert "sklearn" not in sys.modules  # transformers would import it, in a second

    def dying(*arguments):
        last = next(count) == number
        if not last or after:
            rename(*arguments)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = dying
    run_experiment(x, False)


def content(run: Path) -> dict[str, bytes]:
    """Every file but those that tell when and where the run ran, and the lock."""
    files = {str(f.relative_to(run)): f for f in run.rglob("*") if f.is_file()}
    return {n: f.read_bytes() for n, f in files.items() if n not in ("meta.json", "DONE", ".lock")}


@pytest.fixture
def experiment(tiny):
    """Eight steps, a checkpoint every other one, and every step moves the model."""
    return tiny("method.entropy_coef=0.01", "optim.steps=8", "eval.every=4", "checkpoint_every=2")


@pytest.fixture
def whole(experiment, tmp_path):
    """The content of an uninterrupted run; its folder and cache are out of the way."""
    run = Path(experiment.results_dir) / experiment.paper / experiment.run_id
    process = start(run_experiment, experiment, False)
    process.join()
    assert process.exitcode == 0
    files = content(run)
    expected = ["config.yaml", "counts.csv", "metrics.csv", "metrics.jsonl", "eval/step-00004.csv"]
    expected += ["samples/rare.jsonl.gz", "samples/natural.jsonl.gz", "model/model.safetensors"]
    assert set(expected) < set(files)
    assert all(row["grad_norm"] > 0 for row in read_jsonl(run / "metrics.jsonl"))
    shutil.rmtree(Path(experiment.results_dir) / experiment.paper)
    shutil.rmtree(Path(experiment.results_dir) / "models" / "rare-correct")
    return files


def assert_equal(one: dict[str, bytes], two: dict[str, bytes]) -> None:
    assert sorted(one) == sorted(two)  # nothing is missing, no checkpoint or temporary file is left
    assert [name for name in one if one[name] != two[name]] == []


def assert_whole_files(run: Path) -> None:
    """What a killed run leaves is unfinished, and each of its files is whole."""
    assert verify(run) == [f"{run} is unfinished (no DONE marker); run it again to resume"]
    for path in run.glob("eval/step-?????.csv"):
        assert len(read_csv(path)) > 10
    for path in run.glob("samples/*.gz"):
        read_jsonl(path)


@pytest.mark.process
def test_killed_at_every_other_write(experiment, whole):
    """Each restart dies two writes later than the one before, by turns before and after it."""
    run = Path(experiment.results_dir) / experiment.paper / experiment.run_id
    left = []
    for number in range(1, 100, 2):
        process = start(dies_at_write, experiment, number, number % 4 == 1)
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        if not (run / "DONE").exists():
            assert_whole_files(run)
        left.append(set(content(run)))
    assert len(left) >= 7
    assert any("checkpoint.pt" in files for files in left)  # it died while it trained,
    assert any("metrics.csv" in files for files in left)  # while it wrote results,
    assert any({n for n in files if ".tmp" in n} for files in left)  # and between file and name
    assert verify(run) == []
    assert_equal(content(run), whole)


@pytest.mark.process
def test_ctrl_c_ends_the_command_with_a_message(results):
    arguments = [*TINY, f"results_dir={results}", "optim.steps=100000", "eval.every=100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rlvr_papers", "train", "paper=f_grpo", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed,
    )
    deadline = time.monotonic() + 300
    while not any(path.stat().st_size for path in results.glob("f_grpo/*/metrics.jsonl")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert str(results / "f_grpo") not in out  # no result is announced
    assert "stopped; run the same command to resume from the last checkpoint" in error
    assert "Traceback" not in error
    (run,) = results.glob("f_grpo/*")
    assert_whole_files(run)
