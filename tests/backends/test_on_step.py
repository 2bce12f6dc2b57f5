"""The hook between steps, and which backend is which."""

import shutil

import pytest
from refuses import refuses

from common.backends import backend, run_experiment


class Interrupted(BaseException):
    pass


def test_what_the_hook_raises_follows_a_checkpoint(tiny):
    """Stopped between steps where no periodic checkpoint is due, a run ends with the same bytes."""
    x = tiny("method.entropy_coef=0.01", "checkpoint_every=100", "optim.steps=4")
    asked = []

    def third_time():
        asked.append(None)
        if len(asked) == 3:
            raise Interrupted

    whole = run_experiment(x, False, lambda: None)
    kept = {name: (whole / name).read_bytes() for name in ("metrics.jsonl", "counts.csv")}
    shutil.rmtree(whole)
    with pytest.raises(Interrupted):
        run_experiment(x, False, third_time)
    assert (whole / "metrics.jsonl").read_text().count("\n") == 2
    assert (whole / "checkpoint.pt").exists()
    steps = len(asked)
    assert run_experiment(x, False, third_time) == whole
    assert len(asked) == steps + 2  # the two steps that were left, none again
    assert {name: (whole / name).read_bytes() for name in kept} == kept


def test_an_unknown_backend_is_refused():
    with refuses("backend", "trl"):
        backend("trl")
