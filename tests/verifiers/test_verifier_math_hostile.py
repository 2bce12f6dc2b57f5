"""Hostile answers to the math verifier end in time."""

import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from math_cases import HOSTILE, hostile
from tiny import ROOT

from common.verifiers.math.verifier import verify
from common.verifiers.pool import Pool

pytestmark = pytest.mark.process


def test_hostile_answers_end_unparsed():
    count = 2 * len(HOSTILE)
    code = "import sys; sys.path.append('tests/support'); from math_cases import judge_hostile"
    code += f"; judge_hostile({count})"
    child = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, timeout=300, capture_output=True
    )
    assert json.loads(child.stdout) == {"outcomes": {"unparsed": count}, "slow": 0}


def test_a_thousand_hostile_answers_pass_through_the_pool():
    """In deadline x n / workers and 10 %, unread or overdue but for a few that can be read and are
    wrong (11^{87^2}), with the workers alive and small."""
    texts, golds = hostile(1000, seed=1), ("7", "\\frac{x+1}{2}", "(1,2)")
    pairs = [(text, golds[at % 3]) for at, text in enumerate(texts)]
    node = {"_target_": "common.verifiers.math.verify"}
    with Pool(node, workers=2, deadline=1.0, memory_gb=4.0) as pool:
        pool.map([("\\boxed{1}", "2")])
        began = time.monotonic()
        outcomes = Counter(verdict.outcome for verdict in pool.map(pairs))
        assert time.monotonic() - began < 1.0 * 1000 / 2 * 1.1
        sizes = [
            int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{w._pid}/status").read_text())[1])
            for w in pool._workers
            if w._pid is not None
        ]
    assert set(outcomes) <= {"unparsed", "timeout", "wrong"}
    assert outcomes["wrong"] < 10
    assert max(sizes) < 600_000  # KiB


def test_no_pattern_backtracks_without_end():
    texts = ["5 " + "days " * 180 + "1", "\\alpha" * 90 + "+1=5", "$" * 10**6, "\\(" * 10**5]
    texts += [
        "\\boxed{" * 10**5,
        "\\boxed{1} " * 10**5,
        "answer is " * 10**5,
        "1," * 450,
        "1/" * 400,
    ]
    start = time.process_time()
    for text in texts:
        for frame in ("%s", "\\boxed{%s}"):
            verify(frame.replace("%s", text), "7")
    assert time.process_time() - start < 10
