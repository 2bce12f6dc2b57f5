"""The models that a run leaves besides the last, as Hugging Face checkpoints,
<run>/checkpoints/step-00050/: with keep_checkpoints=true that of every other evaluation step, among
which one is chosen afterwards (F-GRPO App. H.4), and those of the steps of keep_at. The last step's
is <run>/model, as in every run.
"""

from pathlib import Path

from common.errors import UserError
from common.experiment import Experiment


def steps(x: Experiment) -> list[int]:
    """Those whose model is left, in order, without the last."""
    curve = range(x.eval.every, x.optim.steps, x.eval.every) if x.keep_checkpoints else ()
    return sorted({*curve, *(step for step in x.keep_at if step < x.optim.steps)})


def folder(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:05d}"


def check_finished(x: Experiment, run: Path) -> None:
    """Raise UserError for a finished run that was trained without the models now asked for."""
    missing = [step for step in steps(x) if not folder(run, step).is_dir()]
    if missing:
        curve = x.keep_checkpoints and missing[0] % x.eval.every == 0
        key, off = ("keep_checkpoints=true", "false") if curve else (f"keep_at={x.keep_at}", "[]")
        raise UserError(
            f"{key}: {run} is finished and kept no model of step {missing[0]}; "
            f"delete the folder to train it again, or set {key.partition('=')[0]}={off}"
        )
