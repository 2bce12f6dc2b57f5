"""Hostile answers to the math verifier end in time."""

import json
import subprocess
import sys
import time

import pytest
from math_cases import HOSTILE
from tiny import ROOT

from common.verifiers.math.verifier import verify


@pytest.mark.process
def test_hostile_answers_end_unparsed():
    """In a process of their own, four of each kind: none takes a second, or much memory."""
    count = 4 * len(HOSTILE)
    code = "import sys; sys.path.append('tests/support'); from math_cases import judge_hostile"
    code += f"; judge_hostile({count})"
    child = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=ROOT, timeout=300, capture_output=True
    )
    said = json.loads(child.stdout)
    assert said.pop("MB") < 600
    assert said == {"outcomes": {"unparsed": count}, "slow": 0}


def test_no_pattern_backtracks_without_end():
    texts = ["5 " + "days " * 180 + "1", "\\alpha" * 90 + "+1=5", "$" * 10**6, "\\(" * 10**5]
    texts += ["\\boxed{" * 10**5, "\\boxed{1} " * 10**5, "answer is " * 10**5, "1," * 450]
    start = time.process_time()
    for text in [*texts, "1/" * 400]:
        for frame in ("%s", "\\boxed{%s}"):
            verify(frame.replace("%s", text), "7")
    assert time.process_time() - start < 10
