"""The models of earlier steps that a run keeps, in <run>/checkpoints/step-00050/ as Hugging Face
checkpoints: with keep_checkpoints=true those of every evaluation step, so that one can be chosen
afterwards (F-GRPO App. H.4), and those of keep_at. The last step's model is <run>/model."""

from pathlib import Path

from common.errors import require
from common.experiment import Experiment


def steps(x: Experiment) -> list[int]:
    """Return the steps whose model is kept, in order, without the last step."""
    curve = x.eval.curve(x.optim.steps) if x.keep_checkpoints else ()
    return sorted({*curve, *(step for step in x.keep_at if step < x.optim.steps)})


def folder(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:05d}"


def check_finished(x: Experiment, run: Path) -> None:
    """Raise UserError for a finished run without the models that are now asked for."""
    missing = [step for step in steps(x) if not folder(run, step).is_dir()]
    curve = x.keep_checkpoints and any(step in x.eval.curve(x.optim.steps) for step in missing)
    key, value = ("keep_checkpoints", "true") if curve else ("keep_at", x.keep_at)
    remedy = f"{run} is finished without models of steps {missing}; delete it to train it again"
    require(not missing, key, value, remedy)
