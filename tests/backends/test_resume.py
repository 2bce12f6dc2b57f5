import multiprocessing
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from forks import command
from processes import FORK
from tiny import ROOT, TINY

from common.backends import run_experiment
from common.experiment import load
from common.results.collect import verify
from common.results.files import read_csv, read_jsonl


def start(function, *arguments) -> multiprocessing.Process:
    process = FORK.Process(target=function, args=arguments)
    process.start()
    return process


def dies_at_write(x, number: int, after: bool) -> None:
    """Run `x` until its `number`-th file is to be renamed into place; die just before or after."""
    rename, count = os.replace, iter(range(1, 10**6))
    assert {"sklearn", "scipy"}.isdisjoint(sys.modules)  # transformers imports them in a second

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


@pytest.fixture(scope="module")
def whole(pretrained, tmp_path_factory):
    """(experiment, content of an uninterrupted run). Eight steps, a checkpoint every other one, and
    every step moves the model."""
    root = tmp_path_factory.mktemp("resume") / "results"
    shutil.copytree(pretrained, root)
    words = [*TINY, f"results_dir={root}", "optim.steps=8", "eval.every=4", "checkpoint_every=2"]
    experiment = load([*words, "method.entropy_coef=0.01"], "f_grpo")
    process = start(run_experiment, experiment, False)
    process.join()
    assert process.exitcode == 0
    files = content(experiment.path)
    expected = ["config.yaml", "counts.csv", "metrics.csv", "metrics.jsonl", "eval/step-00004.csv"]
    expected += ["samples/rare.jsonl.gz", "samples/natural.jsonl.gz", "model/model.safetensors"]
    assert set(expected) < set(files)
    assert all(row["grad_norm"] > 0 for row in read_jsonl(experiment.path / "metrics.jsonl"))
    return experiment, files


def forget(x) -> None:
    """A run folder and what is cached for its evaluation."""
    shutil.rmtree(x.path)
    shutil.rmtree(Path(x.results_dir) / "models" / "rare-correct")


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
def test_killed_at_every_other_write(whole):
    """Each restart dies two writes later than the one before, by turns before and after it."""
    experiment, expected = whole
    run = experiment.path
    forget(experiment)
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
    assert_equal(content(run), expected)


@pytest.mark.process
def test_ctrl_c_ends_the_command_with_a_message(results, tmp_path):
    words = ["rlvr", "train", "paper=f_grpo", *TINY, f"results_dir={results}"]
    words += ["optim.steps=100000", "eval.every=100000"]
    said = [tmp_path / "out", tmp_path / "err"]
    process = start(command, words, ROOT, *said)
    deadline = time.monotonic() + 300
    while not any(path.stat().st_size for path in results.glob("f_grpo/*/metrics.jsonl")):
        assert process.is_alive(), said[1].read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    process.join(120)
    assert process.exitcode == 130
    out, error = [file.read_text() for file in said]
    assert str(results / "f_grpo") not in out  # no result is announced
    assert "stopped; run the same command to resume from the last checkpoint" in error
    assert "Traceback" not in error
    (run,) = results.glob("f_grpo/*")
    assert_whole_files(run)
