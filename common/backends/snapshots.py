"""The models that a run leaves besides the last, with keep_checkpoints=true: a Hugging Face
checkpoint of every other evaluation step, <run>/checkpoints/step-00050/, among which one is chosen
afterwards (F-GRPO App. H.4). The last step's is <run>/model, as in every run.
"""

from pathlib import Path

from common.errors import UserError
from common.experiment import Experiment


def folder(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"step-{step:05d}"


def check_finished(x: Experiment, run: Path) -> None:
    """Raise UserError for a finished run that was trained without the models now asked for."""
    steps = range(x.eval.every, x.optim.steps, x.eval.every) if x.keep_checkpoints else ()
    missing = [step for step in steps if not folder(run, step).is_dir()]
    if missing:
        raise UserError(
            f"keep_checkpoints=true: {run} is finished and kept no model of step {missing[0]}; "
            "delete the folder to train it again, or set keep_checkpoints=false"
        )
