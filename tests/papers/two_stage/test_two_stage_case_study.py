"""The case study: which prompts the rule picks, and what the page says."""

from functools import partial

import compositions
import pandas as pd

from papers.two_stage import case_study


def sample(problem: str, parsed: str | None, outcome: str, log_prob: float, tokens: int) -> dict:
    return dict(
        problem_id=problem, response=f"\\boxed{{{parsed}}}", parsed=parsed, outcome=outcome,
        log_prob=log_prob, tokens=tokens, stopped=True,
    )  # fmt: skip


# ---- the case study


def two_runs(counts: dict[str, tuple[int, int]]) -> pd.DataFrame:
    """Samples of GRPO and GRPO-N with so many different right answers to each prompt."""
    rows = []
    for problem, numbers in counts.items():
        for method, number in zip(case_study.METHODS, numbers, strict=True):
            samples = [sample(problem, f"{problem}{i}", "correct", -1, 1) for i in range(number)]
            samples += [
                sample(problem, "wrong", "wrong", -1, 1),
                sample(problem, None, "unparsed", -1, 1),
            ]
            rows += [row | {"benchmark": "natural", "method": method} for row in samples]
    return pd.DataFrame(rows)


def test_the_rule_shows_gains_middle_and_losses():
    more = {f"p{i}": (5, 5 + d) for i, d in enumerate([4, 3, 2, 1, 0, 0, -1, -2, -3, -4])}
    samples = two_runs({**more, "unsolved": (0, 3)})
    chosen = case_study.chosen(samples)
    assert chosen["problem_id"].tolist() == ["p0", "p1", "p2", "p3", "p4", "p5", "p7", "p8", "p9"]
    assert chosen["more"].tolist() == [4, 3, 2, 1, 0, 0, -2, -3, -4]
    assert len(case_study.solved(samples)) == 10
    few = case_study.chosen(two_runs({"p": (1, 2), "q": (2, 1)}))
    assert few["problem_id"].tolist() == ["p", "q"]  # none twice


def test_a_models_text_cannot_break_the_page():
    assert case_study.quoted("a`b|c\nd\x1b[31m") == "`a'b¦c�d�[31m`"
    assert len(case_study.quoted("x" * 10**6)) <= case_study.LONGEST + 2


# ---- the rows of the tables


row = partial(compositions.experiment, paper="two_stage")
