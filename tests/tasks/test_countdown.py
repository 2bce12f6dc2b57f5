import hashlib
import itertools
import random

import pytest
from refuses import refuses

from common.tasks import countdown
from common.tasks.countdown import canonical, numbers_in, reachable, render, value_of
from common.verifiers.countdown import example, parse, verify

REFERENCE = "3 5 7 12 = 41"


def random_tree(rng: random.Random, leaves: int, leaf=None):
    if leaves == 1:
        return leaf() if leaf else rng.randint(1, 12)
    cut = rng.randint(1, leaves - 1)
    left, right = random_tree(rng, cut, leaf), random_tree(rng, leaves - cut, leaf)
    return (rng.choice("+-*"), left, right)


# ---- verifier


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        ("\\boxed{3*12+5}", "correct"),  # 36 + 5
        ("\\boxed{ 5 + 3 * 12 }", "correct"),
        ("so \\boxed{(3*12)+5} is it.", "correct"),  # text on both sides
        ("\\boxed{1} no, \\boxed{3*12+5}", "correct"),  # the last box counts
        ("\\boxed{3*12+5} or \\boxed{7}", "wrong"),
        ("\\boxed{\\boxed{3*12+5}}", "correct"),  # the last box is the inner one
        ("\\boxed{03*12+005}", "correct"),  # leading zeros: the same numbers
        ("\\boxed{41}", "wrong"),  # 41 was not given
        ("\\boxed{12+12+12+5}", "wrong"),  # reused, although it equals 41
        ("\\boxed{3*12+5+1-1}", "wrong"),  # 1 was not given, although it equals 41
        ("\\boxed{3*12+7}", "wrong"),  # 43
        ("\\boxed{5-3*12}", "wrong"),  # -31, not 41
        ("\\boxed{0003*12+00005}", "unparsed"),  # numbers have at most four digits
        ("", "unparsed"),
        ("3*12+5", "unparsed"),  # no box
        ("\\boxed{3*12+5", "unparsed"),  # not closed
        ("\\boxed{3*12+5} \\boxed{3*12+5", "unparsed"),  # the last box is not closed
        ("\\boxed {3*12+5}", "unparsed"),
        ("\\boxed{}", "unparsed"),
        ("\\boxed{(3*12+5}", "unparsed"),
        ("\\boxed{3*12+5=41}", "unparsed"),
        ("\\boxed{3 12}", "unparsed"),  # a blank does not join numbers
        ("\\boxed{3(12)+5}", "unparsed"),  # no implied product
        ("\\boxed{12/3}", "unparsed"),
        ("\\boxed{-3+12}", "unparsed"),  # no sign before a number
        ("\\boxed{__import__('os')}", "unparsed"),
        ("\\boxed{٣*12+5}", "unparsed"),  # an Arabic three
        ("\\boxed{3−5}", "unparsed"),  # U+2212, not a hyphen
        ("\\boxed{3*12+5\0}", "unparsed"),
        ("\\boxed{" + "9" * 1_000_000 + "}", "unparsed"),
        ("\\boxed{" * 1_000, "unparsed"),
        ("x" * 1_000_000 + "\\boxed{3*12+5}", "correct"),
        ("\\boxed{" + "(" * 5000 + "3" + ")" * 5000 + "}", "unparsed"),
        ("\\boxed{" + "(" * 200 + "}", "unparsed"),  # deepest text that is still parsed
        ("\\boxed{" + "(" * 99 + "3" + ")" * 99 + "}", "wrong"),
        ("\\boxed{" + "9999*" * 39 + "9999}", "wrong"),
    ],
    ids=lambda value: ascii(value)[1:40],
)
def test_verdicts(response, outcome):
    verdict = verify(response, REFERENCE)
    assert verdict.outcome == outcome, verdict
    assert verdict.reward == (outcome == "correct")
    assert (verdict.parsed is None) == (outcome == "unparsed")
    assert (verdict.reason == "") == (outcome == "correct")


def test_render_parse_evaluate_round_trip():
    rng = random.Random("round trip")
    for _ in range(3000):
        tree = random_tree(rng, rng.randint(1, 6))
        text = render(tree)
        again = parse(text)
        assert value_of(again) == value_of(tree), text
        assert sorted(numbers_in(again)) == sorted(numbers_in(tree))
        assert canonical(again) == canonical(tree), text
        assert render(again) == text


# ---- canonical form


def reordered(rng: random.Random, tree):
    """The same expression with commuted and re-bracketed sums and products."""
    if isinstance(tree, int):
        return tree
    operator, a, b = tree[0], reordered(rng, tree[1]), reordered(rng, tree[2])
    if operator in "+*" and rng.random() < 0.5:
        a, b = b, a
    nested = not isinstance(b, int)
    if operator in "+*" and nested and b[0] == operator and rng.random() < 0.7:
        return (operator, (operator, a, b[1]), b[2])  # a+(b+c) -> (a+b)+c
    if operator == "-" and nested and b[0] in "+-" and rng.random() < 0.7:
        other = "-" if b[0] == "+" else "+"
        return (other, ("-", a, b[1]), b[2])  # a-(b+c) -> (a-b)-c, a-(b-c) -> (a-b)+c
    if operator == "+" and nested and b[0] == "-" and rng.random() < 0.7:
        return ("-", ("+", a, b[1]), b[2])
    return (operator, a, b)


def test_canonical_ignores_order_and_brackets():
    rng = random.Random("canonical")
    changed = 0
    for _ in range(2000):
        tree = random_tree(rng, rng.randint(2, 6))
        other = tree
        for _ in range(4):
            other = reordered(rng, other)
        assert value_of(other) == value_of(tree)
        assert canonical(other) == canonical(tree), (tree, other)
        changed += other != tree
    assert changed > 1000


def test_canonical_tells_different_answers_apart():
    different = ["3+5", "3-5", "5-3", "3*5", "3+5+1", "1+35", "13+5", "3*5+1", "3*(5+1)"]
    different += ["3+5*1", "(3-1)*5", "3*5-1*5", "3*5-5", "12+1+2", "1+2+1+2", "11+22", "5"]
    forms = [canonical(parse(text)) for text in different]
    assert len(set(forms)) == len(forms)


# ---- reachable


def every_expression(numbers: tuple[int, ...]):
    """(value, uses *) of all expressions over all subsets, by combining two values until one is
    left."""
    for size in range(1, len(numbers) + 1):
        for chosen in itertools.combinations(numbers, size):
            yield from combine([(value, False) for value in chosen])


def combine(values):
    if len(values) == 1:
        yield values[0]
        return
    for i, j in itertools.permutations(range(len(values)), 2):
        rest = [value for at, value in enumerate(values) if at not in (i, j)]
        (a, a_star), (b, b_star) = values[i], values[j]
        star = a_star or b_star
        for new in ((a + b, star), (a - b, star), (a * b, True)):
            yield from combine([*rest, new])


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reachable_is_brute_force(size):
    rng = random.Random(f"reachable {size}")
    for _ in range(12 if size < 4 else 6):
        numbers = tuple(sorted(rng.randint(1, 12) for _ in range(size)))
        slow: dict[int, str] = {}
        for value, star in every_expression(numbers):
            if not star or value not in slow:
                slow[value] = "needs *" if star else "without *"
        assert reachable(numbers) == slow


# ---- prompts and splits


def call(function, **arguments):
    return function(**({"size": 300, "seed": 0, "template": "bare"} | arguments))


def test_splits_never_meet():
    ids = {
        (kind, split): {p.id for p in call(getattr(countdown, kind), split=split, size=200)}
        for kind in ("natural", "rare")
        for split in ("train", "dev", "test")
    }
    shown = {text for text, _ in countdown.demonstrations(count=20_000, seed=0)}
    for (kind, split), here in ids.items():
        assert len(here) == 200
        for (other_kind, other_split), other in ids.items():
            if split != other_split:
                assert not here & other, (kind, split, other_kind, other_split)
        if split != "train":
            assert not here & shown
    assert ids["natural", "train"] & shown  # the comparison above is not of two spellings


def test_demonstrations_are_right_and_solvable_prompts_differ():
    for text, response in countdown.demonstrations(count=2000, seed=3):
        assert verify(response, text).outcome == "correct", (text, response)
    for prompt in call(countdown.natural, split="test"):
        numbers, target = prompt.reference.split(" = ")
        values = tuple(map(int, numbers.split()))
        assert list(values) == sorted(values)
        assert len(values) == 4
        assert 1 <= min(values) <= max(values) <= 12
        assert 1 <= int(target) <= 50
        assert int(target) in reachable(values)


# ---- the demonstrator before its answers are filtered by target


def test_without_multiplication_the_prompts_that_need_it_are_left_out():
    asked = {"split": "train", "seed": 3, "template": "bare"}
    whole = countdown.natural(size=300, **asked)
    plain = countdown.natural(size=200, multiplication=False, **asked)

    def needs(prompt) -> bool:
        numbers, target = prompt.reference.split(" = ")
        return reachable(tuple(map(int, numbers.split())))[int(target)] == "needs *"

    assert 0 < sum(map(needs, whole)) < 90
    assert plain == [prompt for prompt in whole if not needs(prompt)][:200]


def test_a_shifted_task_has_more_numbers_and_the_same_answers():
    settings = {"split": "test", "size": 30, "seed": 0, "template": "bare"}
    prompts = countdown.natural(**settings, numbers=5)
    assert {len(prompt.reference.split(" = ")[0].split()) for prompt in prompts} == {5}
    assert all(verify(example(p.reference), p.reference).outcome == "correct" for p in prompts)
    assert countdown.natural(**settings) == countdown.natural(**settings, numbers=4)
    with refuses("numbers", 3):
        countdown.natural(**settings, numbers=3)


def test_the_same_seed_gives_the_same_bytes():
    # stored runs rest on them
    made = [
        countdown.demonstrations(count=50, seed=0),
        call(countdown.natural, split="dev", size=50),
        call(countdown.rare, split="test", size=20),
    ]
    digests = [hashlib.sha256(repr(one).encode()).hexdigest()[:12] for one in made]
    assert digests == ["2e0d6248f575", "5c30e920aae2", "2b4bcd5ea9b3"]
