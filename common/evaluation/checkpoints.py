"""Which checkpoint of a finished training run is evaluated: the last, the best of its curve by the
average of its sets, the peak of one set, or the one of a step.

F-GRPO App. H.4 keeps a checkpoint an epoch and takes the one with the highest average pass@1 on its
math sets, and for a focal method the best one "obtained with equal or less compute" than that of
its baseline. The curve is measured on the reported benchmarks themselves: the paper's choice, ours
only to repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from common.errors import UserError, require
from common.results.files import read_csv

if TYPE_CHECKING:
    import pandas as pd

# A number is a training step. 0 is the model before training: a row that trains nothing.
Choice: TypeAlias = Literal["last", "best", "peak"] | int
UNTRAINED = 0


@dataclass(frozen=True)
class Checkpoint:
    """What is evaluated of a run. `note` says so where it is not the step that was `chosen`."""

    step: int
    chosen: int
    folder: str  # a Hugging Face checkpoint, relative to the run folder
    note: str


def best_step(curve: pd.DataFrame, at_most: int | None = None) -> int:
    """The step with the highest pass@1, averaged over benchmarks; the earliest of equal ones.

    curve: rows benchmark, metric, step, value of every evaluation of one run. Steps above `at_most`
    and steps that lack a benchmark are no candidates. Raises UserError where none is left.
    """
    rows = curve[curve["metric"] == "pass@1"]
    wide = rows.pivot_table(index="step", columns="benchmark", values="value").dropna()
    means = wide.mean(axis=1).sort_index()
    if at_most is not None:
        means = means[means.index <= at_most]
    limit = "" if at_most is None else f" up to step {at_most}"
    require(len(means) > 0, "checkpoint", "best", f"no evaluation with pass@1 of all sets{limit}")
    return int(means.idxmax())


def choose(
    run: Path, choice: Choice, baseline: Path | None = None, benchmark: str | None = None
) -> Checkpoint:
    """The checkpoint of a finished run: `best` by the average over the curve's sets, `peak` by its
    set `benchmark`, both up to the best step of the run's `baseline` if it has one.

    Training may have kept its last model alone: then `best` and `peak` take that one, and the note
    says what was wanted. Raises UserError for an unfinished run, and for a step that was not kept.
    """
    steps = curve_of(run)
    last = int(steps["step"].max())
    chosen = choice if isinstance(choice, int) else last
    if choice in ("best", "peak"):
        limit = best_step(curve_of(baseline)) if baseline else None
        of = steps if choice == "best" else steps[steps["benchmark"] == benchmark]
        chosen = best_step(of, limit)
    folder = "model" if chosen == last else f"checkpoints/step-{chosen:05d}"
    if (run / folder).is_dir():
        return Checkpoint(chosen, chosen, folder, "")
    require(
        not isinstance(choice, int),
        "checkpoint",
        choice,
        f"{run} kept no model of that step; train it with keep_checkpoints=true and eval.every a "
        "divisor of the step",
    )
    require((run / "model").is_dir(), "model", run / "model", "is gone; train again")
    note = f"step {chosen} is the best of the curve, but training kept step {last} alone"
    return Checkpoint(last, chosen, "model", note)


def curve_of(run: Path) -> pd.DataFrame:
    """All evaluations of a finished run: the rows of eval/step-*.csv."""
    import pandas as pd

    if not (run / "DONE").exists():
        raise UserError(f"{run}: is not finished; its evaluation waits for it")
    files = sorted((run / "eval").glob("step-?????.csv"))
    require(bool(files), "checkpoint", run / "eval", "holds no evaluation to choose by")
    return pd.concat([read_csv(file) for file in files], ignore_index=True)
