"""What README promises for a Mac, in a pretended macOS (tests/support/pretended_mac): in a Python
without what macOS lacks. tests/test_contributing.py runs there too: a method, a verifier and a
paper of one's own, the comparison and the report.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from forks import Forks
from hold import HOLD
from math_cases import HOSTILE
from processes import MAC, alive
from synlogic_puzzles import PUZZLES
from tiny import ROOT, TINY

from common import platforms
from common.results.collect import verify
from common.results.files import read_jsonl
from common.tasks import maze
from common.verifiers import choice, countdown, format, synlogic
from common.verifiers import maze as mazes
from common.verifiers.ifeval.verifier import KNOWN
from common.verifiers.worker import NO_MEMORY
from rlvr_papers import __main__ as front

pytestmark = pytest.mark.process

PATHS = os.pathsep.join([str(MAC), str(ROOT), str(ROOT / "tests" / "support")])


@pytest.fixture(scope="module")
def mac(tmp_path_factory):
    said = tmp_path_factory.mktemp("said")
    here = {"PYTHONPATH": PATHS, HOLD: str(said)}
    with Forks(ROOT, said, os.environ | here) as forks:
        yield forks


def judged(*asked: tuple) -> tuple[list, list[list[dict]]]:
    """(what the Python lacks, the verdicts of each pool)."""
    done = subprocess.run(
        [sys.executable, "-m", "pooled"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": PATHS},
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    lacks, *verdicts = map(json.loads, done.stdout.splitlines())
    return lacks, verdicts


def test_every_verifier_that_needs_no_linux_judges():
    """And memory has its limit, which the pool watches."""
    board = maze.mazes(split="train", size=1, seed=0, **BOARD)[0].reference
    letter = choice.reference({"id": "x", "answer": "B", "options": ["one", "two"]})
    answer, metadata, (right, *_), *_ = PUZZLES["sudoku"]
    puzzle = {"id": "x", "data_source": "sudoku", "answer": answer, "metadata": metadata}
    four = countdown.reference({"answer": "1 2 3 4 = 10"})
    pairs = {
        "math": ("so \\boxed{\\frac{1}{2}}", "0.5"),
        "choice": ("The answer is B.", letter),
        "ifeval": KNOWN,
        "synlogic": (right, synlogic.reference(puzzle)),
        "format": (format.example(""), ""),
        "countdown": (countdown.example(four), four),
        "maze": (mazes.example(board), board),
    }
    settings = {"workers": 1, "deadline": 60.0, "memory_gb": 4.0}
    nodes = {name: {"_target_": f"common.verifiers.{name}.verify"} for name in pairs}
    asked = [(nodes[name], settings, [pair, ("", pair[1])]) for name, pair in pairs.items()]
    draw = random.Random(0)
    hostile = [(f"\\boxed{{{make(draw)}}}", "7") for make in HOSTILE[::3]]
    asked.append((nodes["math"], settings | {"workers": 2, "deadline": 3.0}, hostile))
    odd = [("hang", "g"), ("die", "g"), ("swell", "g"), ("ok", "g")]
    few = settings | {"deadline": 5.0, "memory_gb": 0.25}
    asked.append(({"_target_": "broken_verifiers.echo"}, few, odd))
    many = [(f"{i}" * 300, "g") for i in range(100, 400)]
    asked.append(({"_target_": "broken_verifiers.echo"}, few, many))
    lacks, (*known, hostile, odd, many) = judged(*asked)
    assert lacks == ["Darwin", "spawn", False, False, False]
    for name, (right, wrong) in zip(pairs, known, strict=True):
        assert (right["outcome"], right["reward"]) == ("correct", 1.0), name
        assert wrong["outcome"] in ("wrong", "unparsed"), name
    assert {one["outcome"] for one in hostile} <= {"unparsed", "wrong"}
    assert [one["outcome"] for one in odd] == ["timeout", "error", "timeout", "correct"]
    assert odd[2]["reason"] == NO_MEMORY
    assert {one["outcome"] for one in many} == {"correct"}


BOARD = dict(side=9, loops=4, generator="depth_first", ends="corners")


def wait_for(file: Path) -> None:
    end = time.monotonic() + 300
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def gone(processes: list[psutil.Process]) -> bool:
    return psutil.wait_procs([one for one in processes if alive(one.pid)], timeout=60)[1] == []


def test_two_trainings_at_once_one_stopped_one_killed_and_resumed(mac, results, tmp_path):
    """They leave no process behind; then the model is evaluated."""
    words = ["rlvr", "train", "paper=f_grpo", *TINY, f"results_dir={results}"]
    words += ["optim.steps=18", "eval.every=18", "checkpoint_every=5"]
    words += ["method.controller={_target_:hold.wait,seed:${seed}}"]
    both = [mac.start(*words, f"seed={seed}") for seed in (1, 2)]
    for seed in (1, 2):
        wait_for(mac.streams / f"{seed}.pid")
    for process, sent, code in zip(both, ("SIGINT", "SIGKILL"), (130, -9), strict=True):
        below = psutil.Process(process.pid).children(recursive=True)
        assert len(below) >= 3  # a pool's mother, what guards its workers, a worker
        os.kill(process.pid, getattr(signal, sent))
        ended, _, error = process.end()
        assert ended == code
        assert "Traceback" not in error
        assert gone(below)
    (run,) = results.glob("f_grpo/*-s2-*")
    assert len(read_jsonl(run / "metrics.jsonl")) in (15, 16)
    assert not (run / "DONE").exists()
    (mac.streams / "2.go").touch()
    assert mac.run(*words, "seed=2").strip() == str(run)
    assert verify(run) == []
    assert [row["step"] for row in read_jsonl(run / "metrics.jsonl")] == [*range(1, 19)]

    problems = tmp_path / "problems.jsonl"
    problems.write_text('{"id": "a", "problem": "1 2 3 4 = 10", "answer": "1 2 3 4 = 10"}\n')
    asked = [
        f"eval.prompts.path={problems}",
        "eval.verifier._target_=common.verifiers.countdown.verify",
    ]
    asked += ["eval=jsonl", "model=huggingface", f"model.path={run / 'model'}"]
    asked += ["n=8", "max_tokens=20", f"results_dir={results}"]
    assert verify(Path(mac.run("rlvr", "evaluate", *asked).strip())) == []


def test_programs_are_not_run(mac):
    """Nothing is read either."""
    code, _, error = mac.start("rlvr", "verify", "verifier=code").end()
    assert code == 2
    assert error.startswith("error: verifier=code: needs Linux, and this is macOS")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["train", "paper=f_grpo", "backend=verl"], "backend=verl: needs Linux"),
        (
            ["evaluate", "eval=math500", "model=huggingface", "model.path=x", "engine=vllm"],
            "engine=vllm: needs Linux",
        ),
        (
            ["evaluate", "eval=livecodebench_v5", "model=huggingface", "model.path=x"],
            "verifier=code: needs Linux",
        ),
        (["submit", "paper=f_grpo", "profile=h100-1x8"], "profile=h100-1x8: needs Linux"),
        (["preflight"], "command=preflight: needs Linux"),
        (["train", "paper=f_grpo", "device=mps"], "device=mps: "),
    ],
)
def test_what_needs_linux_is_refused_in_a_line(words, named, tmp_path, monkeypatch, capsys):
    """In this process, where it is asked for."""
    monkeypatch.setattr(platforms, "platform", SimpleNamespace(system=lambda: "Darwin"))
    folder = [] if words == ["preflight"] else [f"results_dir={tmp_path}"]
    monkeypatch.setattr("sys.argv", ["rlvr", *words, *folder])
    monkeypatch.setattr("sys.path", [*sys.path])
    with pytest.raises(SystemExit) as end:
        front.main()
    out, error = capsys.readouterr()
    assert (end.value.code, out, error.count("\n")) == (2, "", 1)
    assert error.startswith(f"error: {named}")
    assert [*tmp_path.iterdir()] == []


def test_the_jobs_of_a_cluster_are_listed(mac):
    said = mac.run("rlvr", "submit", "paper=f_grpo", "profile=h100-1x8", "dry_run=1")
    assert "nothing was submitted" in said
