"""Multiple choice: texts by hand, labelled cases, and the conventions of others pinned to their
source."""

import csv
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from labelled import rows
from timing import cpu_seconds

from common.verifiers.choice import CONVENTIONS, example, reference, verify

OPTIONS = ["12 N", "a rise in pressure", "42 N", "vitamin C"]
REFERENCE = reference({"id": "x", "answer": "C", "options": OPTIONS})
TEN = reference({"id": "x", "answer": "A", "options": [f"text {i}" for i in range(10)]})

with open(Path(__file__).with_name("choice.csv"), encoding="utf-8", newline="") as file:
    CASES = [tuple(row.values()) for row in csv.DictReader(file)]  # letter, response


@pytest.mark.parametrize(
    ("letter", "response"), [*CASES, ("", ""), ("", "C\0"), ("", "\ud800 \\boxed{\ud800}")]
)
def test_ours(letter, response):
    """A row is a case; "¶" is a line break, and no letter means that none can be read."""
    verdict = verify(response.replace("¶", "\n"), REFERENCE)
    assert verdict.parsed == (letter or None)
    assert verdict.outcome == {"C": "correct", "": "unparsed"}.get(letter, "wrong")
    assert verdict.reward == (letter == "C")


def test_a_text_names_an_option_only_if_it_is_the_only_one_of_that_text():
    twice = reference({"id": "x", "answer": "A", "options": ["Two", "two.", "a", "*"]})
    read = {"\\boxed{two}": None, "\\boxed{a}": "C", "\\boxed{A}": "A", "\\boxed{B}": "B", "": None}
    assert {text: verify(text, twice).parsed for text in read} == read
    elements = reference({"id": "x", "answer": "D", "options": ["Al", "Tl", "C", "B"]})
    assert verify("\\boxed{B}", elements).parsed == "B"  # a capital is a letter before it is a text


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_hostile_responses(convention):
    big = 250_000  # what is quadratic takes minutes
    texts = ["answer: ", "answer is (", "\\boxed{", "(", "A ", " ", "a\n", "The answer is ", "\0"]
    texts += ["\ud800", ": \t", "answer:A", "answer:\n", "\\boxed{C} ", "<think>", "**"]
    texts = [text * (big // len(text)) for text in texts]
    texts += ["x" + " " * big + "answer is\n" + "answer" + " " * big]
    for text in texts:
        seconds, verdict = cpu_seconds(verify, text, REFERENCE, convention=convention)
        assert seconds < 1, text[:20]
        assert verdict.parsed is None or verdict.parsed in "ABCD"
        assert len(verdict.reason) < 300


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_example_is_correct_and_for_its_own_letter_only(convention):
    for letter in "ABCD":
        other = reference({"id": "x", "answer": letter, "options": OPTIONS})
        assert verify(example(other), other, convention=convention).outcome == "correct"
        verdict = verify(example(other), REFERENCE, convention=convention)
        assert verdict.outcome == ("correct" if letter == "C" else "wrong")


def test_public_cases():
    judged = [row for name in ("public_cases", "public_cases_2") for row in rows(name)]
    judged = [row for row in judged if row["kind"] == "choice"]
    right = {r["id"]: verify(r["response"], reference(r)).outcome == "correct" for r in judged}
    misjudged = {row["id"] for row in judged if right[row["id"]] != (row["expected"] == "correct")}
    assert misjudged == set()
    assert sum(right.values()) > 70


# What "ours" reads where the authors read another letter or none: several letters, the last of
# several statements, and a statement in other words.
OTHERWISE = {"mmlu_pro-4783#0": None, "mmlu_pro-5886#0": None, "mmlu_pro-6718#0": None}
OTHERWISE |= {"mmlu_pro-6197#0": "B", "mmlu_pro-8977#0": "B", "mmlu_pro-9151#0": "I"}


def test_mmlu_pro_outputs_have_the_authors_verdicts():
    outputs = [row for row in rows("verifier_cases") if row["source"] == "mmlu_pro_outputs"]
    counts = {convention: Counter() for convention in CONVENTIONS}
    for row in outputs:
        for convention, counted in counts.items():
            verdict = verify(row["response"], reference(row), convention=convention)
            counted[verdict.outcome] += 1
            read = OTHERWISE if convention == "ours" else {}
            assert (verdict.outcome == "correct") == row["correct"], (row["id"], convention)
            assert verdict.parsed == read.get(row["id"], row["extracted_2level"]), row["id"]
    printed = {"ours": (171, 208, 63), "mmlu_pro": (171, 209, 62)}
    for convention, counted in counts.items():  # as docs/verifiers.md prints them
        outcomes = ("correct", "wrong", "unparsed")
        assert counted == dict(zip(outcomes, printed[convention], strict=True))


TEXTS = ["answer: ", "Answer:", "answer is ", "answer is (", "B", "(D) ", "J)", "\n", " ", "C1"]
TEXTS += ["Bo", ".", "The answer is ", ": ", "Vitamin C!", "\n\n", "no", "A", "The best answer is "]


def test_levels_of_mmlu_pro_equal_the_authors_quadratic_patterns():
    """compute_accuracy.py and evaluate_from_local.py of TIGER-AI-Lab/MMLU-Pro."""
    rng, answered = random.Random(0), 0
    for _ in range(5000):
        text = "".join(rng.choices(TEXTS, k=rng.randint(1, 9)))
        two = re.search(r"answer is \(?([A-J])\)?", text)
        two = two or re.search(r".*[aA]nswer:\s*([A-J])", text)
        assert verify(text, TEN, convention="mmlu_pro").parsed == (two and two[1]), text
        answered += two is not None
    assert answered > 1000
