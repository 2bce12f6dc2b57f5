import sys

import pytest
from dataset_nodes import NODES, SETS

from common.datasets import command
from common.errors import UserError


def run(*arguments: str) -> int | None:
    try:
        command.main([*arguments])
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def test_list_prefetch_and_show(hub, local, capsys):
    key = "eval=aime25"
    rows = [{"id": str(i), "problem": f"P{i}", "answer": i} for i in range(30)]
    folder = hub(NODES[key]["hub"], NODES[key]["revision"], {"test.jsonl": rows})
    run()
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert set(lines) == {"set", *SETS}
    assert lines[key].split()[1:] == ["math-ai/aime25", "test", "30", "math", "cached"]
    assert lines["eval=math500"].endswith("no")
    run("prefetch=true", key)
    assert capsys.readouterr().out == f"{key}: 30 prompts, math-ai/aime25@{folder.name}\n"
    run(key, "index=7", "chat=qwen")
    shown = capsys.readouterr().out
    assert shown.startswith("id: aime25-7\nreference: 7\n")
    assert "user\nP7<|im_end|>" in shown
    local([{"id": "x", "problem": "?", "answer": "1"}], "aime25.jsonl")
    run()
    assert "local file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["prefetch=some"], "prefetch=some"),
        (["fetch=true"], "did you mean prefetch"),
        (["eval=math50"], "math500"),
        (["eval=math500", "index=x"], "index=x"),
    ],
)
def test_mistaken_commands(arguments, part, capsys):
    assert run(*arguments) == 2
    assert part in capsys.readouterr().err
