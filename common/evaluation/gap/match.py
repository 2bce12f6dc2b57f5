"""Match the problems of one evaluation with those of another: by id, else by text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import takewhile

from common.evaluation.match import plain
from common.evaluation.side import Problem, Side

SHORTEST = 12  # characters; a shorter text is not searched for in another


def matched(a: Side, b: Side) -> list[tuple[Problem, Problem]]:
    """Return the pairs of problems that are in both evaluations.

    Problems are matched by id first; an id that is a bare number counts only if the texts agree.
    Then they are matched by equal text, then by equal text without what all prompts of a side begin
    and end with (its template), then if one text holds the other. Texts are compared without
    special tokens and with each run of blanks as one blank, and only if exactly one problem of each
    side is meant.
    """
    left, right = list(a.problems), list(b.problems)
    cores = _cores(a) | _cores(b)
    pairs = _by_id(left, right)
    for keys in (lambda p: [plain(t) for t in p.texts], lambda p: [cores.get(id(p), "")]):
        taken = {id(problem) for pair in pairs for problem in pair}
        pairs += _by_key(_rest(left, taken), _rest(right, taken), keys)
    taken = {id(problem) for pair in pairs for problem in pair}
    pairs += _by_inside(_rest(left, taken), _rest(right, taken), cores)
    order = {id(problem): i for i, problem in enumerate(left)}
    return sorted(pairs, key=lambda pair: order[id(pair[0])])


def _rest(problems: list[Problem], taken: set[int]) -> list[Problem]:
    return [problem for problem in problems if id(problem) not in taken]


def _by_id(left: list[Problem], right: list[Problem]) -> list[tuple[Problem, Problem]]:
    there = {name: problem for problem in right for name in problem.ids}
    pairs = []
    for problem in left:
        hit = next((there[name] for name in problem.ids if name in there), None)
        if hit is None:
            continue
        if all(name.isdigit() for name in problem.ids) and not _agree(problem, hit):
            continue
        pairs.append((problem, hit))
        for name in hit.ids:
            there.pop(name, None)
    return pairs


def _agree(one: Problem, other: Problem) -> bool:
    texts = [(plain(x), plain(y)) for x in one.texts for y in other.texts]
    return not texts or any(x in y or y in x for x, y in texts)


def _by_key(
    left: list[Problem], right: list[Problem], keys: Callable[[Problem], list[str]]
) -> list[tuple[Problem, Problem]]:
    sides = []
    for problems in (left, right):
        owners = defaultdict(list)
        for problem in problems:
            for key in dict.fromkeys(keys(problem)):
                owners[key].append(problem)
        sides.append(owners)
    pairs, taken = [], set()
    for key, ones in sides[0].items():
        others = sides[1].get(key, [])
        if key and len(ones) == len(others) == 1 and not {id(ones[0]), id(others[0])} & taken:
            pairs.append((ones[0], others[0]))
            taken |= {id(ones[0]), id(others[0])}
    return pairs


def _by_inside(
    left: list[Problem], right: list[Problem], cores: dict[int, str]
) -> list[tuple[Problem, Problem]]:
    """Return the pairs in which one problem's core is in the other's text, and in no other
    problem's text."""
    text = {id(p): " ".join(plain(t) for t in p.texts) for p in (*left, *right)}

    def hits(problem: Problem, others: list[Problem]) -> list[Problem]:
        return [other for other in others if _inside(problem, other, cores, text)]

    pairs = []
    for problem in left:
        ones = hits(problem, right)
        if len(ones) == 1 and hits(ones[0], left) == [problem]:
            pairs.append((problem, ones[0]))
    return pairs


def _inside(one: Problem, other: Problem, cores: dict[int, str], text: dict[int, str]) -> bool:
    for x, y in ((one, other), (other, one)):
        core = cores.get(id(x), "")
        if len(core) >= SHORTEST and core in text[id(y)]:
            return True
    return False


def _cores(side: Side) -> dict[int, str]:
    """Return each problem's text without the words that all texts of the side begin and end
    with."""
    known = [problem for problem in side.problems if problem.texts]
    texts = [plain(problem.texts[0]).split() for problem in known]
    start = _shared(texts)
    texts = [words[start:] for words in texts]
    end = _shared([words[::-1] for words in texts])
    return {
        id(p): " ".join(words[: len(words) - end]) for p, words in zip(known, texts, strict=True)
    }


def _shared(texts: list[list[str]]) -> int:
    """Return how many words all of several texts begin with; 0 for fewer than two texts."""
    if len(texts) < 2:
        return 0
    return sum(1 for _ in takewhile(lambda words: len(set(words)) == 1, zip(*texts, strict=False)))
