"""Evaluation folders with made-up samples, whose scores differ for one known reason."""

from contextlib import contextmanager
from functools import partial
from pathlib import Path

from common.config.resolve import resolve
from common.evaluation.gap.judge import STATED, Judge
from common.evaluation.store import finish, keep_problems
from common.results.files import write_jsonl_gz
from common.results.run import Run
from common.types import Prompt

MATH = {"_target_": "common.verifiers.math.verify"}
PROBLEMS, N = 10, 4


def question(i: int) -> str:
    return f"Anna has {i} apples and buys {i * i + 40} more at the market. How many has she?"


def prompts(numbers, template: str = "Q: {}\nA:") -> list[Prompt]:
    return [Prompt(f"p{i}", template.format(question(i)), str(i)) for i in numbers]


def responses(asked: list[Prompt], text) -> dict[str, list[tuple]]:
    """(response, tokens, stopped) of N samples a problem, as `text(gold, j)` has them."""
    return {p.id: [(text(p.reference, j), 20, True) for j in range(N)] for p in asked}


def folder(
    root: Path,
    name: str,
    asked: list[Prompt],
    given: dict[str, list[tuple]],
    *,
    convention: str = "ours",
    model: str = "org/tiny",
    **sampling,
) -> Path:
    """A finished evaluation of these responses, judged as they would have been."""
    verifier = MATH | {"convention": convention}
    judge = resolve(verifier, "verifier")
    sampling = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 100, "seed": 0} | sampling
    config = {
        "label": model,
        "sampling": sampling,
        "eval": {"name": "made", "prompts": {}, "verifier": verifier, "deadline": 3.0},
        "model": {"name": model, "path": model, "chat": None, "pretrain": None},
    }
    run = Run(root, "evaluations", name, config)
    keep_problems(run, asked)
    rows = []
    for prompt in asked:
        for j, (text, tokens, stopped) in enumerate(given[prompt.id]):
            verdict = judge(text, prompt.reference)
            found = {"outcome": verdict.outcome, "parsed": verdict.parsed}
            lengths = {"tokens": tokens, "log_prob": -1.0, "stopped": stopped}
            rows.append(
                {"problem_id": prompt.id, "sample": j, "response": text, **found, **lengths}
            )
    write_jsonl_gz(run.path / "samples" / "0000000.jsonl.gz", rows)
    finish(run, "made", model, 0)
    run.close()
    return run.path


@contextmanager
def here(verifier: dict, *, deadline: float, workers: int, memory_gb: float):
    """A judge in this process: made-up responses are no danger, and a pool takes a second."""
    judge = partial(resolve(verifier, "verifier"))
    yield Judge(lambda pairs: [judge(*pair) for pair in pairs], STATED.get(verifier["_target_"]))
