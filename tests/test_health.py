import math

import pytest
from refuses import refuses

from common.health import Guard, findings

WELL = {"grad_norm": 0.3, "truncated": 0.2, "entropy": 0.4, "rollout_difference_mean": 0.002}
UNWELL = [
    ({"grad_norm": math.nan}, 1, 3),
    ({"grad_norm": math.inf}, 1, 3),
    ({"rollout_difference_mean": 0.06}, 3, 10),
    ({"rollout_difference_mean": math.nan}, 3, 10),
    ({"truncated": 1.0}, 6, 20),
    ({"grad_norm": 0.0}, 5, 100),
    ({"entropy": 1e-5}, 16, 50),
]


UNWELL += [({column: None}, warn, stop) for column, warn, stop in [  # as verl's log has NaN
    ("grad_norm", 1, 3), ("rollout_difference_mean", 3, 10)
]]  # fmt: skip


def found(*rows: dict) -> list[tuple[str, int, bool]]:
    return [(one.rule.column, one.steps, one.stops) for one in findings(rows)]


@pytest.mark.parametrize(("wrong", "warn", "stop"), UNWELL)
def test_each_rule_warns_first_and_then_stops(wrong, warn, stop):
    (column,) = wrong
    bad = WELL | wrong
    assert found(*[WELL] * 9, *[bad] * warn) == [(column, warn, False)]
    assert found(*[bad] * (stop - 1)) == [(column, stop - 1, False)]
    assert found(WELL, *[bad] * stop) == [(column, stop, True)]
    assert found(*[bad] * stop, WELL) == []  # only what has not passed


def test_memory_that_vllm_keeps_asleep_is_said_and_ends_no_run():
    bad = WELL | {"asleep_gib": 12.5}
    assert found(*[WELL | {"asleep_gib": 7.0}] * 9, *[bad] * 2) == []
    assert found(*[bad] * 500) == [("asleep_gib", 500, False)]
    (one,) = findings([bad] * 3)
    assert str(one) == "asleep_gib=12.5: vLLM keeps over 12 GiB while it sleeps, for 3 steps"


def test_what_is_not_logged_is_not_judged():
    assert found() == found(*[{"reward": 0.0}] * 200) == found(*[WELL] * 200) == []


def test_a_finding_of_a_row_with_null_can_be_said():
    (one,) = findings([WELL | {"grad_norm": None}])
    assert "grad_norm=nan" in str(one)


def test_a_guard_says_a_finding_once_and_ends_a_run_only_if_it_may(capsys):
    bad = WELL | {"grad_norm": math.nan}
    guard = Guard([WELL], stops=True)
    for _ in range(2):
        guard.see(bad)
        guard.check()
    assert capsys.readouterr().err.count("grad_norm=nan") == 1
    guard.see(bad)
    with refuses("grad_norm", "nan"):
        guard.check()
    with refuses("grad_norm", "nan"):  # resumed, nothing has changed
        Guard([bad, bad, bad], stops=True).check()
    Guard([bad, bad, bad], stops=False).check()
