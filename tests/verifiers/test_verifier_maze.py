import random

import pytest

from common.tasks import maze
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


def simple_paths(grid: str) -> set[str]:
    """All, by trying everything on rows and columns."""
    rows = grid.split("/")
    step = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
    at = next((r, row.index("S")) for r, row in enumerate(rows) if "S" in row)
    found, left = set(), [("", at, {at})]
    while left:
        path, (r, c), seen = left.pop()
        if rows[r][c] == "G":
            found.add(path)
        for move, (dr, dc) in step.items():
            after = r + dr, c + dc
            if rows[after[0]][after[1]] != "#" and after not in seen:
                left.append((path + move, after, seen | {after}))
    return found


@pytest.mark.parametrize("loops", [0, 3])
def test_exactly_the_target_or_exactly_all_simple_paths_are_right(loops):
    rng = random.Random(0)
    for prompt in maze.mazes(split="train", size=20, seed=0, side=9, loops=loops):
        grid, target = prompt.reference.split(" ")
        right = simple_paths(grid)
        assert target in right
        assert len(right) == 1 or loops
        assert min(map(len, right)) == len(target)
        tried = right | {path[:-1] for path in right} | {path + "U" for path in right}
        for path in sorted(right):  # one move is another
            i = rng.randrange(len(path))
            tried |= {path[:i] + move + path[i + 1 :] for move in "UDLR"}
        for path in tried - {""}:
            verdicts = [verify(path + "!", prompt.reference, accept=a) for a in ("target", "any")]
            wanted = [path == target, path in right]
            assert [v.outcome == "correct" for v in verdicts] == wanted
            assert {v.parsed for v in verdicts} == {path}


def test_the_reference_is_the_answer_and_its_example_is_right():
    assert reference({"answer": TARGET}) == TARGET
    assert verify(example(TARGET), TARGET).outcome == "correct"
