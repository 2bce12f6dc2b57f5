"""What the cluster rows do unlike their papers: held here, and written into the READMEs."""

from dataclasses import replace
from functools import cache

import pytest
from tiny import TINY

from common.backends import printed
from common.comparison import deviations
from common.experiment import load

HELD = {  # paper -> the printed settings that some row does not have
    "f_grpo": {"rollout engine", "samples per problem n (protocol)"},
    "two_stage": set(),
    "cov_grpo": {
        "training steps",  # 200, for Table 3; Table 2's checkpoint is another matter
        "warmup ratio",  # 10 steps, of 100
        "lr scheduler",  # the repository's; the paper does not say
        "seed",
        "reward functions 7B",  # the repository's; the paper adds the format
    },
    "over_sharpening": {"learning rate"},  # of the row with verl's example for Reinforce++
    "fade": set(),
}


@cache
def planned(paper: str):
    return deviations.planned(paper)


@pytest.mark.sweep
@pytest.mark.parametrize("paper", deviations.PAPERS)
def test_every_row_of_every_paper_deviates_as_is_said(paper, monkeypatch):
    rows = planned(paper)
    assert len(rows) >= 6
    found = {one.removeprefix("repo: ").split(": ")[1] for row in rows for one in row.differs}
    assert found == HELD[paper]
    monkeypatch.setattr(deviations, "planned", planned)
    path, text = deviations.readme(paper)
    assert path.read_text() == text, "run make docs"


def test_words_are_compared_too():
    x = load([*TINY, "backend=local"], "f_grpo")
    rows = {one.row["parameter"]: one for one in printed.beside(x, None)}
    assert rows["optimizer"].same
    assert rows["loss aggregation"].same
    assert rows["verifier"].same is False
    assert rows["rollout engine"].same is False
    assert rows["hardware"].same is None
    assert "training: verifier: our own comparison, printed math-verify" in "\n".join(
        printed.compared(x, None)
    )
    grader = {"_target_": "common.verifiers.math.verify", "convention": "math_verify"}
    graded = replace(x, data=replace(x.data, verifier=grader))
    rows = {one.row["parameter"]: one for one in printed.beside(graded, None)}
    assert rows["verifier"].same


def test_what_a_row_is_evaluated_with_is_its_jobs():
    x = load([*TINY, "backend=local"], "two_stage")
    jobs = printed.Sampled(n=256, temperature=0.6, top_p=0.95, max_tokens=9, draws=(128, 3))
    rows = {one.row["parameter"]: one for one in printed.beside(x, None, jobs)}
    for name in ("samples per prompt n", "top-p", "OOD subsample"):
        assert rows[name].same
    fewer = printed.beside(x, None, jobs._replace(draws=(128, 1)))
    (one,) = [one for one in fewer if one.row["parameter"] == "OOD subsample"]
    assert one.same is False
    assert one.difference.startswith("evaluation: OOD subsample: 128, 1, printed 128 random")


def test_tables_come_by_number_and_the_second_version_after_the_first():
    names = ["table10_v2", "table2", "table1_v2", "table1", "table2_v2"]
    assert sorted(names, key=deviations.order) == [
        "table1", "table1_v2", "table2", "table2_v2", "table10_v2",
    ]  # fmt: skip
