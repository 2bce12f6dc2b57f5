"""Templated arithmetic: answers computed again from the wording alone, and splits that share
nothing."""

import re
from collections import Counter

import pytest
from refuses import refuses

from common.config.resolve import resolve
from common.datasets.prompts import stated
from common.experiment import load
from common.tasks import arithmetic
from common.verifiers.math import verify

SIZES = {"train": 800, "dev": 80, "test": 80}


def problems(split: str, **changes):
    return arithmetic.problems(**{"split": split, "size": SIZES[split], "seed": 0, **changes})


def by_hand(problem: str) -> int:
    """The answer, from the words."""
    a, b, *c = (int(number) for number in re.findall(r"\d+", problem))
    if re.search(r"\*|Multiply|boxes", problem):
        return a * b
    if problem.startswith("Subtract"):
        return b - a
    if c:
        return a + b - c[0]
    return a - b if re.search(r" - |flew", problem) else a + b


def test_answers_by_hand():
    rows = problems("train")
    assert [int(row["answer"]) for row in rows] == [by_hand(row["problem"]) for row in rows]
    assert min(int(row["answer"]) for row in rows) >= 0
    kinds = Counter(row["id"].split("-")[0] for row in rows)
    assert kinds == dict.fromkeys(arithmetic.WORDINGS, 200)
    wordings = Counter(re.sub(r"\d+", "#", row["problem"]) for row in rows)
    assert len(wordings) == 12


def test_splits_share_no_numbers_whatever_their_order_and_wording():
    drawn = {split: problems(split) for split in SIZES}
    ids = {split: {row["id"] for row in rows} for split, rows in drawn.items()}
    assert {split: len(names) for split, names in ids.items()} == SIZES
    for rows in drawn.values():
        for row in rows:
            kind, *numbers = row["id"].split("-")
            asked = sorted(int(number) for number in re.findall(r"\d+", row["problem"]))
            assert asked == [int(number) for number in numbers], kind
    assert not ids["train"] & ids["test"]
    assert not ids["train"] & ids["dev"]
    assert not ids["dev"] & ids["test"]
    other = {row["id"] for row in problems("train", seed=1)}
    assert other != ids["train"]
    assert not other & ids["test"]
    assert problems("test") == drawn["test"]


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ({"split": "all"}, "split", "all"),
        ({"size": 0}, "size", 0),
        ({"size": 40, "largest": 10, "kinds": ["product"]}, "size", 40),  # the split has fewer
        ({"largest": 5}, "largest", 5),
        ({"kinds": ["power"]}, "kinds", ["power"]),
    ],
)
def test_what_is_refused(change, key, value):
    with refuses(key, value):
        arithmetic.problems(**{"split": "test", "size": 80, "seed": 0, **change})


def test_the_set_as_configured_is_judged_by_our_verifier():
    data = load(["data=arithmetic", "+model.chat=qwen"], "f_grpo").data
    prompts = resolve(data.train, "data.train")()
    assert len(prompts) == stated(data.train) == 2048
    test = resolve(data.benchmarks["test"], "data.benchmarks.test")()
    assert len(test) == stated(data.benchmarks["test"]) == 200
    assert not {p.id for p in prompts} & {p.id for p in test}
    first = prompts[0]
    assert first.text.startswith("<|im_start|>user\n")
    assert " Answer with the number alone.<|im_end|>" in first.text
    assert verify(first.reference, first.reference).outcome == "correct"  # as it is asked for
    judge = resolve(data.verifier, "data.verifier")
    said = f"There are {first.reference} left."
    assert judge(said, first.reference).outcome == "correct"
    assert judge("\\boxed{-1}", first.reference).outcome == "wrong"
