"""Puzzles whose answer is a grid of marks, checked by their rules, and minesweeper, whose answer is
a list of places. Each check returns "" or what is wrong (parse.Task)."""

import re
from typing import Any

from common.verifiers.synlogic.parse import FENCED, Task, Unparsed, grid, misshapen

Rows = list[list[str]]
Place = tuple[int, int]

STRAIGHT = ((-1, 0), (1, 0), (0, -1), (0, 1))
ARROWS = {
    "↑": (-1, 0), "↓": (1, 0), "←": (0, -1), "→": (0, 1),
    "↖": (-1, -1), "↗": (-1, 1), "↘": (1, 1), "↙": (1, -1),
}  # fmt: skip
DIGITS = re.compile(r"[0-9]{1,4}")
NO_MINES = re.compile(r"\[\s{0,9}\]\W{0,9}\Z")


def kukurasu(rows: Rows, answer: Any, puzzle: dict) -> str:
    """Check that the cells are "1" or "X" and that the sums are right: a 1 adds the number of its
    column to the sum of its row, and the number of its row to the sum of its column."""
    height, width = len(puzzle["row_sums"]), len(puzzle["col_sums"])
    if fault := misshapen(rows, height, width):
        return fault
    if not all(cell in ("1", "X") for row in rows for cell in row):
        return "a cell is neither 1 nor X"
    sums = [sum(j + 1 for j in range(width) if row[j] == "1") for row in rows]
    if sums != puzzle["row_sums"]:
        return f"the row sums are {sums}"
    sums = [sum(i + 1 for i in range(height) if rows[i][j] == "1") for j in range(width)]
    return "" if sums == puzzle["col_sums"] else f"the column sums are {sums}"


def campsite(rows: Rows, answer: Any, puzzle: dict) -> str:
    """Check that there are as many tents "C" as the row, column and tree counts say, that no two
    tents touch, and that each is paired with one tree above, below or beside it. (The prompts say
    "next to exactly one tree", but stored answers have tents between two trees.)"""
    trees = puzzle["grid"]
    if fault := misshapen(rows, len(trees), len(trees[0])):
        return fault
    for i, row in enumerate(trees):
        for j, cell in enumerate(row):
            if (cell == "T") != (rows[i][j] == "T") or rows[i][j] not in ("T", "C", "X"):
                return f"row {i + 1}, column {j + 1} is no tent, no blank and no tree of the puzzle"
    if [row.count("C") for row in rows] != puzzle["row_constraints"]:
        return "wrong number of tents in a row"
    if [column.count("C") for column in zip(*rows, strict=True)] != puzzle["col_constraints"]:
        return "wrong number of tents in a column"
    tents = _places(rows, "C")
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    if any(set(_neighbours(tent, around)) & set(tents) for tent in tents):
        return "two tents touch"
    wood = _places(rows, "T")
    if len(tents) != len(wood):
        return f"{len(tents)} tents for {len(wood)} trees"
    beside = {tent: [p for p in _neighbours(tent, STRAIGHT) if p in wood] for tent in tents}
    return "" if _paired(beside) else "the tents cannot be paired with trees beside them"


def number_wall(rows: Rows, answer: Any, puzzle: dict) -> str:
    """Check that walls "A" divide the rest into islands with one number each, the island's size,
    and that there is no 2 x 2 block of walls. As upstream, islands must not touch at a corner
    either."""
    clues = puzzle["grid"]
    if fault := misshapen(rows, len(clues), len(clues[0])):
        return fault
    for i, row in enumerate(clues):
        for j, clue in enumerate(row):
            allowed = ("A", "X") if clue == "X" else (str(clue),)
            if rows[i][j] not in allowed:
                return f"row {i + 1}, column {j + 1} is not one of {', '.join(allowed)}"
    land = {p for p in _all_places(rows) if rows[p[0]][p[1]] != "A"}
    island: dict[Place, int] = {}
    for number, start in enumerate(sorted(land)):
        if start in island:
            continue
        cells = _connected(start, land)
        island.update(dict.fromkeys(cells, number))
        sizes = [rows[i][j] for i, j in cells if rows[i][j] != "X"]
        if sizes != [str(len(cells))]:
            return f"an island of {len(cells)} cells with the numbers {sizes}"
    for i in range(len(rows) - 1):
        for j in range(len(rows[0]) - 1):
            block = [(i, j), (i, j + 1), (i + 1, j), (i + 1, j + 1)]
            if not any(p in land for p in block):
                return f"walls in a 2 x 2 block at row {i + 1}, column {j + 1}"
            if len({island[p] for p in block if p in land}) > 1:
                return f"two islands touch at row {i + 1}, column {j + 1}"
    return ""


def arrow_maze(rows: Rows, answer: Any, puzzle: dict) -> str:
    """Check that the blanks hold arrows and that each number is the count of arrows in the straight
    runs that lead away from it. As upstream, each arrow must belong to such a run."""
    maze = puzzle["maze"]
    if fault := misshapen(rows, len(maze), len(maze[0])):
        return fault
    for i, row in enumerate(maze):
        for j, cell in enumerate(row):
            if not (rows[i][j] in ARROWS if cell == "X" else rows[i][j] == str(cell)):
                return f"row {i + 1}, column {j + 1} is no arrow or a changed clue"
    reached: set[Place] = set()
    for i, j in _all_places(rows):
        if rows[i][j] in ARROWS:
            continue
        run = [p for arrow in ARROWS for p in _run(rows, (i, j), arrow)]
        if len(run) != int(rows[i][j]):
            return f"{len(run)} arrows lead from the {rows[i][j]} of row {i + 1}, column {j + 1}"
        reached.update(run)
    arrows = [(i, j) for i, j in _all_places(rows) if rows[i][j] in ARROWS]
    return "" if reached == set(arrows) else "an arrow leads from no number"


def mines(text: str) -> list[list[str]]:
    """Return the places (row, column) of the last list of pairs, sorted, each once; [] at the end
    of the text means that there are no mines."""
    try:
        pairs = grid(text)
    except Unparsed:
        if NO_MINES.search(text):
            return []
        raise
    if not all(len(pair) == 2 and all(DIGITS.fullmatch(x) for x in pair) for pair in pairs):
        raise Unparsed("the last list holds something other than places (row, column)")
    places = sorted({(int(i), int(j)) for i, j in pairs})
    return [[str(i), str(j)] for i, j in places]


def same_mines(places: Rows, answer: Any, puzzle: dict) -> str:
    return "" if places == mines(answer) else "not the mines that can be deduced"


def _all_places(rows: Rows) -> list[Place]:
    return [(i, j) for i, row in enumerate(rows) for j in range(len(row))]


def _places(rows: Rows, mark: str) -> list[Place]:
    return [(i, j) for i, j in _all_places(rows) if rows[i][j] == mark]


def _neighbours(place: Place, steps) -> list[Place]:
    return [(place[0] + i, place[1] + j) for i, j in steps]


def _connected(start: Place, land: set[Place]) -> set[Place]:
    reached, new = {start}, [start]
    while new:
        for place in _neighbours(new.pop(), STRAIGHT):
            if place in land and place not in reached:
                reached.add(place)
                new.append(place)
    return reached


def _run(rows: Rows, start: Place, arrow: str) -> list[Place]:
    """Return the places of the arrows of one kind that lead away from `start` without a gap."""
    step, places = ARROWS[arrow], []
    i, j = start[0] + step[0], start[1] + step[1]
    while 0 <= i < len(rows) and 0 <= j < len(rows[0]) and rows[i][j] == arrow:
        places.append((i, j))
        i, j = i + step[0], j + step[1]
    return places


def _paired(choices: dict[Place, list[Place]]) -> bool:
    """Return whether all keys can have different choices (by augmenting paths)."""
    owner: dict[Place, Place] = {}

    def place(key: Place, tried: set[Place]) -> bool:
        for choice in choices[key]:
            if choice not in tried:
                tried.add(choice)
                if choice not in owner or place(owner[choice], tried):
                    owner[choice] = key
                    return True
        return False

    return all(place(key, set()) for key in choices)


TASKS = {
    "kukurasu": Task(grid, kukurasu, FENCED, ("row_sums", "col_sums"), "solution"),
    "campsite": Task(
        grid, campsite, FENCED, ("grid", "row_constraints", "col_constraints"), "solution"
    ),
    "number_wall": Task(grid, number_wall, FENCED, ("grid",), "solution"),
    "arrow_maze": Task(grid, arrow_maze, FENCED, ("maze",), "solution"),
    "minesweeper": Task(mines, same_mines, "{}", (), "current_mines", gold=True),
}
