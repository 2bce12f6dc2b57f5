"""Rollout correction, `sampling.correction`: where it can be asked for, and what says that it is
on. verl's part of it: tests/cluster/test_verl_config.py."""

from dataclasses import replace

import pytest
from refuses import refuses

from common.backends import printed
from common.comparison import deviations
from common.config.schema import Correction
from common.experiment import load

VERL = ["backend=verl", "device=cuda"]
TRUNCATED = "sampling.correction={level:token,upper:2.0}"
MASKED = "sampling.correction={level:sequence,upper:5.0,lower:0.5}"


def test_without_it_a_run_is_called_as_before_the_key_was_there():
    x = load(VERL, "f_grpo")
    assert "correction" not in x.identity["sampling"]
    names = {load([*VERL, *more], "f_grpo").run_id for more in ([], [TRUNCATED], [MASKED])}
    assert len(names) == 3


@pytest.mark.parametrize("method", ["dlc", "grpo"])
def test_it_is_verls_and_not_beside_a_memory_network(method):
    backend = ["backend=local"] if method == "grpo" else VERL
    with refuses("sampling.correction"):
        load([*backend, f"method={method}", TRUNCATED], "f_grpo")


@pytest.mark.parametrize("lower", [2, 3])
def test_bounds_that_let_nothing_through_are_refused(lower):
    with refuses("sampling.correction.lower", float(lower)):
        load([*VERL, f"sampling.correction={{level:token,upper:2,lower:{lower}}}"], "f_grpo")


@pytest.mark.parametrize("paper", deviations.PAPERS)
@pytest.mark.parametrize(("words", "count"), [([], 0), ([TRUNCATED], 1), ([MASKED], 1)])
def test_it_is_other_than_printed_where_it_is_on(paper, words, count):
    said = printed.compared(load([*VERL, *words], paper), None)
    assert sum("rollout correction" in line for line in said) == count


@pytest.mark.sweep
def test_it_stands_in_the_table_of_deviations_where_it_is_on(monkeypatch):
    assert "rollout correction" not in deviations.section("two_stage")
    runs_of, on = deviations.runs_of, Correction("token", 2.0)

    def corrected(*given):
        return [replace(x, sampling=replace(x.sampling, correction=on)) for x in runs_of(*given)]

    monkeypatch.setattr(deviations, "runs_of", corrected)
    (line,) = [one for one in deviations.section("two_stage").splitlines() if "correction" in one]
    assert "truncated above 2 " in line
    assert line.endswith("All rows.")
