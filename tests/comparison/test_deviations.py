import re
from dataclasses import replace
from functools import cache

import pytest
from refuses import refuses
from tiny import ROOT, TINY

from common.backends import printed
from common.comparison import deviations
from common.config.files import read
from common.experiment import load

HELD = {  # paper -> the printed settings that some row does not have
    "f_grpo": {"rollout engine", "engine", "samples per problem n (protocol)"},
    "two_stage": {"loss aggregation"},  # the token mean of the code that it follows
    "cov_grpo": {
        "training steps",  # 200, for Table 3; Table 2's checkpoint is another matter
        "max_steps 1.5B",  # 200 of the 300 of its schedule
        "advantage",  # its epsilon
        "seed",
        "reward functions 7B",  # the repository's; the paper adds the format
        "metric",  # 16 samples of the base models
    },
    "over_sharpening": {
        "learning rate",  # of the row with verl's example for Reinforce++
        "memory network",  # learns what is kept, not all
        "KL to the reference",  # none in the bare rows
        "PASS@8",  # best@8, which is what the cells are
    },
    "fade": {
        "learning rate per method",
        "system",
        "LiveCodeBench v5",
        "H*",
        "initial H_hat",  # of the first step, not the gate's
        "EMA update as printed",
        "PPO clip in Algorithms 1-2",  # of 32B, as Sec. 11.1 prints it
    },
}


@cache
def planned(paper: str):
    return deviations.planned(paper)


@pytest.mark.sweep
@pytest.mark.parametrize("paper", deviations.PAPERS)
def test_every_printed_row_is_compared_in_some_run_or_has_a_reason(paper):
    compared, reasons, rows = set(), set(), set()
    for one in planned(paper):
        for beside in printed.beside(one.run, one.sampled):
            name = (beside.row["scope"], beside.row["parameter"])
            rows.add(name)
            if beside.same is not None:
                compared.add(name)
            if beside.reason:
                reasons.add(name)
    assert not compared & reasons
    assert rows == compared | reasons
    said = read(ROOT / "papers" / paper / "published" / "compared.yaml")
    stated = {
        (scope, name)
        for scope, node in said.items()
        for name in (node if isinstance(node, dict) else ())
    }
    assert stated <= rows
    assert set(said) <= {scope for scope, _ in rows}
    assert len(compared) >= 16


@pytest.mark.sweep
@pytest.mark.parametrize("paper", deviations.PAPERS)
def test_every_row_of_every_paper_deviates_as_is_said(paper, monkeypatch):
    rows = planned(paper)
    found = {one.removeprefix("repo: ").split(": ")[1] for row in rows for one in row.differs}
    assert found == HELD[paper]
    monkeypatch.setattr(deviations, "planned", planned)
    path, text = deviations.readme(paper)
    assert path.read_text() == text, "run make docs"
    # "none" never stands alone: it is none of the settings that the paper prints and we compared
    section = deviations.section(paper)
    assert section in text
    bare = [line for line in section.splitlines() if line.endswith(("| none |", "none."))]
    assert bare == []
    assert all(int(part) > 5 for part in re.findall(r"none of (\d+) settings", section))


def test_words_are_compared_too():
    x = load([*TINY, "backend=local"], "f_grpo")
    rows = {one.row["parameter"]: one for one in printed.beside(x)}
    assert rows["optimizer"].same
    assert rows["loss aggregation"].same
    assert rows["verifier"].same is False
    assert rows["rollout engine"].same is False
    assert rows["hardware"].same is None
    assert rows["hardware"].reason
    assert "verifier: countdown, printed math-verify" in rows["verifier"].difference
    grader = {"_target_": "common.verifiers.math.verify", "convention": "math_verify"}
    graded = replace(x, data=replace(x.data, verifier=grader))
    rows = {one.row["parameter"]: one for one in printed.beside(graded)}
    assert rows["verifier"].same


@pytest.mark.parametrize(
    ("ours", "said", "same"),
    [
        ("synchronous", "asynchronous", False),
        ("math-verify", "math_verify", True),
        (1, [8, 1], True),
        (3, [8, 1], False),
        ((0.9, 0.999), [0.9, 0.999], True),
        (frozenset({"a", "b"}), ["a"], True),
        (None, 0.5, False),
    ],
)
def test_values_are_compared_not_parts_of_words(ours, said, same):
    assert printed.agree(ours, said) is same


def test_both_clips_are_compared_at_32b():
    x = load(["experiment=cluster/cwm32b_grpo"], "fade")
    for loss, same in (({}, True), ({"eps_high": 0.2}, False), ({"eps_low": 0.1}, False)):
        other = replace(x, method=replace(x.method, loss=x.method.loss | loss))
        rows = {one.row["parameter"]: one for one in printed.beside(other)}
        assert rows["PPO clip 32B"].same is same
        assert rows["PPO clip 7B"].same is None
        assert rows["system"].same is False


def test_a_row_that_nothing_is_said_of_is_refused():
    row = {"scope": "training", "parameter": "colour"}
    with refuses("compared.yaml", "training: colour"):
        printed.entry(row, {"training": {"lr": "a reason"}})
