import hashlib

import pytest
from refuses import refuses

from common.experiment import load
from common.models import pretrain
from common.tasks import maze
from common.tasks.maze import mazes
from common.tasks.splits import SPLITS
from common.verifiers.maze import fault

STEP = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
KINDS = [
    (side, loops, generator, ends)
    for side, loops in ((5, 0), (9, 3), (17, 0), (17, 10))
    for generator in maze.GENERATORS
    for ends in maze.ENDS
]


def drawn(split="train", size=10, seed=0, side=17, loops=0, **more):
    return mazes(split=split, size=size, seed=seed, side=side, loops=loops, **more)


def read(prompt):
    """Rows of the grid and the target, of a prompt."""
    grid, target = prompt.reference.split(" ")
    assert prompt.text == grid + maze.ASK
    return grid.split("/"), target


def every_distance(rows: list[str]) -> dict[tuple, int]:
    """Of every cell that can be reached to the goal, layer by layer."""
    goal = next((r, row.index("G")) for r, row in enumerate(rows) if "G" in row)
    distance, layer = {goal: 0}, [goal]
    while layer:
        after = {(r + dr, c + dc) for r, c in layer for dr, dc in STEP.values()}
        layer = [at for at in after if rows[at[0]][at[1]] != "#" and at not in distance]
        distance |= dict.fromkeys(layer, max(distance.values()) + 1)
    return distance


@pytest.mark.parametrize(("side", "loops", "generator", "ends"), KINDS)
def test_a_maze_is_a_tree_of_rooms_and_so_many_loops(side, loops, generator, ends):
    size = 3 if side == 5 else 10
    for prompt in drawn(size=size, side=side, loops=loops, generator=generator, ends=ends):
        rows, target = read(prompt)
        assert [len(row) for row in rows] == [side] * side
        cells = [(r, c) for r in range(side) for c in range(side) if rows[r][c] != "#"]
        assert all(0 < r < side - 1 and 0 < c < side - 1 for r, c in cells)
        assert all(rows[r][c] != "#" for r in range(1, side, 2) for c in range(1, side, 2))
        edges = sum(rows[r + dr][c + dc] != "#" for r, c in cells for dr, dc in STEP.values()) // 2
        assert edges == len(cells) - 1 + loops
        distance = every_distance(rows)
        assert set(distance) == set(cells)  # in one piece: with as many edges a tree and its loops
        at = next(cell for cell in cells if rows[cell[0]][cell[1]] == "S")
        assert at[0] % 2 == at[1] % 2 == 1
        if ends == "corners":
            assert at == (1, 1)
            assert rows[side - 2][side - 2] == "G"
        # the target is the first of the shortest
        assert len(target) == distance[at]
        for move in target:
            nearer = [
                m for m, (dr, dc) in STEP.items()
                if distance.get((at[0] + dr, at[1] + dc)) == distance[at] - 1
            ]  # fmt: skip
            assert move == nearer[0]
            at = at[0] + STEP[move][0], at[1] + STEP[move][1]
        assert distance[at] == 0


def test_the_mazes_of_table_4_are_as_long_as_the_public_ones():
    # 2,000 mazes of MaxRL's maze/generate_maze.py (c0698eb): 28 to 40 moves, 29.1 on average
    given = {key: load(["data=maze_17"], "f_grpo").data.train[key] for key in ("generator", "ends")}
    lengths = [len(read(prompt)[1]) for prompt in drawn(size=2000, **given)]
    assert 28 == min(lengths) <= max(lengths) <= 44
    assert sum(lengths) / 2000 == pytest.approx(29.1, abs=0.1)


def test_splits_share_nothing_and_are_drawn_by_seed():
    # 3 x 3 rooms: so few mazes that without a split every second one would be seen
    given = {"side": 7, "loops": 0, "generator": "prim"}
    sets = {
        split: {p.text for p in drawn(split, size, **given)}
        for split, size in (("train", 2000), ("dev", 200), ("test", 200))
    }
    assert [len(texts) for texts in sets.values()] == [2000, 200, 200]  # all distinct
    shown = {prompt for prompt, _ in maze.demonstrations(count=2000, seed=0, **given)}
    assert not sets["train"] & (sets["dev"] | sets["test"])
    assert not shown & (sets["dev"] | sets["test"])
    assert not sets["dev"] & sets["test"]
    assert len(shown & sets["train"]) > 100
    assert drawn("test", 5, 1, **given) != drawn("test", 5, 0, **given)
    ids = {p.id for split in SPLITS for p in drawn(split, 20, **given)}
    assert len(ids) == 60


def test_the_same_seed_gives_the_same_bytes():
    # stored runs rest on them
    text = "".join(p.text + p.reference for p in drawn("test", 20, loops=3))
    shown = maze.demonstrations(count=20, seed=0, side=9, loops=2, generator="prim", detours=0.5)
    digests = [hashlib.sha256(repr(one).encode()).hexdigest()[:12] for one in (text, shown)]
    assert digests == ["feaa6b039230", "47450b836cf1"]
    maze._grids.cache_clear()
    assert text == "".join(p.text + p.reference for p in drawn("test", 20, loops=3))


def test_demonstrations_are_targets_and_detours_are_right_as_well():
    given = {"count": 200, "seed": 0, "side": 9, "loops": 4}
    straight = maze.demonstrations(**given)
    for prompt, response in straight:
        assert response == maze.shortest(prompt.removesuffix(">")) + maze.DONE
    others = 0
    detours = maze.demonstrations(**given, detours=0.5)
    for (prompt, response), (same, target) in zip(detours, straight, strict=True):
        assert prompt == same
        assert fault(prompt.removesuffix(">"), response.removesuffix("!")) == ""
        others += response != target
    assert 30 < others < 100  # a half wander, and some of them along the target
    alone = maze.demonstrations(**given | {"loops": 0}, detours=1.0)
    assert alone == maze.demonstrations(**given | {"loops": 0})  # one path: nowhere else to go


def test_a_token_is_a_cell_and_the_vocabulary_is_the_public_one():
    tok = pretrain.tokenizer(maze.WORDS)
    assert len(tok) == maze.VOCABULARY == 32
    prompt = drawn(size=1)[0]
    ids = tok(prompt.text, add_special_tokens=False)["input_ids"]
    assert len(ids) == len(prompt.text) == 17 * 17 + 17 <= 320  # maze_17.sh: max_prompt_length
    assert tok.decode(ids) == prompt.text
    response = maze.demonstrations(count=1, seed=0, side=17, loops=0)[0][1]
    answer = tok(response, add_special_tokens=False)["input_ids"]
    assert len(answer) == len(response)
    assert tok.batch_decode([[*answer, tok.eos_token_id]], skip_special_tokens=True) == [response]


@pytest.mark.sweep
def test_the_model_has_the_public_configurations_parameters():
    x = load(["model=maze_17", "data=maze_17"], "f_grpo")
    model = pretrain.random_model(x.model.pretrain, pretrain.tokenizer(maze.WORDS))
    assert sum(p.numel() for p in model.parameters()) == 3_944_704  # INC102: 3.94M
    assert model.config.max_position_embeddings == 512
    assert x.model.pretrain.demonstrations == 1500 * x.model.pretrain.batch_size
    assert len({*x.data.train} - {"_target_"}) == 7
    shared = ("side", "loops", "generator", "ends")
    assert {key: x.data.train[key] for key in shared} == x.model.pretrain.options


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("split", {"split": "validation"}),
        ("side", {"side": 16}),
        ("side", {"side": 3}),
        ("loops", {"side": 5, "loops": 2}),
        ("loops", {"loops": -1}),
        ("generator", {"generator": "wilson"}),
        ("ends", {"ends": "sides"}),
        ("size", {"side": 5, "split": "test", "size": 100}),
    ],
)
def test_bad_values_are_refused(key, given):
    with refuses(key, given[key]):
        drawn(**given)
