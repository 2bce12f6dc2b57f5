"""The math verifier behind its pool of two workers, compared with a call of math-verify per
response."""

import random
from statistics import median

from bench import row, timed
from common.verifiers.pool import Pool

PROBLEMS, SAMPLES = 500, 256
WORDS = "so we find that the sum of these terms equals and therefore let us consider"
SHARE = 256  # the peer judges one response in SHARE; its time counts SHARE times


def run(rounds: int = 3) -> list[dict]:
    """Return the seconds of 500 problems x 256 responses, from a cold start. The note says on how
    many of the peer's responses the verdicts agree."""
    pairs = responses(random.Random(0))
    few = pairs[:: SHARE + 1]  # a different sample of each problem
    node = {"_target_": "common.verifiers.math.verify"}
    judged, peer_judged = [], []

    def ours():
        with Pool(node, workers=2, deadline=3.0, memory_gb=4.0) as pool:
            judged[:] = [verdict.reward for verdict in pool.map(pairs)]

    def peer():
        peer_judged[:] = [math_verify_reward(*pair) for pair in few]

    import math_verify  # noqa: F401 (its import is not timed)

    times = [(timed(ours), timed(peer)) for _ in range(rounds)]
    share = len(pairs) / len(few)
    same = sum(a == b for a, b in zip(judged[:: SHARE + 1], peer_judged, strict=True))
    note = f"peer: math-verify, {len(few)} responses, time x {share:.0f}; {same} verdicts equal"
    name = f"math verdicts, {PROBLEMS} problems x {SAMPLES}"
    ours_s, peer_s = (median(side) for side in zip(*times, strict=True))
    return [row(name, ours_s, share * peer_s, "s", note)]


def math_verify_reward(response: str, gold: str) -> float:
    from math_verify import parse, verify

    return float(verify(parse(f"\\boxed{{{gold}}}"), parse(response)))


def responses(rng: random.Random) -> list[tuple[str, str]]:
    """Return (response, gold) pairs. A response is a paragraph of reasoning and a boxed answer,
    drawn from a few right spellings and a few wrong answers of each problem."""
    words = WORDS.split()
    pairs = []
    for _ in range(PROBLEMS):
        gold, answers = problem(rng)
        weights = [rng.random() ** 2 for _ in answers]
        for answer in rng.choices(answers, weights, k=SAMPLES):
            text = " ".join(rng.choices(words, k=150))
            pairs.append((f"{text}. The answer is $\\boxed{{{answer}}}$.", gold))
    return pairs


def problem(rng: random.Random) -> tuple[str, list[str]]:
    """Return a gold answer, and answers of which some equal it."""
    a, b, c = rng.randint(2, 99), rng.randint(2, 99), rng.randint(2, 9)
    wrong = [str(a + i) for i in range(2, 8)] + [f"\\frac{{{a}}}{{{b + 1}}}", f"{a}\\pi"]
    return rng.choice(
        [
            (str(a), [str(a), f"{a}.0", f"x = {a}", *wrong]),
            (f"\\frac{{{a}}}{{{b}}}", [f"\\frac{{{a}}}{{{b}}}", f"{a}/{b}", *wrong]),
            (f"{a}\\sqrt{{{c}}}", [f"{a}\\sqrt{{{c}}}", f"\\sqrt{{{c}}} \\cdot {a}", *wrong]),
            (f"({a}, {b})", [f"({a}, {b})", f"({a},{b})", f"({b}, {a + 1})", *wrong]),
            (f"{a}x^2+{c}", [f"{a}x^2+{c}", f"{c} + {a} x^2", f"{a}x^3+{c}", *wrong]),
        ]
    )
