"""Predicts what a scale will take on one GPU, before it runs, with common/sweeps/cost.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from common.results.tables import markdown as to_markdown
from common.sweeps.assumptions import assumptions
from common.sweeps.cost import Range, estimate
from common.sweeps.profiles import load_profile

if TYPE_CHECKING:
    from common.experiment import Experiment

HEAD = ["method", "seeds", "hours a run", "GB of GPU memory", "GB of disk a run"]


def predicted(runs: list[Experiment], profile: str) -> pd.DataFrame:
    """Return method, seed, hours (a Range), memory_gb and disk_gb of every run. Raises UserError
    for an unknown profile, and where a run does not fit the profile's GPU."""
    where, given = load_profile(profile), assumptions()
    found = [estimate(x, where, given) for x in runs]
    named = [{"method": x.label, "seed": x.seed} for x in runs]
    took = [
        {"hours": one.hours, "memory_gb": one.memory_gb, "disk_gb": one.disk_gb} for one in found
    ]
    return pd.DataFrame([a | b for a, b in zip(named, took, strict=True)])


def markdown(found: pd.DataFrame, profile: str) -> str:
    """Return a table with a line for each method and one for all of them together."""
    lines = []
    for method, part in found.groupby("method", sort=False):
        one = part.iloc[0]
        sizes = [f"{one['memory_gb']:.1f}", f"{one['disk_gb']:.1f}"]
        lines.append([method, str(len(part)), str(one["hours"]), *sizes])
    whole = Range(*(sum(getattr(one, end) for one in found["hours"]) for end in ("low", "high")))
    memory, disk = f"{found['memory_gb'].max():.1f}", f"{found['disk_gb'].sum():.0f}"
    lines.append(["all", str(found["seed"].size), str(whole), memory, disk])
    return f"predicted for {profile}\n\n" + to_markdown(HEAD, lines, "lrrrr")
