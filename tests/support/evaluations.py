"""A small evaluation on the tiny model."""

from pathlib import Path

from tiny import MODEL

from common.config import compose as compose_module
from common.config.compose import compose
from common.config.strict import strict
from common.evaluation.config import Evaluate
from common.results.files import read_jsonl

SMALL = [*MODEL, "device=cpu", "eval.prompts.size=6", "n=8", "batch=8", "workers=1"]

LENIENT = """
from common.types import Verdict

def verify(response, reference, *, ending="}"):
    right = response.endswith(ending)
    return Verdict("correct" if right else "wrong", float(right), response[-8:])
"""


def strict_evaluate(*words: str) -> Evaluate:
    return strict(Evaluate, compose(compose_module.CONFIGS, words, "evaluate"))


def made(results: Path, *overrides: str) -> Evaluate:
    return strict_evaluate(*SMALL, f"results_dir={results}", *overrides)


def samples_of(run: Path) -> list[dict]:
    """Every row that the evaluation stored, in the order of its problems."""
    return [row for file in sorted((run / "samples").iterdir()) for row in read_jsonl(file)]
