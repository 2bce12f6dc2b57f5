"""Outcomes of the math verifier, and hostile answers to it."""

import json
import random
import time
from collections import Counter
from pathlib import Path

from common.verifiers.math.verifier import verify


def outcome(text, gold, **options):
    return verify(text, gold, **options).outcome


def tower(draw):
    text = str(draw.randint(2, 99))
    for _ in range(draw.randint(2, 7)):
        text = f"{draw.randint(2, 99)}^{{{text}}}"
    return text


def nested(opening, closing, inside, deepest):
    return lambda draw: opening * (n := draw.randint(30, deepest)) + inside + closing * n


def matrix(draw):
    size = draw.choice([12, 60, 200])
    row = "&".join(str(draw.randint(0, 9)) for _ in range(size))
    return "\\begin{pmatrix}" + "\\\\".join([row] * size) + "\\end{pmatrix}"


HOSTILE = [
    tower,
    matrix,
    nested("{", "}", "1", 20000),
    nested("(", ")", "x", 20000),
    nested("\\frac{1}{", "}", "2", 5000),
    nested("\\sqrt{", "}", "2", 5000),
    nested("\\sin(", ")", "x", 400),
    lambda draw: "9^{" + "9" * draw.randint(6, 40) + "}",
    lambda draw: str(draw.randint(1, 9)) * draw.choice([1000, 10**5, 10**6]),
    lambda draw: "\x00" * draw.randint(1, 1000) + "5",
    lambda draw: "\ud800" * draw.randint(1, 100) + "5",
    lambda draw: chr(draw.randint(97, 122)) * 10**6,
    lambda draw: "\\alpha " * draw.randint(1000, 50000),
    lambda draw: f"{draw.randint(10**5, 10**9)}!",
    lambda draw: f"{draw.randint(4, 9)}" + "!" * draw.randint(3, 9),
    lambda draw: f"(({draw.randint(50, 99)}!)!)!",
    lambda draw: f"\\binom{{10^{{{draw.randint(5, 99)}}}}}{{5}}",
    lambda draw: f"\\binom{{{10 ** draw.randint(6, 12)}}}{{{10 ** draw.randint(4, 6)}}}",
    lambda draw: f"\\sum_{{k=1}}^{{{draw.randint(10**6, 10**9)}}} k^k",
    lambda draw: f"(x+1)^{{{draw.randint(10**6, 10**12)}}}",
    lambda draw: f"1e{draw.randint(10**4, 10**9)}",
    lambda draw: "x^" * draw.randint(200, 5000) + "2",
    lambda draw: "\\{" * draw.randint(30, 2000) + "1",
    lambda draw: ",".join("123456789" for _ in range(draw.randint(5000, 10**5))),
    lambda draw: f"\\Gamma(10^{{{draw.randint(6, 50)}}})",
]


def judge_hostile(count):
    """Printed by a child that judges so many, one of each kind in turn in an answer's place: the
    outcomes, how many took over a second of CPU, and the most memory that it had."""
    verify("\\boxed{\\sqrt{x}+1}", "\\sqrt{2}x")  # the import
    frames = ["\\boxed{%s}"] * 3 + ["The answer is $%s$.", "#### %s", "A: %s"]
    draw, outcomes, slow = random.Random(0), Counter(), 0
    for at in range(count):
        text = draw.choice(frames).replace("%s", HOSTILE[at % len(HOSTILE)](draw))
        start = time.process_time()
        outcomes[outcome(text, ("7", "\\frac{x+1}{2}", "(1,2)")[at % 3])] += 1
        slow += time.process_time() - start > 1
    status = Path("/proc/self/status").read_text()  # ru_maxrss counts the parent's from the fork
    held = int(status.split("VmHWM:")[1].split()[0]) // 1000
    print(json.dumps({"outcomes": outcomes, "slow": slow, "MB": held}))
