"""Mazes: walk from the start to the goal of a grid of symbols, one move per token.

F-GRPO's second version trains on 17 x 17 mazes (App. K), in the set-up of MaxRL (arXiv 2602.02710;
repository tajwarfahim/maxrl, folder maze). Walls take cells of the grid: 17 x 17 cells are 8 x 8
rooms, and two doors in a row on a path are two moves apart. Without loops the rooms form a tree,
and one path leads to the goal: the paper's single target sequence. `loops` opens that many more
doors, so that a prompt has many right paths; the target is then the first of the shortest paths in
the order of MOVES. A hash of grid, start and goal splits mazes into train, dev (for choosing
hyperparameters) and test.

What differs from the set-up, and what is an argument:

    tokens     MaxRL's are words such as WALL or NEWLINE. Ours are one character each, in the same
               roles, without marks around or before the grid, plus unused tokens up to 32
    draws      MaxRL's maze/generate_maze.py (commit c0698eb) draws a million mazes by randomised
               Prim from the corner (1, 1) to (15, 15), with seed 0, and holds 256 of them out:
               generator "prim", ends "corners". Ours are other mazes of the same distribution. The
               other generator is "depth_first" (long corridors), the other ends two "random" rooms
"""

import random
from collections import deque
from functools import lru_cache

from common.errors import require
from common.tasks.splits import check_split, split_of
from common.types import Prompt

WALL, FREE, START, GOAL, ROW_END, ASK, DONE = "#.SG/>!"
MOVES = "UDLR"  # up, down, left, right
USED = (WALL, FREE, START, GOAL, ROW_END, ASK, DONE, *MOVES)
VOCABULARY = 32  # tokens of the public model, end and padding included
WORDS = (*USED, *(f"<{i}>" for i in range(VOCABULARY - 2 - len(USED))))  # the model's tokens
ENDS = ("random", "corners")

Cell = int  # a cell's index in the grid's text, where a row is `side` cells and ROW_END
Door = tuple[int, int]  # two neighbouring rooms, by number, the smaller first


def mazes(
    *,
    split: str,
    size: int,
    seed: int,
    side: int,
    loops: int,
    generator: str = "depth_first",
    ends: str = "random",
    least: int = 0,
) -> list[Prompt]:
    """Return `size` distinct prompts of a split: mazes of `side` x `side` cells with `loops` doors
    more than a tree has, and no path of fewer than `least` moves. The draw is seeded. A reference
    is the grid and the target path. Raises UserError for an unknown or impossible value."""
    check_split(split)
    _check(side=side, loops=loops, generator=generator, ends=ends)
    grids = _grids(split, size, seed, side, loops, generator, ends, least)
    return [
        Prompt(f"{split}-{seed}-{i}", grid + ASK, f"{grid} {path}")
        for i, (grid, path) in enumerate(grids)
    ]


def demonstrations(
    *,
    count: int,
    seed: int,
    side: int,
    loops: int,
    generator: str = "depth_first",
    ends: str = "random",
    detours: float = 0.0,
) -> list[tuple[str, str]]:
    """Return `count` (prompt text, response text) pairs, train split only. A share `detours` of the
    responses take a right path drawn at random instead of the target path."""
    _check(side=side, loops=loops, generator=generator, ends=ends)
    require(0 <= detours <= 1, "detours", detours, "must be 0..1, a share of the demonstrations")
    rng, rows = random.Random(f"maze-detours-{seed}"), []
    name = f"demonstrations-{seed}"
    for grid, path in _grids("train", count, name, side, loops, generator, ends):
        shown = wander(grid, rng) if rng.random() < detours else path
        rows.append((grid + ASK, shown + DONE))
    return rows


def shortest(grid: str) -> str:
    """Return the target path. Raises ValueError if no path leads to the goal."""
    ahead = offsets(grid)
    start, goal = grid.index(START), grid.index(GOAL)
    distance, queue = {goal: 0}, deque([goal])
    while queue and start not in distance:
        cell = queue.popleft()
        for offset in ahead.values():
            after = cell + offset
            if grid[after] != WALL and after not in distance:
                distance[after] = distance[cell] + 1
                queue.append(after)
    if start not in distance:
        raise ValueError("no path leads from start to goal")
    cell, path = start, ""
    while cell != goal:
        nearer = distance[cell] - 1
        move = next(m for m, offset in ahead.items() if distance.get(cell + offset) == nearer)
        cell += ahead[move]
        path += move
    return path


def wander(grid: str, rng: random.Random) -> str:
    """Return a right path that visits no cell twice, from a walk that turns at random and
    backtracks."""
    ahead, goal = offsets(grid), grid.index(GOAL)
    walk = [("", grid.index(START))]
    seen = {walk[0][1]}
    while walk[-1][1] != goal:
        cell = walk[-1][1]
        after = [(move, cell + offset) for move, offset in ahead.items()]
        after = [step for step in after if grid[step[1]] != WALL and step[1] not in seen]
        if after:
            walk.append(rng.choice(after))
            seen.add(walk[-1][1])
        else:
            walk.pop()
    return "".join(move for move, _ in walk)


def offsets(grid: str) -> dict[str, int]:
    """Return how far each move leads in the grid's text; walls around it keep a path inside."""
    width = grid.index(ROW_END) + 1
    return dict(zip(MOVES, (-width, width, -1, 1), strict=True))


def _check(*, side: int, loops: int, generator: str, ends: str) -> None:
    require(side >= 5 and side % 2 == 1, "side", side, "must be odd and at least 5, walls included")
    closed = len(_walls(side // 2)) - (side // 2) ** 2 + 1
    require(0 <= loops <= closed, "loops", loops, f"must be 0..{closed}, the walls that a tree has")
    require(generator in GENERATORS, "generator", generator, f"one of {', '.join(GENERATORS)}")
    require(ends in ENDS, "ends", ends, f"one of {', '.join(ENDS)}")


@lru_cache(maxsize=4)  # a worker that trains several rows makes its million mazes once
def _grids(
    split: str,
    size: int,
    seed: int | str,
    side: int,
    loops: int,
    generator: str,
    ends: str,
    least: int = 0,
) -> list[tuple[str, str]]:
    rng = random.Random(f"maze-{split}-{seed}")
    rooms = side // 2
    made: dict[str, str] = {}
    tried = 0
    while len(made) < size:
        doors = GENERATORS[generator](rng, rooms)
        if loops:
            doors = doors | set(rng.sample([d for d in _walls(rooms) if d not in doors], loops))
        start, goal = (0, rooms**2 - 1) if ends == "corners" else rng.sample(range(rooms**2), 2)
        grid = _render(rooms, doors, start, goal)
        if split_of(grid) == split and grid not in made and len(path := shortest(grid)) >= least:
            made[grid] = path
        tried += 1
        remedy = f"{split} has hardly more than {len(made)} such mazes of side={side}; lower it"
        require(tried < 1000 or len(made) > tried / 1000, "size", size, remedy)
    return list(made.items())


@lru_cache(maxsize=4)
def _walls(rooms: int) -> list[Door]:
    right = [(i, i + 1) for i in range(rooms**2) if (i + 1) % rooms]
    below = [(i, i + rooms) for i in range(rooms * (rooms - 1))]
    return right + below


@lru_cache(maxsize=4)
def _beside(rooms: int) -> list[list[int]]:
    beside: list[list[int]] = [[] for _ in range(rooms**2)]
    for a, b in _walls(rooms):
        beside[a].append(b)
        beside[b].append(a)
    return beside


def _depth_first(rng: random.Random, rooms: int) -> set[Door]:
    beside, doors = _beside(rooms), set()
    walk = [rng.randrange(rooms**2)]
    seen = set(walk)
    while walk:
        here = walk[-1]
        ahead = [room for room in beside[here] if room not in seen]
        if not ahead:
            walk.pop()
            continue
        room = ahead[int(rng.random() * len(ahead))]
        doors.add((here, room) if here < room else (room, here))
        seen.add(room)
        walk.append(room)
    return doors


def _prim(rng: random.Random, rooms: int) -> set[Door]:
    """Grow a random tree from the first room: open the door from any room beside the tree to one of
    its neighbours in the tree (randomised Prim, as in MaxRL's maze/generate_maze.py)."""
    beside, doors, tree = _beside(rooms), set(), {0}
    border = list(beside[0])
    while border:
        room = border.pop(int(rng.random() * len(border)))
        inside = [other for other in beside[room] if other in tree]
        other = inside[int(rng.random() * len(inside))]
        doors.add((room, other) if room < other else (other, room))
        tree.add(room)
        border += [new for new in beside[room] if new not in tree and new not in border]
    return doors


GENERATORS = {"depth_first": _depth_first, "prim": _prim}


def _render(rooms: int, doors: set[Door], start: int, goal: int) -> str:
    empty, place = _empty(rooms)
    cells = list(empty)
    for a, b in doors:
        cells[(place[a] + place[b]) // 2] = FREE
    cells[place[start]], cells[place[goal]] = START, GOAL
    return "".join(cells)


@lru_cache(maxsize=4)
def _empty(rooms: int) -> tuple[str, list[Cell]]:
    wall, row = WALL * (2 * rooms + 1), (WALL + FREE) * rooms + WALL
    width = len(wall) + 1
    place = [(2 * (i // rooms) + 1) * width + 2 * (i % rooms) + 1 for i in range(rooms**2)]
    return ROW_END.join([wall, *[row, wall] * rooms]), place
