"""A user's own JSONL file: what is wrong is said by line, and never that it should be deleted."""

import json

import pytest

from common.config.compose import CONFIGS, compose
from common.config.resolve import resolve
from common.config.strict import strict
from common.datasets.prompts import jsonl
from common.errors import UserError
from common.evaluation.config import Evaluate

ROW = {"id": "a", "problem": "1+1=", "answer": "2"}


def refused(path) -> str:
    with pytest.raises(UserError) as error:
        jsonl(path=str(path))
    assert "delete" not in str(error.value)
    assert "run again" not in str(error.value)
    return str(error.value)


def test_a_byte_order_mark_and_empty_lines_are_read_over(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n\n")
    assert [prompt.id for prompt in jsonl(path=str(file))] == ["a"]


CHAT = [{"role": "user", "content": "1+1="}, {"role": "assistant", "content": "2"}]


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        ({"question": "1+1=", "answer": "2"}, {"problem": "question"}),
        ({"messages": CHAT, "gold": 2}, {"problem": "messages", "answer": "gold"}),
        ({"problem": "1+1=", "answer": "2", "key": ""}, {}),
    ],
)
def test_fields_have_their_own_names_and_ids_stay_when_a_file_is_sorted(tmp_path, row, fields):
    file, name = tmp_path / "own.jsonl", fields.get("problem", "problem")
    other = row | {name: "3+4="}
    found = []
    for rows in ([row, other], [other, row]):
        file.write_text("".join(json.dumps(one) + "\n" for one in rows))
        found.append(sorted(jsonl(path=str(file), fields=fields), key=lambda prompt: prompt.text))
    assert found[0] == found[1]
    assert [(prompt.text, prompt.reference) for prompt in found[0]] == [
        ("1+1=", "2"),
        ("3+4=", "2"),
    ]
    assert len({prompt.id for prompt in found[0]}) == 2


@pytest.mark.parametrize(
    ("rows", "fields", "line"),
    [
        ([{"question": "1+1=", "answer": "2"}], {}, "row 1: .*'problem'.*question, answer"),
        ([ROW, {"problem": "3+4=", "answer": "7"}], {}, "row 2: .*'id'"),
        ([{"problem": "1+1=", "answer": "2"}] * 2, {}, "row 2: .*twice"),
        ([{"m": [{"role": "system", "content": "x"}, *CHAT]}], {"problem": "m"}, "row 1: m: "),
        ([{"m": CHAT * 2, "answer": "2"}], {"problem": "m"}, "row 1: m: "),
        ([ROW], {"question": "problem"}, "fields=question"),
    ],
)
def test_what_no_mapping_can_read_is_named(tmp_path, rows, fields, line):
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=line):
        jsonl(path=str(file), fields=fields)


def test_a_hub_set_of_ones_own_needs_no_file_of_configuration(tmp_path):
    """A folder stands for the hub; the words are those of a command line."""
    rows = [{"messages": CHAT, "gold": "2", "n": i} for i in range(2)]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [f"eval.prompts.hub={tmp_path}", "eval.prompts.fields.problem=messages"]
    words += ["eval=hub", "eval.prompts.fields.answer=gold", "model=tiny"]
    words.append("+model.chat=plain")
    x = strict(Evaluate, compose(CONFIGS, words, "evaluate"))
    prompts = resolve(x.eval.prompts, "eval.prompts")()
    assert [(one.id, one.text, one.reference) for one in prompts] == [
        ("0", "1+1=\n", "2"),
        ("1", "1+1=\n", "2"),
    ]


def test_a_broken_line_is_named(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps(ROW) + '\n\n{"id": \n')
    assert f"{file}, line 3: is no JSON object" in refused(file)


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "b", "problem": "1+1=", "answer": NaN}',
        '{"id": "b", "problem": "1+1=", "answer": -Infinity}',
        '{"id": "b", "problem": "1+1= \\ud800", "answer": "2"}',
    ],
)
def test_a_value_that_no_response_can_equal_or_no_file_can_hold_is_named(tmp_path, line):
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps(ROW) + "\n" + line + "\n")
    assert f"{file}, line 2: " in refused(file)
    file.write_text('{"id": "a", "problem": "\\ud83d\\ude00", "answer": "2"}\n')  # a whole pair
    assert jsonl(path=str(file))[0].text == "\U0001f600"
