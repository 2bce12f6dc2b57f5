import pytest

from common.verifiers.maze import example, reference, verify

#   S . .      two ways round a block, of 4 and of 8 moves
#   . # .
#   G . .
GRID = "#####/#S..#/#.#.#/#G..#/#####"
TARGET = f"{GRID} DD"


@pytest.mark.parametrize(
    ("response", "target", "any_"),
    [
        ("DD!", "correct", "correct"),
        ("RRDDLL!", "wrong: reaches the goal by another path", "correct"),
        ("D!", "wrong: ends beside the goal", None),
        ("RDDL!", "wrong: move 2 goes into a wall", None),
        ("DRDL!", "wrong: move 2 goes into a wall", None),  # through the block
        ("U!", "wrong: move 1 goes into a wall", None),  # the border
        ("RLDD!", "wrong: move 2 goes back to a cell", None),
        ("DD", "unparsed: not moves and !", None),
        ("!", "unparsed: not moves and !", None),
        ("", "unparsed: not moves and !", None),
        ("DD!!", "unparsed: not moves and !", None),
        ("DGD!", "unparsed: not moves and !", None),
        ("D" * 100_000 + "!", "wrong: move 3 goes into a wall", None),
    ],
)
def test_cases_by_hand(response, target, any_):
    for accept, wanted in (("target", target), ("any", any_ or target)):
        verdict = verify(response, TARGET, accept=accept)
        assert f"{verdict.outcome}: {verdict.reason}".removesuffix(": ") == wanted
        assert verdict.reward == (verdict.outcome == "correct")


def test_a_graded_reward_is_the_targets_length_over_its_own():
    given = {"accept": "any", "graded": True}
    assert verify("DD!", TARGET, **given).reward == 1.0
    long = verify("RRDDLL!", TARGET, **given)
    assert (long.outcome, long.reward, long.parsed) == ("correct", 2 / 6, "RRDDLL")
    assert verify("D!", TARGET, **given).reward == 0.0


def test_the_reference_is_the_answer_and_its_example_is_right():
    assert reference({"answer": TARGET}) == TARGET
    assert verify(example(TARGET), TARGET).outcome == "correct"
