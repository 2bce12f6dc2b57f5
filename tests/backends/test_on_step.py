import shutil

from interrupted import Stopped, interrupted
from refuses import refuses

from common.backends import backend, run_experiment


def test_a_run_that_its_hook_stops_goes_on_and_ends_with_the_same_bytes(tiny, capsys):
    """Stopped between steps where no periodic checkpoint is due."""
    x = tiny("method.entropy_coef=0.01", "checkpoint_every=100", "optim.steps=4")
    asked = []

    def third_time():
        asked.append(None)
        if len(asked) == 3:
            raise Stopped

    whole = run_experiment(x, False)
    kept = {name: (whole / name).read_bytes() for name in ("metrics.jsonl", "counts.csv")}
    shutil.rmtree(whole)
    interrupted(run_experiment, x, True, third_time)
    assert (whole / "metrics.jsonl").read_text().count("\n") == 2
    assert (whole / "checkpoint.pt").exists()
    assert "resumes after" not in capsys.readouterr().err
    steps = len(asked)
    assert run_experiment(x, True, third_time) == whole
    assert f"{whole}: resumes after step 2" in capsys.readouterr().err
    assert len(asked) == steps + 2  # the two steps that were left, none again
    assert {name: (whole / name).read_bytes() for name in kept} == kept
    assert run_experiment(x, True, third_time) == whole
    assert f"{whole}: finished earlier; not repeated" in capsys.readouterr().err


def test_an_unknown_backend_is_refused():
    with refuses("backend", "trl"):
        backend("trl")
