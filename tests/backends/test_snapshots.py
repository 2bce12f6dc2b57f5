"""keep_checkpoints: the models of the curve, for choosing one afterwards (F-GRPO App. H.4)."""

from pathlib import Path

from refuses import refuses

from common.backends import snapshots
from common.backends.local import train
from common.results.collect import verify

WEIGHTS = "model.safetensors"


def test_the_model_of_a_step_is_that_of_a_run_that_ends_there(tiny):
    """keep_checkpoints: those of evaluations, every 3 steps; keep_at: of others as well."""
    assert snapshots.steps(tiny("keep_checkpoints=true")) == [3]
    x = tiny("keep_checkpoints=true", "keep_at=[1,4,6,9]")  # 6 is the last, 9 comes never
    run = train(x, progress=False)
    kept = sorted((run / "checkpoints").iterdir())
    assert [path.name for path in kept] == ["step-00001", "step-00003", "step-00004"]
    assert verify(run) == []
    assert x.run_id == tiny().run_id
    short = train(tiny("optim.steps=3", "name=short"), progress=False)
    assert (kept[1] / WEIGHTS).read_bytes() == (short / "model" / WEIGHTS).read_bytes()
    assert (kept[1] / WEIGHTS).read_bytes() != (run / "model" / WEIGHTS).read_bytes()
    names = {path.name for path in (run / "model").iterdir()}
    assert {path.name for path in kept[1].iterdir()} == names


def test_a_finished_run_without_them_is_named(tiny):
    run = train(tiny(), progress=False)
    assert not (run / "checkpoints").exists()
    with refuses("keep_checkpoints", "true"):
        train(tiny("keep_checkpoints=true"), progress=False)
    with refuses("keep_at", "[1]"):
        train(tiny("keep_at=[1]"), progress=False)
    assert train(tiny(), progress=False) == run
    assert Path(run, "DONE").exists()
