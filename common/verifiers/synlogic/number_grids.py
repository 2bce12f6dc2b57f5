"""Puzzles whose answer is a grid of whole numbers, checked by their rules, so that any valid
solution is right. Each check gets a square of the puzzle's size, and returns "" or what is
wrong."""

import re
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

from common.verifiers.synlogic.parse import FENCED, Task, Unparsed, grid, misshapen

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,8}")
Grid = list[list[int]]
Rule = Callable[[Grid, str | None, dict], str]


def read(text: str) -> list[list[str]]:
    """Return the last grid of whole numbers; rows may also be "4 3 1 2", without commas."""
    rows = grid(text)
    if len(rows) == 1 and all(" " in atom for atom in rows[0]):
        rows = [atom.split() for atom in rows[0]]  # [[4 3 1 2,1 2 3 4]]
    elif all(len(row) == 1 and " " in row[0] for row in rows):
        rows = [row[0].split() for row in rows]  # [[4 3 1 2],[1 2 3 4]]
    if not all(INTEGER.fullmatch(atom) for row in rows for atom in row):
        raise Unparsed("the last grid holds something other than whole numbers")
    return rows


def sudoku(cells: Grid, answer: str | None, puzzle: dict) -> str:
    """Check that each row, column and box holds 1 to 9 once and that the clues are unchanged."""
    clues, n = puzzle["original_sudoku"], len(cells)
    side = round(n**0.5)
    corners = [(top, left) for top in range(0, n, side) for left in range(0, n, side)]
    places = [(i, j) for i in range(side) for j in range(side)]
    boxes = [[cells[top + i][left + j] for i, j in places] for top, left in corners]
    return _clues(cells, clues, "X") or _latin(cells) or _permutations(boxes, "box")


def futoshiki(cells: Grid, answer: str | None, puzzle: dict) -> str:
    """Check for a Latin square with the clues and the inequalities. The metadata has only the
    places of the clues; their values are taken from the stored answer. The generator draws the
    inequalities without looking at its grid, so the stored answer usually breaks them and is then
    wrong too."""
    if fault := _latin(cells):
        return fault
    stored = _integers(read(answer))
    for i, j in puzzle["prefilled_coords"]:
        if cells[i][j] != stored[i][j]:
            return f"the clue of row {i + 1}, column {j + 1} is changed"
    for (i, j), (m, n), sign in puzzle["constraints"]:
        if not (cells[i][j] < cells[m][n] if sign == "<" else cells[i][j] > cells[m][n]):
            return f"({i + 1},{j + 1}) {sign} ({m + 1},{n + 1}) does not hold"
    return ""


def calcudoko(cells: Grid, answer: str | None, puzzle: dict) -> str:
    """Check for a Latin square whose cages hold no number twice and give their targets.

    As in the generator, "÷" is the whole quotient larger // smaller and "-" is the difference, of
    the first two cells of a cage. Some of its answers break the rule against repetition, so the
    stored answer is right whatever the rules say.
    """
    if answer and cells == _integers(read(answer)):
        return ""
    if fault := _latin(cells):
        return fault
    for cage in puzzle["regions"]:
        values = [cells[i - 1][j - 1] for i, j in map(_place, cage["cells"])]
        if len(set(values)) < len(values):
            return f"a number twice in the cage of {cage['cells'][0]}"
        low, high = sorted(values[:2]) if len(values) > 1 else (0, values[0])
        if cage["operator"] == "+":
            result = sum(values)
        elif cage["operator"] == "*":
            result = prod(values)
        else:
            result = high - low if cage["operator"] == "-" or low == 0 else high // low
        if result != cage["target"]:
            return f"the cage of {cage['cells'][0]} gives {result}, not {cage['target']}"
    return ""


def skyscraper(cells: Grid, answer: str | None, puzzle: dict) -> str:
    """Check for a Latin square in which each edge number counts the towers seen from there."""
    if fault := _latin(cells):
        return fault
    columns = [list(column) for column in zip(*cells, strict=True)]
    for side, lines in (("top", columns), ("bottom", columns), ("left", cells), ("right", cells)):
        for i, (line, count) in enumerate(zip(lines, puzzle[side], strict=True)):
            line = line[::-1] if side in ("bottom", "right") else line
            seen = sum(tower > max(line[:j], default=0) for j, tower in enumerate(line))
            if seen != count:
                return f"{seen} towers are seen from {side} {i + 1}, not {count}"
    return ""


def survo(cells: Grid, answer: str | None, puzzle: dict) -> str:
    """Check that the blanks (0) hold the given numbers, once each, and that the last row and column
    are the sums."""
    clues = puzzle["original_matrix"]
    if fault := _clues(cells, clues, 0):
        return fault
    n = range(len(clues))
    used = [cells[i][j] for i in n for j in n if clues[i][j] == 0]
    if Counter(used) != Counter(puzzle["candidate_numbers"]):
        return "the numbers filled in are not the given ones"
    for name, lines in (("row", cells), ("column", list(zip(*cells, strict=True)))):
        for i, line in enumerate(lines[:-1]):
            if sum(line[:-1]) != line[-1]:
                return f"{name} {i + 1} sums to {sum(line[:-1])}, not {line[-1]}"
    return ""


def numbrix(cells: Grid, answer: str | None, puzzle: dict) -> str:
    """Check that the grid holds 1 to n*n once each, that successive numbers are neighbours in a row
    or column, and that the clues are unchanged."""
    clues, n = puzzle["grid"], len(cells)
    place = {cell: (i, j) for i, row in enumerate(cells) for j, cell in enumerate(row)}
    if sorted(place) != list(range(1, n * n + 1)):
        return f"not each of 1 to {n * n} once"
    for number in range(1, n * n):
        (i, j), (row, column) = place[number], place[number + 1]
        if abs(i - row) + abs(j - column) != 1:
            return f"{number} and {number + 1} are not neighbours"
    return _clues(cells, clues, "X")


def _integers(rows: list[list[str]]) -> Grid:
    return [[int(cell) for cell in row] for row in rows]


def _clues(cells: Grid, clues: list[list], blank: Any) -> str:
    for i, row in enumerate(clues):
        for j, clue in enumerate(row):
            if clue != blank and cells[i][j] != int(clue):
                return f"the clue {clue} of row {i + 1}, column {j + 1} is changed"
    return ""


def _permutations(lines: list, name: str) -> str:
    for i, line in enumerate(lines):
        if sorted(line) != list(range(1, len(line) + 1)):
            return f"{name} {i + 1} does not hold each of 1 to {len(line)} once"
    return ""


def _latin(cells: Grid) -> str:
    columns = list(zip(*cells, strict=True))
    return _permutations(cells, "row") or _permutations(columns, "column")


def _place(cell: str | list) -> tuple[int, int]:
    """Return (2, 3) for "(2,3)" or [2, 3]."""
    i, j = re.findall(r"\d+", str(cell))
    return int(i), int(j)


def _square(rule: Rule, form: str, keys: tuple[str, ...], **more: Any) -> Task:
    """Return a task whose answer is a square as large as the first of its keys says or is."""

    def check(rows: list[list[str]], answer: str | None, puzzle: dict) -> str:
        size = puzzle[keys[0]]
        side = size if isinstance(size, int) else len(size)
        return misshapen(rows, side, side) or rule(_integers(rows), answer, puzzle)

    return Task(read, check, form, keys, **more)


FUTOSHIKI = ("grid_size", "prefilled_coords", "constraints")
SKYSCRAPER = ("n", "top", "bottom", "left", "right")
SURVO = ("original_matrix", "candidate_numbers")
TASKS = {
    "sudoku": _square(sudoku, FENCED, ("original_sudoku",), stored="complete_sudoku"),
    "futoshiki": _square(futoshiki, "", FUTOSHIKI, gold=True),
    "calcudoko": _square(calcudoko, "{}", ("grid_size", "regions")),
    "skyscraper_puzzle": _square(skyscraper, FENCED, SKYSCRAPER, stored="solved_grid"),
    "survo": _square(survo, FENCED, SURVO, stored="filled_matrix"),
    "numbrix": _square(numbrix, FENCED, ("grid",), stored="solution"),
}
