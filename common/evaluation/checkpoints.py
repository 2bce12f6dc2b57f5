"""The choice of the checkpoint of a finished training run: the last, the best of its curve by the
average of its benchmarks, the end of its highest plateau, or that of a given step.

F-GRPO App. H.4 keeps a checkpoint per epoch and takes the one with the highest average pass@1 on
its math sets, measured on the reported benchmarks themselves; for a focal method the best one
"obtained with equal or less compute" than its baseline's.

FADE Sec. 11.2 evaluates "at their peak performance", "where pass@k has stabilized, meaning at least
1000 consecutive steps yield similar results". Our choices: two evaluations in a row are similar if,
for every benchmark and every k of the curve, the mean over problems of the difference in pass@k is
within 1.96 of its standard errors. Of the pair with the highest mean pass@1 we take the later step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import pandas as pd

from common.errors import require
from common.metrics.passk import pass_at_k
from common.results.collect import counts_of, evaluations

# A number is a training step. 0 is the model before training, for a row that trains nothing.
Choice: TypeAlias = Literal["last", "best", "plateau"] | int
UNTRAINED = 0
COUNTS = ["benchmark", "problem_id", "n", "c"]  # columns of a file of counts
SIMILAR = 1.96  # standard errors of a mean difference over problems


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint of a run that is evaluated. `note`: a plateau was asked for in vain."""

    step: int
    folder: str  # a Hugging Face checkpoint, relative to the run folder
    note: str


def best_step(curve: pd.DataFrame, at_most: int | None = None) -> int:
    """Return the step with the highest pass@1, averaged over benchmarks; the earliest of equal
    ones. Steps above `at_most` and steps that lack a benchmark are no candidates. curve: rows
    benchmark, metric, step, value of one run's evaluations. Raises UserError if no step is left."""
    rows = curve[curve["metric"] == "pass@1"]
    wide = rows.pivot_table(index="step", columns="benchmark", values="value").dropna()
    means = wide.mean(axis=1).sort_index()
    if at_most is not None:
        means = means[means.index <= at_most]
    limit = "" if at_most is None else f" up to step {at_most}"
    require(len(means) > 0, "checkpoint", "best", f"no evaluation with pass@1 of all sets{limit}")
    return int(means.idxmax())


def plateau_step(counts: pd.DataFrame, ks: Sequence[int]) -> int | None:
    """Return the later step of the highest two evaluations in a row that are similar (see the
    module's docstring); the earliest of equal ones, or None. counts: rows benchmark, problem_id,
    step, n, c of one run's curve. Raises UserError as `pass_at_k` does, and for different
    problems."""
    ks = sorted({1, *ks})
    curve = {}
    for step, rows in counts.groupby("step"):
        values = pass_at_k(rows["c"].to_numpy(), rows["n"].to_numpy(), ks)
        index = pd.MultiIndex.from_frame(rows[["benchmark", "problem_id"]])
        curve[int(step)] = pd.DataFrame(values, index).sort_index()
    chosen, highest = None, float("-inf")
    for earlier, later in pairwise(sorted(curve)):
        one, other = curve[earlier], curve[later]
        same = one.index.equals(other.index)
        require(same, "checkpoint", "plateau", f"steps {earlier}, {later} have different problems")
        sets = (other - one).groupby(level="benchmark")
        errors = (sets.std() / sets.count() ** 0.5).fillna(0.0)  # a single problem has no spread
        if (sets.mean().abs() > SIMILAR * errors + 1e-12).any(axis=None):
            continue
        score = ((one + other) / 2)[0].groupby(level="benchmark").mean().mean()
        if score > highest + 1e-12:
            chosen, highest = later, score
    return chosen


def choose(
    run: Path, choice: Choice, baseline: Path | None = None, steps: int | None = None
) -> Checkpoint:
    """Return the checkpoint of a finished run that `choice` asks for. `best` goes up to the best
    step of the run's `baseline` if it has one. `plateau` without similar evaluations takes the best
    step, and the note says so. All choices look at the first `steps` only, since the run may have
    gone on. Raises UserError for an unfinished run, and for a step that was not kept."""
    whole = curve_of(run)
    curve = _first(whole, steps)
    last = int(curve["step"].max())
    step, note = choice if isinstance(choice, int) else last, ""
    if choice == "plateau":
        counts, _ = counts_of(run)
        require(len(counts) > 0, "checkpoint", run / "eval", "has no counts to choose a step by")
        step = plateau_step(_first(counts, steps), _ks(curve))
        if step is None:
            step = best_step(curve)
            note = f"no two evaluations in a row are similar; step {step} is the best of the curve"
    elif choice == "best":
        limit = best_step(_first(curve_of(baseline), steps)) if baseline else None
        step = best_step(curve, limit)
    ended = last == whole["step"].max()
    end = "model" if ended else f"checkpoints/step-{last:05d}"  # the run has gone on since
    folder = end if step == last else f"checkpoints/step-{step:05d}"
    remedy = f"{run / folder} does not exist; train again with keep_at=[{step}]"
    require((run / folder).is_dir(), "checkpoint", choice, remedy)
    return Checkpoint(step, folder, note)


def _first(rows: pd.DataFrame, steps: int | None) -> pd.DataFrame:
    return rows if steps is None else rows[rows["step"] <= steps]


def _ks(curve: pd.DataFrame) -> list[int]:
    rows = curve[curve["metric"].str.fullmatch(r"pass@\d+", na=False)]
    of = [set(part["metric"]) for _, part in rows.groupby("step")]
    return sorted(int(name.removeprefix("pass@")) for name in set.intersection(*of))


def curve_of(run: Path) -> pd.DataFrame:
    """Return all evaluations of a finished run. Raises UserError for an unfinished run."""
    require((run / "DONE").exists(), "run", run, "is not finished; its evaluation waits for it")
    found = evaluations(run)
    require(bool(found), "checkpoint", run / "eval", "has no evaluation to choose a step by")
    return pd.concat(found, ignore_index=True)
