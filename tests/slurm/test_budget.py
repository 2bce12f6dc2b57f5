"""Which rows a number of GPU-hours buys."""

from types import SimpleNamespace

import pytest
from compositions import asked, runs
from refuses import refuses

from common.comparison.spec import spec_of
from common.errors import UserError
from common.sweeps.cost import Range
from common.sweeps.plan import evaluations
from common.sweeps.profiles import load_profile
from slurm import budget, cost
from slurm.budget import Claim
from slurm.plan import Job, plan


def outlook(hours: dict[str, tuple[float, float]], refused: tuple[str, ...] = ()) -> cost.Outlook:
    known = {key: SimpleNamespace(gpu_hours=Range(*ends)) for key, ends in hours.items()}
    return cost.Outlook(known, dict.fromkeys(refused, "too large"))


def claim(name: str, *rows: str, lacking: str = "") -> Claim:
    return Claim(name, frozenset(rows), lacking, "")


def test_the_claims_that_cost_least_come_first_and_rows_are_shared():
    jobs = [Job("train", key, None) for key in "abcd"]
    jobs += [Job("evaluate", "a-MATH", None, ("a",)), Job("evaluate", "d-MATH", None, ("d", "a"))]
    middle = {"a": (50, 200), "b": (40, 40), "c": (100, 100), "d": (1, 1), "a-MATH": (2, 8)}
    seen = outlook(middle | {"d-MATH": (1, 1)})
    claims = [claim("ab", "a", "b"), claim("ab again", "a", "b"), claim("ac", "a", "c")]
    claims += [claim("b", "b"), claim("elsewhere", lacking="this scale does not train it")]

    def chosen(hours: float, done: set[str] = frozenset()) -> tuple[list[str], list[str], float]:
        found = budget.choose(claims, jobs, seen, done, hours)
        return sorted(found.rows), [c.id for c in found.decided], found.spent

    assert chosen(39) == ([], [], 0)
    assert chosen(143) == (["b"], ["b"], 40)
    assert chosen(144) == (["a", "b"], ["ab", "ab again", "b"], 144)  # 100 + 4 + 40, the middles
    assert chosen(250) == (["a", "b", "c"], ["ab", "ab again", "ac", "b"], 244)
    assert chosen(100, {"a", "a-MATH"}) == (["a", "b"], ["ab", "ab again", "b"], 40)
    assert budget.keep(jobs, ["d"]) == {"a", "d", "d-MATH"}  # its baseline's curve limits it
    found = budget.choose(claims, jobs, seen, set(), 144)
    assert dict((c.id, why) for c, why in found.left) == {
        "ac": "100 GPU-hours more",
        "elsewhere": "this scale does not train it",
    }
    lost = outlook(middle, refused=("d-MATH",))
    assert budget.choose([claim("d", "d")], jobs, lost, set(), 1e9).left[0][1] == (
        "a row of it cannot run on this profile"
    )
    none = budget.choose(claims, jobs, seen, set(), 39)
    with refuses("budget", "39"):
        budget.text(none, 39, seen, jobs)


@pytest.mark.parametrize("word", ["abc", "0", "-5", "nan", "inf", ""])
def test_a_bad_budget_is_refused(word):
    with pytest.raises(UserError, match=f"budget={word}: give a number of GPU-hours above 0"):
        budget.given(word)
    assert budget.given("200") == 200


@pytest.mark.sweep
def test_rows_of_claims_are_found_by_their_printed_labels():
    """F-GRPO's Table 2 prints Table 1's GRPO as "GRPO (N=8)": the same run."""
    jobs = plan(runs("f_grpo", "cluster"), evaluations(asked("f_grpo", "scale=cluster")))
    named = {job.key: job.config.name for job in jobs if job.kind == "train"}
    spec = spec_of("f_grpo")
    found = {c.id: c for c in budget.claims_of(spec, jobs)}
    first = found["focal_grpo"]
    assert {named[row] for row in first.rows} == {"qwen7b_grpo", "qwen7b_f_grpo"}
    # Table 1: 70.3 against 64.1 over sets of 30, 30, 40, 500, 272 and 675 problems, by hand:
    # 2.80 sqrt(2 x 0.672 x 0.328 x (1/30 + 1/30 + 1/40 + 1/500 + 1/272 + 1/675)) / 6 = 0.0975
    assert first.power == "printed +6.2, 80 % power from 9.7 points: power 43 % or more"
    shared = [c for c in found.values() if "qwen7b_grpo_n2" in {named.get(r) for r in c.rows}]
    assert shared
    assert all(not c.rows or not c.lacking for c in found.values())
    seen = cost.outlook(jobs, load_profile("h100-1x8"))
    few = budget.choose(list(found.values()), jobs, seen, set(), 1500)
    assert {"qwen7b_grpo", "qwen7b_f_grpo"} <= {named[row] for row in few.rows}
    assert few.spent <= 1500
    assert few.left
