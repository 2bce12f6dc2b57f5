"""A user's own JSONL file: what is wrong is said by line, and never that it should be deleted."""

import json

import pytest

from common.datasets.prompts import jsonl
from common.errors import UserError

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


def test_a_missing_file_is_a_wrong_path(tmp_path):
    assert refused(tmp_path / "none.jsonl").endswith("does not exist; correct the path")


def test_a_broken_line_is_named(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps(ROW) + '\n\n{"id": \n')
    assert f"{file}, line 3: is no JSON object" in refused(file)


def test_another_encoding_is_named(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_bytes((json.dumps(ROW) + '\n{"id": "ä"}\n').encode("latin-1"))
    assert f"{file}, line 2: is not UTF-8; save the file as UTF-8" in refused(file)


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
