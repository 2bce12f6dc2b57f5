"""A training set without its easy prompts, by solve rates that one offline pass has measured.

The pass is an evaluation of the start model on the training set itself: an experiment of no steps
whose benchmark `train` is the set (docs/data.md has the command). Its counts choose the prompts:

    data.train.solve_rate: {counts: GLOB, drop_easiest: 0.25}   # so large a share goes
    data.train.solve_rate: {counts: GLOB, mean: 0.5}            # until the rest's mean is that low
"""

import csv
import sys
from pathlib import Path
from random import Random

from common.errors import UserError, require
from common.types import Prompt

BENCHMARK = "train"  # the name under which the offline pass evaluates the training set


def filtered(
    *,
    prompts: list[Prompt],
    counts: str,
    drop_easiest: float | None = None,
    mean: float | None = None,
) -> list[Prompt]:
    """The prompts without the easiest, in their order; how many went is told on stderr.

    counts        the offline pass's counts (problem_id, n, c), as a glob that one file matches
    drop_easiest  the share that goes, rounded down (over_sharpening Table 5: 0.25)
    mean          the easiest go until the mean solve rate is at most this (FADE Sec. 3: about 0.5)

    Solve rates are multiples of 1/n, so many are equal: which of those goes is drawn by a fixed
    seed. UserError where no or two files match, a prompt has no count, or nothing would be left.
    """
    require(
        (drop_easiest is None) != (mean is None),
        "solve_rate",
        {"drop_easiest": drop_easiest, "mean": mean},
        "give one of the two",
    )
    share = mean if drop_easiest is None else drop_easiest
    require(0 < share < 1, "solve_rate", share, "must lie between 0 and 1")
    rates = _rates(counts_file(counts), prompts)
    order = sorted(Random("solve_rate").sample(prompts, len(prompts)), key=lambda p: rates[p.id])
    if drop_easiest is not None:
        kept = order[: len(order) - int(drop_easiest * len(order))]
    else:
        kept, total = order[:], sum(rates.values())
        while kept and total > mean * len(kept):
            total -= rates[kept.pop().id]
    require(bool(kept), "solve_rate", share, f"leaves none of {len(prompts)} prompts")
    left = sum(rates[prompt.id] for prompt in kept) / len(kept)
    print(
        f"solve_rate: {len(kept)} of {len(prompts)} prompts, mean {left:.3f} of "
        f"{sum(rates.values()) / len(rates):.3f}, none above {rates[kept[-1].id]:.3f}",
        file=sys.stderr,
    )
    ids = {prompt.id for prompt in kept}
    return [prompt for prompt in prompts if prompt.id in ids]


def counts_file(counts: str) -> Path:
    """The one file that the glob `counts` matches, from the working folder. Raises UserError saying
    what to run."""
    root, pattern = (Path("/"), counts[1:]) if counts.startswith("/") else (Path(), counts)
    files = sorted(root.glob(pattern))
    remedy = "measure the start model on the training set first: docs/data.md, Solve rates"
    if files:
        remedy = f"{len(files)} files match; name one"
    require(len(files) == 1, "data.train.solve_rate.counts", counts, remedy)
    return files[0]


def _rates(path: Path, prompts: list[Prompt]) -> dict[str, float]:
    """Prompt id -> share of right samples."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["benchmark"] == BENCHMARK]
    known = {row["problem_id"]: int(row["c"]) / int(row["n"]) for row in rows}
    missing = [prompt.id for prompt in prompts if prompt.id not in known]
    if missing:
        raise UserError(
            f"data.train.solve_rate.counts={path}: {len(missing)} of {len(prompts)} prompts have "
            f"no count of benchmark={BENCHMARK} (first: {missing[0]}); measure this training set"
        )
    return {prompt.id: known[prompt.id] for prompt in prompts}
