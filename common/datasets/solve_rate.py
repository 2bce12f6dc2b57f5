"""A training set without its easy prompts, chosen by the start model's solve rates on the set
itself.

    data.train.solve_rate: {n: 8, drop_easiest: 0.25}   # drop so large a share of the prompts
    data.train.solve_rate: {n: 8, mean: 0.5}            # drop until the rest's mean is that low

The rates come from an evaluation with n samples per prompt (common/backends/solve_rates.py).
"""

import csv
import sys
from pathlib import Path
from random import Random

from common.config.resolve import resolve
from common.errors import require
from common.types import Prompt

KEY = "solve_rate"  # a key of a `data.train` node


def unfiltered(node: dict) -> dict:
    return {name: value for name, value in node.items() if name != KEY}


def chooser(node: dict, key: str):
    """Return the function (prompts, rates) -> prompts that filters as the node asks, or None.
    Raises UserError for an unknown or a missing key."""
    asked = node.get(KEY)
    if asked is None:
        return None
    chosen = {"_target_": f"{__name__}.filtered"} | asked
    return resolve(chosen, f"{key}.{KEY}", ("prompts", "rates"))


def filtered(
    *,
    prompts: list[Prompt],
    rates: dict[str, float],
    n: int,
    drop_easiest: float | None = None,
    mean: float | None = None,
) -> list[Prompt]:
    """Return the prompts without the easiest ones, in their order; stderr says how many.

    rates         prompt id -> share of right samples
    n             samples per prompt behind each rate
    drop_easiest  share of the prompts to drop, rounded down (over_sharpening Table 5: 0.25)
    mean          drop the easiest until the mean rate is at most this (FADE Sec. 3: about 0.5)

    A fixed seed decides among equal rates. Raises UserError without a rate, or if all are dropped.
    """
    given = {"drop_easiest": drop_easiest, "mean": mean}
    require((drop_easiest is None) != (mean is None), KEY, given, "give one of them")
    share = mean if drop_easiest is None else drop_easiest
    require(0 < share < 1, KEY, share, "must lie between 0 and 1")
    missing = [prompt.id for prompt in prompts if prompt.id not in rates]
    remedy = f"{len(missing)} of {len(prompts)} prompts were not sampled; measure this training set"
    require(not missing, KEY, missing[:1], remedy)
    known = {prompt.id: rates[prompt.id] for prompt in prompts}
    order = sorted(Random(KEY).sample(prompts, len(prompts)), key=lambda p: known[p.id])
    if drop_easiest is not None:
        kept = order[: len(order) - int(drop_easiest * len(order))]
    else:
        kept, total = order[:], sum(known.values())
        while kept and total > mean * len(kept):
            total -= known[kept.pop().id]
    require(bool(kept), KEY, share, f"would drop all {len(prompts)} prompts")
    left = sum(known[prompt.id] for prompt in kept) / len(kept)
    print(
        f"solve_rate: {len(kept)} of {len(prompts)} prompts, mean {left:.3f} of "
        f"{sum(known.values()) / len(known):.3f} by {n} samples, none above "
        f"{known[kept[-1].id]:.3f}",
        file=sys.stderr,
    )
    ids = {prompt.id for prompt in kept}
    return [prompt for prompt in prompts if prompt.id in ids]


def rates(counts: Path) -> dict[str, float]:
    """Return prompt id -> share of right samples from counts.csv. Raises UserError without it."""
    remedy = "the start model was not measured on the training set yet; `rlvr train` and "
    remedy += "`rlvr submit` do that first (docs/data.md, Solve rates)"
    require(counts.exists(), f"data.train.{KEY}", counts, remedy)
    with counts.open(newline="") as file:
        return {row["problem_id"]: int(row["c"]) / int(row["n"]) for row in csv.DictReader(file)}
