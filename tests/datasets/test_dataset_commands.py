"""python -m common.datasets: list, prefetch, show and mistaken commands."""

import importlib
import subprocess
import sys

import pytest
from dataset_nodes import NODES, SETS, has_verifier
from tiny import ROOT

from common.datasets import __main__
from common.errors import UserError


def run(*arguments: str) -> int | None:
    try:
        __main__.main([*arguments])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def test_list_prefetch_and_show(hub, local, capsys):
    key = "eval=aime25"
    has_verifier(key)
    rows = [{"id": str(i), "problem": f"P{i}", "answer": i} for i in range(30)]
    folder = hub(NODES[key]["hub"], NODES[key]["revision"], {"test.jsonl": rows})
    run("list")
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(lines) == {"set", *SETS}
    assert lines[key].split()[1:] == ["math-ai/aime25", "test", "30", "math", "cached"]
    assert lines["eval=math500"].endswith("no")
    run("prefetch", key)
    assert capsys.readouterr().out == f"{key}: 30 prompts, math-ai/aime25 at {folder.name}\n"
    run("show", key, "index=7", "chat=qwen")
    shown = capsys.readouterr().out
    assert shown.startswith("id: aime25-7\nreference: 7\n")
    assert "user\nP7<|im_end|>" in shown
    local([{"id": "x", "problem": "?", "answer": "1"}], "aime25.jsonl")
    run("list")
    assert "local file" in capsys.readouterr().out


def test_prefetch_says_which_commit_main_was_and_what_failed(hub, capsys):
    key = "eval=amc23"
    has_verifier(key)
    rows = [{"id": i, "problem": f"P{i}", "answer": 1.0, "url": ""} for i in range(40)]
    hub(NODES[key]["hub"], "main", {"train.jsonl": rows})
    assert run("prefetch", "eval=amc23,math500") == 2
    done = capsys.readouterr()
    assert f"pin it: revision: {'c' * 40}" in done.out
    assert "not prefetched: eval=math500" in done.err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["fetch"], "list, prefetch, show"),
        (["show", "eval=math50"], "eval=math500"),
        (["show"], "name one set"),
        (["show", "eval=math500", "index=x"], "whole number"),
        (["prefetch"], "say all"),
        (["prefetch", "eval=math500", "index=1"], "does not take it"),
    ],
)
def test_mistaken_commands(arguments, part, capsys):
    assert run(*arguments) == 2
    assert part in capsys.readouterr().err


@pytest.mark.process
def test_the_command_starts_and_helps():
    done = subprocess.run(
        [sys.executable, "-m", "common.datasets", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "prefetch eval=math500,aime24" in done.stdout
    assert importlib.import_module("common.datasets").__doc__
