"""Verifier of reasoning-gym's tasks: numbers are ours, the rest goes to a scorer in the sandbox, of
a stand-in package, and of reasoning-gym where it is installed."""

import json
import shutil
import sys
from importlib.util import find_spec

import pytest

from common.errors import UserError
from common.verifiers import reasoning_gym as verifier
from common.verifiers.code import sandbox

PACKAGE = """
import os

class Words:
    def __init__(self, size, seed):
        self.size, self.seed = size, seed

    def __getitem__(self, i):
        return {"question": f"word {i + self.seed}?", "answer": f"w{i + self.seed}"}

    def score_answer(self, answer, entry):
        if answer == "look":
            return 1.0 if os.path.exists("/work") or os.path.exists("/etc/passwd") else 0.25
        if answer == "fail":
            raise RuntimeError("no such word")
        return 1.0 if answer == entry["answer"] else 0.5


def create_dataset(task, *, size, seed):
    return Words(size, seed)
"""
sandboxed = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def row(i: int) -> dict:
    from hashlib import sha256

    name = sha256(f"word {i + 5}?".encode()).hexdigest()[:16]
    made = {"task": "words", "size": 9, "seed": 5, "options": {}, "index": i, "question": name}
    return {"id": f"words-{i}", "answer": f"w{i + 5}", "made": made}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    (tmp_path / "reasoning_gym").mkdir()
    (tmp_path / "reasoning_gym" / "__init__.py").write_text(PACKAGE)
    monkeypatch.delitem(sys.modules, "reasoning_gym", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    sandbox.close()
    yield
    sandbox.close()


def test_numbers_are_judged_by_the_math_verifier():
    for answer in ("12", "-3", "4/6"):
        assert verifier.reference({"id": "a", "answer": answer}) == answer
        assert verifier.verify(verifier.example(answer), answer).outcome == "correct"
    assert verifier.verify("<answer>2/3</answer>", "4/6").outcome == "correct"
    assert verifier.verify("so it is 13", "12").outcome == "wrong"
    assert verifier.verify("", "12").outcome == "unparsed"
    with pytest.raises(UserError, match="is no number, and nothing makes the problem again"):
        verifier.reference({"id": "a", "answer": "word"})
    assert verifier.example(verifier.reference(row(1) | {"answer": None})) is None


@sandboxed
@pytest.mark.sandbox
def test_other_tasks_by_their_scorer_in_the_sandbox(stand_in):
    reference = verifier.reference(row(2))
    said = {
        verifier.example(reference): ("correct", 1.0),
        "<answer>w3</answer> no: <answer> w7 </answer>": ("correct", 1.0),
        "<answer>w9</answer>": ("wrong", 0.0),  # a score of 0.5
        "<answer>look</answer>": ("wrong", 0.0),  # nothing of this machine is there
        "<answer>fail</answer>": ("error", 0.0),
        "w7": ("unparsed", 0.0),
    }
    seen = {text: verifier.verify(text, reference) for text in said}
    assert {text: (v.outcome, v.reward) for text, v in seen.items()} == said
    assert seen["<answer>look</answer>"].reason == "score 0.25"
    assert "no such word" in seen["<answer>fail</answer>"].reason
    other = json.dumps(json.loads(reference) | {"seed": 6})
    assert verifier.verify("<answer>w8</answer>", other).reason.startswith("reasoning-gym makes an")


@sandboxed
@pytest.mark.sandbox
@pytest.mark.skipif(find_spec("reasoning_gym") is None, reason="reasoning-gym is not installed")
@pytest.mark.parametrize("task", ["word_sorting", "countdown", "fraction_simplification"])
def test_reasoning_gyms_own_scorers(task):
    from common.datasets.reasoning_gym import problems

    first, second = (
        verifier.reference(one) for one in problems(task=task, split="test", size=2, seed=0)
    )
    assert verifier.verify(verifier.example(first), first).outcome == "correct"
    assert verifier.verify(verifier.example(second), first).outcome == "wrong"
