import json
import re

import pytest

from common.config.compose import CONFIGS, compose
from common.config.resolve import resolve
from common.config.strict import strict
from common.datasets.prompts import check, jsonl
from common.errors import UserError
from common.evaluation.config import Evaluate
from common.types import Prompt

ROW = {"id": "a", "problem": "1+1=", "answer": "2"}


def refused(path, fields: dict | None = None) -> str:
    """What is said of a file, which is never that it should be deleted."""
    with pytest.raises(UserError) as error:
        jsonl(path=str(path), fields=fields or {})
    assert "delete" not in str(error.value)
    assert "run again" not in str(error.value)
    return str(error.value)


def test_rows_are_read_as_they_are(tmp_path):
    """With a byte order mark and empty lines; an answer of 0 is an answer."""
    file = tmp_path / "own.jsonl"
    other = {"id": 2, "problem": " x \n", "answer": 0, "level": 3}
    lines = [json.dumps(ROW).encode(), b"\r\n\n", json.dumps(other).encode()]
    file.write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    assert jsonl(path=str(file)) == [Prompt("a", "1+1=", "2"), Prompt("2", " x \n", "0")]


@pytest.mark.parametrize(
    ("name", "data", "kind", "reader"),
    [
        ("a.csv", b"id,problem,answer\na,1+1=,2\n", "CSV", "read_csv"),
        ("a.parquet", b"PAR1\x15\x04", "Parquet", "read_parquet"),
        ("a.json", b' [{"id": "a"}]', "a JSON list", "read_json"),
    ],
)
def test_another_format_is_named_with_what_turns_it_into_lines(tmp_path, name, data, kind, reader):
    file = tmp_path / name
    file.write_bytes(data)
    said = refused(file)
    assert f"is {kind}," in said
    assert reader in said


def test_an_answer_is_one_text_or_number(tmp_path):
    """The only element of a list is the answer; what would be no answer to anyone is refused."""
    file = tmp_path / "own.jsonl"
    for one in (["2"], [2], "2", 2):
        file.write_text(json.dumps(ROW | {"answer": one}))
        assert jsonl(path=str(file)) == [Prompt("a", "1+1=", "2")]
    for several in (["2", "3"], [["2"]], {"x": 1}, {}, [], True, False, [True], [{"x": 1}]):
        file.write_text(json.dumps(ROW | {"answer": several}))
        assert "row 1" in refused(file)
        assert "answer" in refused(file)


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
    ("rows", "fields", "said"),
    [
        ([{"question": "1+1=", "answer": "2"}], {}, "row 1: .*'problem'.*question, answer"),
        ([ROW, {"problem": "3+4=", "answer": "7"}], {}, "row 2: .*'id'"),
        ([{"problem": p, "answer": "2"} for p in "aba"], {}, "row 3: .*row 1;.* id"),
        ([ROW, ROW], {}, "row 2: id='a' occurs twice"),
        ([ROW, ROW | {"id": 7}, ROW | {"id": "7"}], {}, "row 3: id='7' occurs twice"),
        ([ROW, ROW | {"id": "b", "answer": ""}], {}, "row 2: .*'answer'"),
        ([ROW | {"answer": "  "}], {}, "row 1: .*'answer'"),
        ([ROW | {"answer": None}], {}, "row 1: .*'answer'"),
        ([ROW | {"problem": ""}], {}, "row 1: .*'problem'"),
        ([ROW, ["id", "problem", "answer"]], {}, "row 2: .*'id', 'problem', 'answer'"),
        ([{}], {}, "row 1: .*'id', 'problem', 'answer'"),
        ([3], {}, "row 1: "),
        ([{"m": [{"role": "system", "content": "x"}, *CHAT]}], {"problem": "m"}, "row 1: m: "),
        ([{"m": CHAT * 2, "answer": "2"}], {"problem": "m"}, "row 1: m: "),
        ([ROW], {"question": "problem"}, "fields=question"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, rows, fields, said):
    file = tmp_path / "own.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = refused(file, fields)
    assert re.search(said, found), found
    assert str(file) in found or fields


@pytest.mark.parametrize(
    ("prompts", "said"),
    [
        ([], "data.train: no prompts"),
        ([Prompt("a", "", "x")], "id='a' has an empty text"),
        ([Prompt("a", "x", "")], "id='a' has an empty reference answer"),
    ],
)
def test_prompts_of_any_source_are_looked_at(prompts, said):
    with pytest.raises(UserError, match=said):
        check(prompts, "data.train")


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


@pytest.mark.parametrize(
    "line",
    [
        '{"id": ',
        "[" * 200_000,
        '{"id": "b", "problem": "1+1=", "answer": NaN}',
        '{"id": "b", "problem": "1+1=", "answer": -Infinity}',
        '{"id": "b", "problem": "1+1= \\ud800", "answer": "2"}',
    ],
)
def test_a_broken_line_or_a_value_that_no_response_can_equal_is_named(tmp_path, line):
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps(ROW) + "\n\n" + line + "\n")
    assert f"{file}, line 3: is not JSON" in refused(file)
    file.write_text('{"id": "a", "problem": "\\ud83d\\ude00", "answer": "2"}\n')  # a whole pair
    assert jsonl(path=str(file))[0].text == "\U0001f600"
