import base64
import json
import pickle
import zlib

from dataset_nodes import NODES, loaded
from refuses import refuses

from common.datasets import rows as dataset_rows
from common.verifiers.math import verify


def test_gpqa_choices_are_shuffled_by_our_own_seed():
    rows = [
        {"Question": f"Q{i}", "Correct Answer": " right\n",
         **{f"Incorrect Answer {j}": f"wrong {j}" for j in (1, 2, 3)}}
        for i in range(200)
    ]  # fmt: skip
    made = [dataset_rows.gpqa(row, seed=0) for row in rows]
    assert made == [dataset_rows.gpqa(row, seed=0) for row in rows]
    for one in made:
        assert one["choices"]["ABCD".index(one["answer"])] == "right"
        assert sorted(one["choices"]) == ["right", "wrong 1", "wrong 2", "wrong 3"]
    letters = [one["answer"] for one in made]
    assert all(35 <= letters.count(letter) <= 65 for letter in "ABCD")  # 50 +- 2.4 sigma
    assert letters != [dataset_rows.gpqa(row, seed=1)["answer"] for row in rows]


def test_open_gpqa_shows_no_choice_and_grades_the_text_of_the_right_answer(hub):
    row = {"Question": "Which sample is larger?", "Correct Answer": " sample B\n",
           **{f"Incorrect Answer {i}": f"wrong {i}" for i in (1, 2, 3)}}  # fmt: skip
    key = "eval=gpqa_open"
    hub(NODES[key]["hub"], NODES[key]["revision"], {"train.parquet": [row]})
    (prompt,) = loaded(key, config=None, rows=1, kept=1)
    assert "Which sample is larger?" in prompt.text
    assert not any(word in prompt.text for word in ("sample B", "wrong", "A."))
    verdicts = [verify(rf"So it is \boxed{{{said}}}.", prompt.reference, convention="math_verify")
                for said in ("sample B", "sample C", "B")]  # fmt: skip
    assert [one.reward for one in verdicts] == [1.0, 0.0, 0.0]


def test_the_last_box_is_the_answer_and_may_be_missing():
    assert dataset_rows.boxed({"solution": r"$\boxed{1}$, no, $\fbox{2}$"}) == {"answer": "2"}
    for text in ("none", r"$\boxed{}$"):
        assert dataset_rows.boxed({"solution": text}) == {"answer": ""}


def test_amc_answers_are_whole_numbers_and_others_stay():
    assert [dataset_rows.number({"answer": a})["answer"] for a in (27.0, 27, 0.5, "025")] == [
        "27", "27", "0.5", "025",
    ]  # fmt: skip


STDIN = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]


def lcb_row(id: str, date: str) -> dict:
    hidden = zlib.compress(pickle.dumps(json.dumps(STDIN)))  # as on the hub
    return {
        "question_id": id,
        "question_content": "Add.",
        "starter_code": "",
        "public_test_cases": json.dumps(STDIN),
        "private_test_cases": base64.b64encode(hidden).decode(),
        "metadata": "{}",
        "contest_date": f"{date}T00:00:00",
        "difficulty": "easy",
    }


def test_livecodebench_files_and_window(hub):
    files = {
        "test.jsonl": [lcb_row("a", "2024-07-31")],
        "test2.jsonl": [
            lcb_row("b", "2024-08-01"), lcb_row("c", "2025-04-30"), lcb_row("d", "2025-05-01"),
        ],
        "other.jsonl": [{"broken": 1}],
    }  # fmt: skip
    key = "eval=livecodebench_v6"
    folder = hub(NODES[key]["hub"], NODES[key]["revision"], files)
    (folder / "code_generation_lite.py").write_text("raise SystemExit")  # as on the hub
    some = {"files": ["test.jsonl", "test2.jsonl"]}
    prompts = loaded(key, **some, rows=4, kept=2)
    assert [p.id for p in prompts] == ["b", "c"]
    assert len(json.loads(prompts[0].reference)["tests"]) == 2  # public and private
    assert len(loaded(key, **some, rows=4, kept=4, window=None)) == 4
    with refuses("livecodebench_v6.rows", 1055):
        loaded(key, **some)
    with refuses("files", "['none*']"):
        loaded(key, files=["none*"])


def test_taco_rows_without_tests_are_dropped(hub, capsys):
    cases = [
        json.dumps({"inputs": ["1\n", ["2", "3"]], "outputs": ["2\n", ["4"]]}),
        json.dumps({"fn_name": "f", "inputs": [[[1, 2], "x"]], "outputs": [[True]]}),
        json.dumps({"inputs": [], "outputs": []}),
        "",
    ]
    rows = [
        {"question": f"P{i}", "starter_code": "", "input_output": text, "difficulty": "EASY",
         "source": "x"}
        for i, text in enumerate(cases)
    ]  # fmt: skip
    key = "data=taco"
    parts = {"train-0": rows[:2], "train-1": rows[2:], "test-0": rows}
    hub(NODES[key]["hub"], "main", {f"ALL/{n}.parquet": part for n, part in parts.items()})
    prompts = loaded(key, rows=4, kept=2)
    assert [p.id for p in prompts] == ["taco-0", "taco-1"]
    assert [json.loads(p.reference)["fn_name"] for p in prompts] == [None, "f"]
    assert "2 with empty input_output" in capsys.readouterr().err


def test_codecontests_rows_that_cannot_be_judged_are_dropped(hub, capsys):
    tests = {"input": ["1"], "output": ["2"]}
    row = {
        "name": "n", "description": "P", "difficulty": 7, "source": 2,
        "public_tests": tests, "private_tests": tests,
        "generated_tests": {"input": ["3"], "output": ["4"]},
        "time_limit": {"seconds": 7, "nanos": 0}, "input_file": "", "output_file": "",
    }  # fmt: skip
    none = {"input": [], "output": []}
    rows = [
        row,
        row | {"output_file": "out.txt"},
        row | {f"{kind}_tests": none for kind in ("public", "private", "generated")},
        row | {"public_tests": none},
    ]
    key = "data=codecontests"
    hub(NODES[key]["hub"], NODES[key]["revision"], {"data/train-0.parquet": rows})
    prompts = loaded(key, rows=4, kept=2)
    assert [p.id for p in prompts] == ["codecontests-0", "codecontests-3"]
    assert [len(json.loads(p.reference)["tests"]) for p in prompts] == [3, 2]
    assert json.loads(prompts[0].reference)["time_limit"] == 7
    assert "2 with empty public_tests" in capsys.readouterr().err
