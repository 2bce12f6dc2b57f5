import json

import pytest
from labelled import rows
from synlogic_puzzles import HOSTILE, PUZZLES
from timing import cpu_seconds

from common.verifiers import synlogic


def reference(task: str) -> str:
    puzzle = PUZZLES[task]
    row = {"id": task, "data_source": task, "answer": puzzle.answer, "metadata": puzzle.metadata}
    return synlogic.reference(row)


def test_every_task_has_a_puzzle_here():
    assert set(PUZZLES) == set(synlogic.TASKS)


@pytest.mark.parametrize("task", PUZZLES)
def test_puzzle_worked_out_by_hand(task):
    puzzle = PUZZLES[task]
    cases = [("correct", text, "") for text in puzzle.right]
    cases += [("unparsed", text, "") for text in puzzle.unparsed]
    cases += [("wrong", text, reason) for text, reason in puzzle.wrong.items()]
    for outcome, text, reason in cases:
        verdict = synlogic.verify(text, reference(task))
        assert (verdict.outcome, verdict.reward) == (outcome, outcome == "correct"), (text, verdict)
        assert reason in verdict.reason
        assert (verdict.parsed is None) == (outcome == "unparsed")


@pytest.mark.parametrize("task", PUZZLES)
def test_only_the_answer_behind_the_thinking_counts(task):
    for good in PUZZLES[task].right:
        for bad in PUZZLES[task].wrong:
            text = f"<think>{good}</think>\n{bad}"
            assert synlogic.verify(text, reference(task)).outcome == "wrong", text
            text = f"<think>{bad}</think>\n{good}"
            assert synlogic.verify(text, reference(task)).outcome == "correct", text
        assert synlogic.verify(f"<think>{good}", reference(task)).outcome == "unparsed"


def test_answers_that_count_as_the_same_are_parsed_the_same():
    for task in ("futoshiki", "minesweeper", "space_reasoning_tree", "goods_exchange"):
        parsed = {synlogic.verify(text, reference(task)).parsed for text in PUZZLES[task].right[:2]}
        assert len(parsed) == 1, (task, parsed)


RUN = "__import__('pathlib').Path('run').touch()"
PROGRAMS = [f"```python\n{RUN}\n```", f"```python\n[[{RUN}]]\n```", f"[[{RUN} = 1]]"]
PROGRAMS += [f"(({RUN}, 1), (2, 3))", f"\\boxed{{{RUN}}}", f"The answer is {RUN}"]


@pytest.mark.parametrize("task", PUZZLES)
def test_hostile_text_is_judged_at_once_and_programs_are_not_run(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in [*HOSTILE, *PROGRAMS]:
        seconds, verdict = cpu_seconds(synlogic.verify, text, reference(task))
        assert seconds < 1, text[:40]
        assert verdict.outcome in ("wrong", "unparsed"), text[:40]
        assert len(verdict.parsed or "") <= 200
        assert len(verdict.reason) <= 300
        json.dumps([verdict.parsed, verdict.reason], ensure_ascii=False).encode()
    assert list(tmp_path.iterdir()) == []


def test_steps_without_an_error():
    row = {"data_source": "dyck_language_reasoning_errors", "answer": ""}
    node = synlogic.reference({**row, "metadata": {"error_indices": []}})
    for text in (synlogic.example(node), '""', "```\n\n```", "no errors", "无错误"):
        assert synlogic.verify(text, node).outcome == "correct", text
    assert synlogic.verify("3", node).outcome == "wrong"
    for text in ("I could not find the answer.", ""):
        assert synlogic.verify(text, node).outcome == "unparsed", text


def camp(grid: list, rows: list, columns: list) -> dict:
    return {"grid": grid, "row_constraints": rows, "col_constraints": columns}


CROSSED = [{"cells": ["(1,1)", "(2,2)"], "target": 2, "operator": "+"}]


@pytest.mark.parametrize(
    ("task", "puzzle", "text", "reason"),
    [
        (  # rows and columns hold each number, the boxes do not
            "sudoku",
            {"original_sudoku": [["X"] * 9] * 9},
            str([[(i + j) % 9 + 1 for j in range(9)] for i in range(9)]),
            "box 1 does not hold each of 1 to 9 once",
        ),
        ("calcudoko", {"grid_size": 2, "regions": CROSSED}, "[[1 2,2 1]]",
         "a number twice in the cage of (1,1)"),
        ("skyscraper_puzzle", {"n": 1, "top": [2], "bottom": [1], "left": [1], "right": [1]},
         "[[1]]", "1 towers are seen from top 1, not 2"),
        ("kukurasu", {"row_sums": [3], "col_sums": [1, 1, 0]}, "[[X, X, 1]]",
         "the column sums are [0, 0, 1]"),
        ("arrow_maze", {"maze": [["2", "X", "X"], ["X", "1", "X"]]},
         '[["2", "→", "→"], ["←", "1", "↑"]]', "an arrow leads from no number"),
        ("campsite", camp([["T", "X", "X"], ["X", "X", "T"]], [1, 1], [0, 2, 0]),
         "[[T,C,X],[X,C,T]]", "two tents touch"),
        ("campsite", camp([["T", "X", "T"]], [1], [0, 1, 0]), "[[T,C,T]]", "1 tents for 2 trees"),
        (  # both tents beside the upper tree
            "campsite",
            camp([[*"XTX"], [*"XXX"], [*"XTX"], [*"XXX"]], [2, 0, 0, 0], [1, 0, 1]),
            "[[C,T,C],[X,X,X],[X,T,X],[X,X,X]]",
            "paired",
        ),
        ("number_wall", {"grid": [[1, "X"], ["X", 1]]}, "[[1,A],[A,1]]", "touch"),
        ("cryptarithm", {"letter_words": ["AB", "C", "AD"], "operators": ["+"]},
         "The answer is 11 + 2 = 13", "two letters with one digit"),
        ("cryptarithm", {"letter_words": ["AB", "C", "AD"], "operators": ["+"]},
         "The answer is 01 + 2 = 03", "leading zero"),
    ],
)  # fmt: skip
def test_one_broken_rule_is_enough(task, puzzle, text, reason):
    verdict = synlogic.verify(text, synlogic.reference({"data_source": task, "metadata": puzzle}))
    assert verdict.outcome == "wrong"
    assert reason in verdict.reason


def test_an_answer_far_from_the_end_or_with_crossed_brackets_is_none():
    node = reference("object_properties")
    assert synlogic.verify("\\boxed{4}" + "." * 90_000, node).outcome == "correct"
    assert synlogic.verify("\\boxed{4}" + "." * 100_000, node).outcome == "unparsed"
    assert synlogic.verify("[(1, 2], [4, 3))", reference("numbrix")).outcome == "unparsed"


def test_hub_rows_give_the_same_reference():
    puzzle = PUZZLES["survo"]
    game = {"question": "Fill", "answer": puzzle.answer, "metadata": puzzle.metadata}
    for extra in ({"game_data_str": json.dumps(game)}, json.dumps({"game_data_str": repr(game)})):
        row = {"data_source": "synlogic/survo", "extra_info": extra}
        assert synlogic.reference(row) == reference("survo")
    game["metadata"] = repr(puzzle.metadata)
    row = {"data_source": "survo", "extra_info": {"game_data_str": json.dumps(game)}}
    assert synlogic.reference(row) == reference("survo")
    row = {"data_source": "game_of_24", "answer": "", "metadata": PUZZLES["mathador"].metadata}
    assert synlogic.reference(row) == reference("mathador")


def test_every_shared_case_is_judged_as_labelled():
    references = {row["id"]: synlogic.reference(row) for row in rows("synlogic_sample")}
    cases = rows("synlogic_cases")
    assert len(cases) == 300
    for case in cases:
        verdict = synlogic.verify(case["response"], references[case["problem_id"]])
        assert (verdict.outcome == "correct") == case["correct"], (case["id"], verdict)
        unparsed = case["intended"] == "no answer"
        assert (verdict.outcome == "unparsed") == unparsed, (case["id"], verdict)


def test_stored_answers_are_right_but_futoshikis():
    for row in rows("synlogic_sample"):
        node = synlogic.reference(row)
        text = synlogic.example(node)
        if row["data_source"] == "futoshiki":
            stored = synlogic.verify(str(row["answer"]), node)
            assert (text, stored.outcome) == (None, "wrong")
            assert "does not hold" in stored.reason
        elif row["data_source"] == "mathador":
            assert text is None  # no expression is stored
        else:
            assert synlogic.verify(text, node).outcome == "correct", row["id"]
