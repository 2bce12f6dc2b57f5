"""Subset-Countdown: reach a target from four numbers, each used at most once, with + - * and
brackets.

A prompt has several right answers, and only a rarely shown strategy reaches some of them. So a
policy can gain accuracy and lose diversity: this is the smallest task on which RLVR's forgetting
can be measured.

The demonstrator that the tiny model is first trained on is skewed on purpose: operators + .5, -
.35, * .15; 80 % left-deep trees; 10 % two-operand answers. Its prompts are `natural`. For `rare`
prompts, every solution needs `*`. A hash of (numbers, target) splits the prompts into train, dev
(for choosing hyperparameters) and test.
"""

import random
from functools import lru_cache
from itertools import combinations, permutations

from common.errors import require
from common.tasks.splits import check_split, split_of
from common.types import Prompt

NUMBERS, LARGEST, TARGETS = 4, 12, range(1, 51)
OPERATORS, OPERATOR_WEIGHTS = "+-*", (0.5, 0.35, 0.15)
OPERAND_WEIGHTS = {2: 0.10, 3: 0.45, 4: 0.45}
LEFT_DEEP = 0.8
WORDS = (*"+-*()=}", "\\boxed{", *map(str, range(1, 100)))  # the tiny model's tokens

Tree = int | tuple  # a number, or (operator, left, right)


def natural(
    *,
    split: str,
    size: int,
    seed: int,
    template: str,
    numbers: int = NUMBERS,
    multiplication: bool = True,
) -> list[Prompt]:
    """Return `size` distinct prompts of the demonstrator's distribution; another count of `numbers`
    shifts the task. With `multiplication` false, prompts that only `*` solves are left out. The
    draw is seeded."""
    require(numbers >= max(OPERAND_WEIGHTS), "numbers", numbers, "must be at least 4")
    check_split(split)
    rng, seen = random.Random(f"natural-{split}-{seed}"), {}
    while len(seen) < size:
        drawn, target, _ = _draw(rng, numbers)
        reference = _reference(drawn, target)
        wanted = multiplication or reachable(drawn)[target] != "needs *"
        if wanted and split_of(reference) == split:
            seen.setdefault(reference)
    return [_prompt(reference, template) for reference in seen]


def rare(*, split: str, size: int, seed: int, template: str) -> list[Prompt]:
    check_split(split)
    rng, seen = random.Random(f"rare-{split}-{seed}"), {}
    while len(seen) < size:
        numbers, target = _numbers(rng, NUMBERS), rng.choice(TARGETS)
        reference = _reference(numbers, target)
        if split_of(reference) == split and reachable(numbers).get(target) == "needs *":
            seen.setdefault(reference)
    return [_prompt(reference, template) for reference in seen]


def demonstrations(*, count: int, seed: int) -> list[tuple[str, str]]:
    """Return `count` (prompt text, response text) pairs of the demonstrator, train split only."""
    rng, rows = random.Random(f"demonstrations-{seed}"), []
    while len(rows) < count:
        numbers, target, tree = _draw(rng, NUMBERS)
        if split_of(_reference(numbers, target)) == "train":
            rows.append((_reference(numbers, target), f"\\boxed{{{render(tree)}}}"))
    return rows


@lru_cache(maxsize=2000)
def reachable(numbers: tuple[int, ...]) -> dict[int, str]:
    """Return value -> "without *" or "needs *", for all values of expressions over subsets of
    `numbers`."""
    values: dict[tuple[int, ...], dict[int, bool]] = {}  # positions -> value -> needs *
    for size in range(1, len(numbers) + 1):
        for chosen in combinations(range(len(numbers)), size):
            made = {numbers[chosen[0]]: False} if size == 1 else {}
            for left_size in range(1, size):
                for left in combinations(chosen, left_size):
                    right = tuple(i for i in chosen if i not in left)
                    for a, a_star in values[left].items():
                        for b, b_star in values[right].items():
                            star = a_star or b_star
                            for value, needs in ((a + b, star), (a - b, star), (a * b, True)):
                                made[value] = made.get(value, True) and needs
            values[chosen] = made
    merged: dict[int, bool] = {}
    for made in values.values():
        for value, needs in made.items():
            merged[value] = merged.get(value, True) and needs
    return {value: "needs *" if needs else "without *" for value, needs in merged.items()}


def solve(numbers: tuple[int, ...], target: int) -> Tree | None:
    return _search([(number, number) for number in numbers], target)


def _search(pool: list[tuple[int, Tree]], target: int) -> Tree | None:
    """Join two of the pool's (value, tree) pairs at a time until one equals `target`."""
    for value, tree in pool:
        if value == target:
            return tree
    for i, j in permutations(range(len(pool)), 2):
        (a, left), (b, right) = pool[i], pool[j]
        rest = [entry for position, entry in enumerate(pool) if position not in (i, j)]
        for operator, value in (("+", a + b), ("-", a - b), ("*", a * b)):
            solution = _search([*rest, (value, (operator, left, right))], target)
            if solution is not None:
                return solution
    return None


def value_of(tree: Tree) -> int:
    if isinstance(tree, int):
        return tree
    operator, a, b = tree[0], value_of(tree[1]), value_of(tree[2])
    return a + b if operator == "+" else a - b if operator == "-" else a * b


def render(tree: Tree) -> str:
    """Return the expression with the fewest brackets that keep its value."""
    if isinstance(tree, int):
        return str(tree)
    operator, left, right = tree
    a, b = render(left), render(right)
    is_sum = [not isinstance(side, int) and side[0] in "+-" for side in (left, right)]
    if operator == "*":
        a, b = (f"({text})" if wrap else text for text, wrap in zip((a, b), is_sum, strict=True))
    elif operator == "-" and is_sum[1]:
        b = f"({b})"
    return f"{a}{operator}{b}"


def canonical(tree: Tree) -> str:
    """Return the same text for expressions that differ only in brackets and the order of terms."""
    if isinstance(tree, int):
        return str(tree)
    if tree[0] == "*":
        return "*".join(sorted(_bracket(factor) for factor in _factors(tree)))
    return "".join(sorted(sign + canonical(term) for sign, term in _terms(tree, "+")))


def numbers_in(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else numbers_in(tree[1]) + numbers_in(tree[2])


def _terms(tree: Tree, sign: str) -> list[tuple[str, Tree]]:
    if isinstance(tree, int) or tree[0] == "*":
        return [(sign, tree)]
    flipped = "-" if sign == "+" else "+"
    return _terms(tree[1], sign) + _terms(tree[2], flipped if tree[0] == "-" else sign)


def _factors(tree: Tree) -> list[Tree]:
    if isinstance(tree, int) or tree[0] != "*":
        return [tree]
    return _factors(tree[1]) + _factors(tree[2])


def _bracket(tree: Tree) -> str:
    text = canonical(tree)
    return text if isinstance(tree, int) else f"({text})"


def _draw(rng: random.Random, count: int) -> tuple[tuple[int, ...], int, Tree]:
    while True:
        numbers = _numbers(rng, count)
        size = rng.choices(list(OPERAND_WEIGHTS), list(OPERAND_WEIGHTS.values()))[0]
        operands = rng.sample(numbers, size)
        tree = _left_deep(rng, operands) if rng.random() < LEFT_DEEP else _any_tree(rng, operands)
        if (target := value_of(tree)) in TARGETS:
            return numbers, target, tree


def _numbers(rng: random.Random, count: int) -> tuple[int, ...]:
    return tuple(sorted(rng.randint(1, LARGEST) for _ in range(count)))


def _operator(rng: random.Random) -> str:
    return rng.choices(OPERATORS, OPERATOR_WEIGHTS)[0]


def _left_deep(rng: random.Random, operands: list[int]) -> Tree:
    tree: Tree = operands[0]
    for operand in operands[1:]:
        tree = (_operator(rng), tree, operand)
    return tree


def _any_tree(rng: random.Random, operands: list[int]) -> Tree:
    if len(operands) == 1:
        return operands[0]
    cut = rng.randint(1, len(operands) - 1)
    return (_operator(rng), _any_tree(rng, operands[:cut]), _any_tree(rng, operands[cut:]))


def _reference(numbers: tuple[int, ...], target: int) -> str:
    return f"{' '.join(map(str, numbers))} = {target}"


def _prompt(reference: str, template: str) -> Prompt:
    """Return the prompt that the tiny model reads: "3 5 7 12 = 41" and nothing else."""
    require(template == "bare", "template", template, "must be bare, the only template")
    return Prompt(id=reference, text=reference, reference=reference)
