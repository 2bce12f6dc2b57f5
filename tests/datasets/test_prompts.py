"""Prompts from one's own jsonl file: rows that are refused, and a run on them."""

import json

import pytest

from common.datasets.prompts import check, jsonl
from common.errors import UserError
from common.types import Prompt

GOOD = {"id": "a", "problem": "3 5 = 8", "answer": "3 5 = 8"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([GOOD, GOOD | {"id": "b", "answer": ""}], r"row 2: missing or empty \['answer'\]"),
        ([GOOD | {"answer": "  "}], r"row 1: missing or empty \['answer'\]"),
        ([GOOD | {"answer": None}], r"row 1: missing or empty \['answer'\]"),
        ([GOOD | {"problem": ""}], r"row 1: missing or empty \['problem'\]"),
        ([GOOD, GOOD], "row 2: id='a' occurs twice"),
        ([GOOD, GOOD | {"id": 7}, GOOD | {"id": "7"}], "row 3: id='7' occurs twice"),
        ([GOOD, {"id": "b", "problem": "x"}], r"row 2: missing or empty \['answer'\]"),
        ([{}], r"row 1: missing or empty \['id', 'problem', 'answer'\]"),
        (
            [GOOD, ["id", "problem", "answer"]],
            r"row 2: missing or empty \['id', 'problem', 'answer'\]",
        ),
        ([3], r"row 1: missing or empty"),
    ],
)
def test_jsonl_names_the_row(tmp_path, rows, message):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=message) as caught:
        jsonl(path=str(path))
    assert str(path) in str(caught.value)


def test_jsonl_reads_prompts(tmp_path):
    path = tmp_path / "train.jsonl"
    rows = [GOOD, {"id": 2, "problem": " x \n", "answer": 0, "level": 3}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert jsonl(path=str(path)) == [
        Prompt("a", "3 5 = 8", "3 5 = 8"),
        Prompt("2", " x \n", "0"),  # the text stays as it is; an answer of 0 is an answer
    ]
    path.write_text('{"id": 1\n')
    with pytest.raises(UserError, match=r"train\.jsonl, line 1: is no JSON object"):
        jsonl(path=str(path))
    path.write_text("")
    with pytest.raises(UserError, match=r"data\.train: no prompts"):
        check(jsonl(path=str(path)), "data.train")
    for prompt, what in (
        (Prompt("a", "", "x"), "text"),
        (Prompt("a", "x", ""), "reference answer"),
    ):
        with pytest.raises(UserError, match=f"data.train: prompt id='a' has an empty {what}"):
            check([prompt], "data.train")
