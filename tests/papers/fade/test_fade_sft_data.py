"""The training files of FADE's supervised fine-tuning, from made rows in the sets' columns.

Columns: the cards of nvidia/OpenCodeReasoning-2 and nvidia/OpenMathReasoning, BAAI/TACO's
and open-r1/codeforces' as NeMo-Skills' prepare_questions.py reads them.
"""

import json

import pandas as pd
import pytest
from refuses import refuses

from common.config.compose import compose
from common.config.strict import strict
from common.datasets.templates import BOXED, HELPFUL
from common.errors import UserError
from papers.fade.sft import sources
from papers.fade.sft.prepare import Prepare, prepare

THOUGHT = "<think>\nhm\n</think>\n\n```python\nprint(1)\n```"
# the fields that are read, and one that is not
CODE = {"id": "a", "question": "-", "r1_generation": THOUGHT}
CODE |= {"dataset": "taco", "split": "train", "index": "1"}
MATHS = {"id": "b", "generation_model": "DeepSeek-R1", "problem": "1+1?"}
MATHS |= {"generated_solution": "<think>\none and one\n</think>\n\n\\boxed{2}"}
FORCES = {
    "description": "Sum.",
    "input_format": "a b",
    "output_format": None,
    "examples": [{"input": "1 2", "output": "3"}],
    "note": "easy",
}


def table(path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_parquet(path, index=False)


@pytest.fixture
def hub(tmp_path):
    """Two shards of code, one of maths, and the problems that the code's rows point to."""
    forces = {"dataset": "open-r1/codeforces", "index": "0"}
    table(tmp_path / "code/train/python/train-00000-of-00002.parquet", [CODE, CODE | forces])
    broken = [{"r1_generation": text} for text in ("no thought", "<think>\nnever", THOUGHT * 2)]
    empty = [{"index": "0"}]
    rest = [CODE | change for change in (*broken, *empty)]
    table(tmp_path / "code/train/python/train-00001-of-00002.parquet", rest)
    maths = [MATHS, MATHS | {"generation_model": "QwQ-32B"}, MATHS]
    table(tmp_path / "maths/data/cot-00000-of-00001.parquet", maths)
    questions = [{"question": text, "tests": "x" * 9} for text in ("  ", " Print 1. ")]
    table(tmp_path / "taco/ALL/train-00000-of-00001.parquet", questions)
    table(tmp_path / "forces/data/train-00000-of-00001.parquet", [FORCES | {"tests": "x" * 9}])
    return tmp_path


def config(hub, **changes) -> Prepare:
    given = {
        "folder": f"{hub}/out",
        "sets.opencodereasoning2.hub": f"{hub}/code",
        "sets.opencodereasoning2.rows": 6,
        "sets.opencodereasoning2.share": 1.0,
        "sets.openmathreasoning.hub": f"{hub}/maths",
        "sets.openmathreasoning.rows": 3,
        "sets.openmathreasoning.share": 1.0,
        "problems.taco.train.hub": f"{hub}/taco",
        "problems.taco.train.rows": 2,
        "problems.codeforces.train.hub": f"{hub}/forces",
    }
    words = [f"{key}={value}" for key, value in (given | changes).items()]
    return strict(Prepare, compose("fade", words, "sft_data"))


def messages(folder) -> list:
    return [list(row) for row in pd.read_parquet(folder).messages]


def test_conversations_and_what_is_left_out(hub):
    counts = prepare(config(hub))
    code, other = messages(hub / "out/opencodereasoning2")
    assert [turn["role"] for turn in code] == ["system", "user", "assistant"]
    assert code[0]["content"] == HELPFUL
    assert code[1]["content"].startswith("Print 1.\n\nWrite a Python program")
    assert code[2]["content"] == THOUGHT
    asked = (
        "Sum.\n\nInput\n\na b\n\nExamples\n\nInput\n\n1 2\n\nOutput\n\n3\n\nNote\n\neasy\n\nWrite"
    )
    assert other[1]["content"].startswith(asked)
    maths = messages(hub / "out/openmathreasoning")
    assert maths[0] == maths[1]
    said = [(turn["role"], turn["content"]) for turn in maths[0]]
    assert said == [
        ("system", BOXED),
        ("user", "1+1?"),
        ("assistant", MATHS["generated_solution"]),
    ]
    left = {"whose problem is empty at its source": 1, sources.BROKEN: 3}
    seen = counts["opencodereasoning2"]
    assert {key: seen[key] for key in ("rows", "kept", *left)} == {"rows": 6, "kept": 2} | left
    assert counts["openmathreasoning"]["of another model than DeepSeek-R1"] == 1


def test_a_second_run_makes_only_what_is_missing(hub):
    prepare(config(hub))
    folder = hub / "out/opencodereasoning2"
    whole = {path.name: path.stat().st_mtime_ns for path in folder.glob("part-*")}
    (folder / "part-00001.parquet").unlink()
    again = prepare(config(hub))
    assert again["opencodereasoning2"]["kept"] == 2
    now = {path.name: path.stat().st_mtime_ns for path in folder.glob("part-*")}
    assert now["part-00000.parquet"] == whole["part-00000.parquet"]
    assert now["part-00001.parquet"] > whole["part-00001.parquet"]
    assert not list(folder.glob(".*"))
    count = hub / "out/opencodereasoning2.counts/00000.json"
    count.unlink()  # killed between a part and its count
    prepare(config(hub))
    assert json.loads(count.read_text())["rows"] == 2


def test_what_cannot_be_prepared_is_named(hub):
    for key, value in (  # each in a folder of its own
        ("sets.openmathreasoning.rows", 5),
        ("problems.taco.train.rows", 3),
    ):
        with refuses(key, value):
            prepare(config(hub, folder=f"{hub}/{key}", **{key: value}))
    table(hub / "maths/data/cot-00000-of-00001.parquet", [{"problem": "x"}])
    with pytest.raises(UserError, match="row 0 lacks 'generation_model'"):
        prepare(config(hub, folder=f"{hub}/other"))
    table(hub / "code/train/python/train-00000-of-00002.parquet", [CODE | {"index": "2"}])
    with refuses("problems.taco.train index", 2):
        prepare(config(hub, folder=f"{hub}/third"))
    table(hub / "code/train/python/train-00000-of-00002.parquet", [CODE | {"dataset": "new"}])
    with refuses("problems.new.train", None):
        prepare(config(hub, folder=f"{hub}/fourth"))
