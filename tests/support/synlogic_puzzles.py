"""Small SynLogic puzzles with responses judged by hand, one a task, and hostile text."""

from pathlib import Path
from typing import NamedTuple

import yaml


class Puzzle(NamedTuple):
    answer: object
    metadata: dict
    right: list[str]
    wrong: dict[str, str]  # response -> a part of the reason
    unparsed: list[str]


SUDOKU = [[(3 * (i % 3) + i // 3 + j) % 9 + 1 for j in range(9)] for i in range(9)]
CLUES = [["X", 2, *SUDOKU[0][2:]], *SUDOKU[1:]]
PUZZLES = {
    task: Puzzle(**fields)
    for task, fields in yaml.safe_load(
        Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    ).items()
}
PUZZLES["sudoku"] = Puzzle(
    answer="",
    metadata={"original_sudoku": CLUES, "complete_sudoku": SUDOKU},
    right=[
        f"```python\n{tuple(map(tuple, SUDOKU))}\n```",
        f"```\ngrid = {SUDOKU}\nprint(grid)\n```",
    ],
    wrong={
        str([SUDOKU[1], SUDOKU[0], *SUDOKU[2:]]): "clue",
        str(SUDOKU[:8]): "9 x 9",
        str([*SUDOKU, SUDOKU[0]]): "9 x 9",
        str([[2, 2, *SUDOKU[0][2:]], *SUDOKU[1:]]): "row 1",
    },
    unparsed=[str(CLUES), str(SUDOKU)[:-1]],
)

HOSTILE = ["", "\0", "\ud800\udfff [[\ud800]] \\boxed{\ud800}", " " * 1_000_000, "9" * 1_000_000]
HOSTILE += [
    "[" * 1_000_000,
    "[[" * 300_000 + "]]" * 200_000,
    "[[1," * 250_000,
    "[[1,2],[3,4]]" * 70_000,
]
HOSTILE += ["(" * 500_000 + ")" * 500_000, "{" * 500_000 + "}" * 500_000, "\\boxed{" * 150_000]
HOSTILE += ["```" * 333_333, "<answer>" * 120_000, "<think></think>" * 60_000, '"' * 1_000_000]
HOSTILE += ["'\\" * 500_000, "[['" + "\\" * 900_000, "[[" + "9" * 900_000 + "]]", "#" * 1_000_000]
HOSTILE += ["1+" * 500_000 + "1=2", "1 +    " * 150_000, "[[9" + "*9" * 80 + "=1]]"]
HOSTILE += [f"```python\n{text}9\n```" for text in ("9*" * 99, "-" * 199, "9**9**9**")]
HOSTILE += [
    "\\boxed{" + "\\text{" * 600 + "}" * 600 + "}",
    "[" + " " * 500_000 + "[" + " " * 400_000,
]
HOSTILE += ["答案" * 300_000, "answer is " * 100_000, "The answer is " + "yes, " * 200_000]
HOSTILE += ["[[" + "\ud800," * 100_000 + "]]", "↑" * 300_000]
