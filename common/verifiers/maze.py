"""Verifier of maze paths: the target path alone, or any path to the goal."""

import re

from common.errors import require
from common.tasks.maze import DONE, GOAL, MOVES, START, WALL, offsets, shortest
from common.types import Verdict

ACCEPTED = ("target", "any")
PATH = re.compile(f"[{MOVES}]+{DONE}")


def verify(
    response: str, reference: str, *, accept: str = "target", graded: bool = False
) -> Verdict:
    """Return the verdict on a response like "RRDD!" against a reference, "<grid> <target path>".

    accept   "target": the target path alone is correct (F-GRPO v2 App. K: "evaluated against a
             single target action sequence"). "any": so is every path that goes through no wall,
             visits no cell twice and ends at the goal
    graded   the reward of a correct path is the target's length divided by its own; the outcome and
             all that is counted from it stay the same

    A response other than moves and an end token is "unparsed"; `parsed` is the moves. Raises
    UserError for an unknown option.
    """
    require(accept in ACCEPTED, "accept", accept, f"one of {', '.join(ACCEPTED)}")
    text = "".join(response.split())
    if not PATH.fullmatch(text):
        return Verdict("unparsed", 0.0, reason=f"not moves and {DONE}")
    path = text.removesuffix(DONE)
    grid, target = reference.split(" ")
    reason = fault(grid, path)
    if not reason and accept == "target" and path != target:
        reason = "reaches the goal by another path"
    if reason:
        return Verdict("wrong", 0.0, path, reason)
    return Verdict("correct", len(target) / len(path) if graded else 1.0, path)


def fault(grid: str, path: str) -> str:
    """Return what is wrong with a path from the start of the grid; "" if it leads to the goal."""
    ahead, cell = offsets(grid), grid.index(START)
    seen = {cell}
    for number, move in enumerate(path, 1):
        cell += ahead[move]
        if grid[cell] == WALL:
            return f"move {number} goes into a wall"
        if cell in seen:
            return f"move {number} goes back to a cell"
        seen.add(cell)
    return "" if cell == grid.index(GOAL) else "ends beside the goal"


def reference(row: dict) -> str:
    """Return the answer of a row: grid and target path, as in "#####/#S.G#/##### RR". Raises
    UserError if it has another form, or its path is not a shortest one."""
    text = str(row.get("answer", ""))
    grid, _, path = text.partition(" ")
    try:
        right = not fault(grid, path) and len(path) == len(shortest(grid))
    except (ValueError, KeyError, IndexError):
        right = False
    require(
        right,
        f"row id={row.get('id')!r}, answer",
        repr(text[:80]),
        'must be a grid and a shortest path, as in "#####/#S.G#/##### RR"',
    )
    return text


def example(reference: str) -> str:
    return reference.split(" ")[1] + DONE
