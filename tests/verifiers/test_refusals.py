import json

import pytest
from refuses import refuses

from common.config.resolve import module
from common.errors import UserError

ENDLESS = "7" * 100_000
OPTIONS = ["1", "2", "3"]
TEST = {"input": "1", "output": "1"}
INSTRUCTION = {"problem": "p", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
GRID = "#####/#S..#/#.#.#/#G..#/#####"  # from S to G: DD
CHOICE = {"_target_": "common.verifiers.choice.verify", "weight": 1.0}
FORMAT = {"_target_": "common.verifiers.format.verify", "weight": 0.5}

# verifier -> (what its error says, the rows)
ROWS = {
    "math": (
        "answer",
        [{"answer": gold} for gold in ("", "  ", None, ENDLESS, float("nan"), float("inf"))],
    ),
    "verl_math": ("", [{"answer": ""}, {"answer": "5", "error": "0.1"}]),
    "choice": ("answer", [{"answer": a, "options": OPTIONS} for a in ("E", "", None, "AB", 2)]),
    "choice, options": ("options", [{"answer": "A"}, {"answer": "A", "options": ["a", " "]}]),
    "code": (
        "",
        [{}, {"tests": []}, {"tests": [{"input": "1"}]}, {"tests": [TEST | {"input": 1}]}]
        + [{"tests": [TEST], "test_type": "functional"}]
        + [{"tests": [TEST | {"input": "x"}], "fn_name": "f"}]
        + [{"tests": [TEST], "time_limit": limit} for limit in (-1, "2 s")],
    ),
    "ifeval": ("problem", [INSTRUCTION | {"problem": None}]),
    "ifeval, list": ("instruction_id_list", [INSTRUCTION | {"instruction_id_list": []}]),
    "ifeval, kwargs": ("kwargs", [INSTRUCTION | {"kwargs": given} for given in ([], None)]),
    "synlogic": ("data_source=chess", [{"data_source": "chess"}]),
    "synlogic, answer": ("answer", [{"data_source": "web_of_lies", "answer": ""}]),
    "synlogic, metadata": (
        "metadata|original_sudoku",
        [{"data_source": "sudoku", "metadata": given} for given in ({}, "{oops")],
    ),
    "maze": (
        "answer",
        [{"answer": f"{GRID} {path}"} for path in ("RRDDLL", "DL", "XX", "")]
        + [{"answer": answer} for answer in ("", "#S# R", "a b")],
    ),
}

REFERENCES = {
    "math": ["", ENDLESS, '{"gold": "5", "tolerance": "x"}'],
    "choice": ["C", "{}", "[]", "null", '{"answer": "C"}'],
    "code": ["", "6", "{}", '{"tests": []}', "[" * 100],
    "ifeval": ["", "{}", "[]", "no"],
    "synlogic": [""]
    + [
        json.dumps({"task": task, "answer": answer, "metadata": {}})
        for task, answer in (("chess", 1), ("sudoku", 1), ("boolean_expressions", ""))
    ],
}

CODE = json.dumps({"tests": [TEST], "test_type": "stdin", "fn_name": None, "time_limit": 6})
LETTER = '{"answer": "B", "options": ["1", "2"]}'


def verifier(name: str):
    return module({"_target_": f"common.verifiers.{name.partition(',')[0]}.verify"})


@pytest.mark.parametrize("name", ROWS)
def test_bad_rows_are_named(name):
    said, rows = ROWS[name]
    for row in rows:
        with pytest.raises(UserError, match=f"row .*r1.*({said})"):
            verifier(name).reference(row | {"id": "r1"})


@pytest.mark.parametrize("name", REFERENCES)
def test_bad_references(name):
    for reference in REFERENCES[name]:
        with pytest.raises(UserError, match=r"reference|must be JSON"):
            verifier(name).verify("```python\n```\\boxed{A}", reference)


@pytest.mark.parametrize(
    ("name", "gold", "key", "value"),
    [
        ("math", "5", "convention", "lenient"),
        ("choice", LETTER, "convention", "mmlu"),
        ("format", "", "convention", "deepseek"),
        ("ifeval", json.dumps(INSTRUCTION | {"prompt": "p"}), "mode", "lose"),
        ("code", CODE, "memory_gb", 0),
        ("code", CODE, "total_time", 0),
        ("maze", f"{GRID} DD", "accept", "all"),
    ],
)
def test_bad_options(name, gold, key, value):
    with refuses(key, value):
        verifier(name).verify("```python\n```", gold, **{key: value})


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        ([], "parts="),
        (["common.verifiers.choice.verify"], r"parts\[0\]="),
        ([CHOICE, {"_target_": FORMAT["_target_"]}], r"parts\[1\].weight=None"),
        ([CHOICE | {"weight": float("nan")}], r"parts\[0\].weight=nan"),
        ([CHOICE, FORMAT | {"tags": 2}], r"parts\[1\].tags=2"),
        ([CHOICE, FORMAT | {"_target_": "common.verifiers.formats.verify"}], "cannot be imported"),
    ],
)
def test_bad_parts_of_a_sum(parts, key):
    with pytest.raises(UserError, match=key):
        verifier("combine").verify("", LETTER, parts=parts)
