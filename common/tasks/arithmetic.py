"""Templated arithmetic with exact answers, for pretrained models of a few hundred million
parameters.

A problem is an operation on two or three whole numbers in one of several wordings; the answer is a
whole number. Numbers are drawn from 2 to `largest`, one factor of a product from 2 to 12. Problems
are split by a hash of the operation and its sorted numbers: no sum of the test split is ever
trained on, not even as b + a or as a story. The task was made without looking at any model's
answers.
"""

import random

from common.errors import require
from common.tasks.splits import check_split, split_of

FACTORS = 12  # the larger multiplication tables end there
WORDINGS = {
    "sum": (
        "What is {0} + {1}?",
        "Add {0} and {1}.",
        "A shop has {0} apples and gets {1} more. How many apples does it have now?",
    ),
    "difference": (
        "What is {0} - {1}?",
        "Subtract {1} from {0}.",
        "There were {0} birds on a roof and {1} flew away. How many are left?",
    ),
    "product": (
        "What is {0} * {1}?",
        "Multiply {0} by {1}.",
        "Each of {0} boxes holds {1} pencils. How many pencils are there?",
    ),
    "chain": (
        "What is {0} + {1} - {2}?",
        "Add {0} and {1}, then subtract {2}.",
        "A bus has {0} passengers. {1} get on and {2} get off. How many are on the bus now?",
    ),
}


def problems(
    *, split: str, size: int, seed: int, largest: int = 99, kinds: list[str] | None = None
) -> list[dict]:
    """Return `size` distinct rows (id, problem, answer) of a split, with equal shares of the
    `kinds` of WORDINGS (None: all). The draw is seeded. Raises UserError if the split does not hold
    that many."""
    kinds = list(WORDINGS) if kinds is None else kinds
    check_split(split)
    require(largest >= 10, "largest", largest, "at least 10")
    require(size > 0, "size", size, "must be above 0")
    unknown = [kind for kind in kinds if kind not in WORDINGS]
    require(bool(kinds) and not unknown, "kinds", kinds, f"some of {list(WORDINGS)}")
    rng, rows, tries = random.Random(f"arithmetic-{split}-{seed}"), {}, 0
    while len(rows) < size:
        kind = kinds[len(rows) % len(kinds)]
        numbers, wording = _numbers(kind, largest, rng), rng.choice(WORDINGS[kind])
        key = (kind, *sorted(numbers))
        if key not in rows and split_of(repr(key)) == split:
            problem, answer = wording.format(*numbers), str(value(kind, numbers))
            name = "-".join(map(str, key))
            rows[key] = {"id": name, "problem": problem, "answer": answer}
        tries += 1
        remedy = f"{split} does not hold so many problems up to {largest}; raise largest"
        require(tries < 1000 * (size + 10), "size", size, remedy)
    return list(rows.values())


def value(kind: str, numbers: tuple[int, ...]) -> int:
    a, b, *rest = numbers
    if kind == "product":
        return a * b
    return {"sum": a + b, "difference": a - b, "chain": a + b - sum(rest)}[kind]


def _numbers(kind: str, largest: int, rng: random.Random) -> tuple[int, ...]:
    """Draw operands whose result is not negative: a story has no minus five birds."""
    a, b, c = (rng.randint(2, largest) for _ in range(3))
    if kind == "product":
        return rng.randint(2, FACTORS), a
    if kind == "sum":
        return a, b
    if kind == "difference":
        return max(a, b), min(a, b)
    return a, b, min(c, a + b)
