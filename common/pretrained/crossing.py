"""pass@k of trained models against the base model they started from: whether, and from which k on,
the base model solves more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from common.metrics.paired import over_problems, two_way_interval
from common.metrics.passk import pass_at_k
from common.palette import look
from common.plotting import COLORS, panels, save
from common.sweeps.plan import BASE

COLUMNS = ["table", "model", "method", "benchmark", "k", "value", "base", "difference"]
COLUMNS += ["low", "high", "n_seeds", "n_problems"]


def crossing(counts: pd.DataFrame, ks: list[int]) -> pd.DataFrame:
    """Return COLUMNS, in percent: each method's pass@k after its last step, the base model's, and
    their difference with a 95 % interval.

    counts: the rows of one table at each run's last step (table, model, method, benchmark, seed,
    problem_id, n, c). The interval is over seeds and problems. Where a method has one seed, it is
    over problems alone and takes the run as fixed, so that it says nothing about another seed.
    """
    rows = []
    for benchmark, here in counts.groupby("benchmark", sort=False):
        start = here[here["method"] == BASE].sort_values("problem_id")
        if start.empty:
            continue
        base = 100 * pass_at_k(start["c"], start["n"], ks)
        for method, trained in here[here["method"] != BASE].groupby("method", sort=False):
            seeds = [one.sort_values("problem_id") for _, one in trained.groupby("seed")]
            seeds = [one for one in seeds if list(one["problem_id"]) == list(start["problem_id"])]
            if not seeds:
                continue
            values = np.stack([100 * pass_at_k(one["c"], one["n"], ks) for one in seeds])
            for at, k in enumerate(ks):
                difference = values[:, :, at] - base[:, at]
                interval = (two_way_interval if len(seeds) > 1 else over_problems)(difference)
                low, high = interval.bounds()
                first = seeds[0].iloc[0]
                row = [first["table"], first["model"], method, benchmark, k]
                row += [values[:, :, at].mean(), base[:, at].mean(), interval.value, low, high]
                rows.append([*row, len(seeds), base.shape[0]])
    return pd.DataFrame(rows, columns=COLUMNS)


def crosses_at(curve: pd.DataFrame) -> int | None:
    """Return the smallest k from which on the difference stays below 0; None where it is not below
    0 at the largest k."""
    curve = curve.sort_values("k")
    above = np.flatnonzero(curve["difference"].to_numpy() >= 0)
    if len(above) == 0:
        return int(curve["k"].iloc[0])
    return None if above[-1] + 1 == len(curve) else int(curve["k"].iloc[above[-1] + 1])


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw a row for each benchmark: left pass@k, with the base model dashed; right the difference
    from the base model, with its interval."""
    benchmarks = list(table["benchmark"].unique())
    figure, axes = panels(2, rows=len(benchmarks), width=4.0, height=3.0)
    for (left, right), benchmark in zip(axes, benchmarks, strict=True):
        shown = table[table["benchmark"] == benchmark]
        start = shown[["k", "base"]].drop_duplicates()
        left.plot(start["k"], start["base"], "--", color=COLORS[6], label=BASE)
        methods = [*shown.groupby("method", sort=False)]
        for i, (method, curve) in enumerate(methods):
            color, value = look(method).color, curve["difference"]
            left.plot(curve["k"], curve["value"], color=color, label=method)
            beside = curve["k"] * 2 ** (0.09 * (i - (len(methods) - 1) / 2))  # no bar hides another
            bars = [value - curve["low"], curve["high"] - value]
            right.errorbar(beside, value, bars, color=color, marker="o", ms=3, elinewidth=1)
        right.axhline(0, color=COLORS[6], linestyle="--", linewidth=1)
        left.set(ylabel=f"{benchmark} pass@k (%)", ylim=(0, None))
        right.set(ylabel="minus base (points)")
        for axis in (left, right):
            axis.set_xscale("log", base=2)
            axis.set_xticks(start["k"], start["k"])
            axis.set(xlabel="k")
    model, seeds = table["model"].iloc[0], sorted(table["n_seeds"].unique())
    over = "problems and seeds" if seeds[0] > 1 else "problems alone: one seed"
    figure.suptitle(f"{model}; bars: 95 % over {over}", fontsize=9)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4)
    save(figure, path, table)


def markdown(table: pd.DataFrame, resources: pd.DataFrame) -> str:
    """Return the table of a scale and what its runs took, as markdown."""
    from common.results.tables import markdown as to_markdown

    scale, model = table["table"].iloc[0], table["model"].iloc[0]
    parts = [
        f"# {model}, SCALE={scale}\n\npass@k after the last step minus the base model's, in "
        "points, with a 95 % interval over problems and seeds (one seed: over problems alone, "
        "which says nothing about another seed). crosses: the k from which on the base model "
        "stays above.\n"
    ]
    for benchmark, shown in table.groupby("benchmark", sort=False):
        ks = sorted(shown["k"].unique())
        start = shown.drop_duplicates("k").set_index("k")["base"]
        lines = [[BASE, "", *(f"{start[k]:.1f}" for k in ks), ""]]
        for method, curve in shown.groupby("method", sort=False):
            at = curve.set_index("k")
            cells = [f"{at.difference[k]:+.1f} [{at.low[k]:+.1f}, {at.high[k]:+.1f}]" for k in ks]
            k = crosses_at(curve)
            lines.append(
                [method, str(at.n_seeds.iloc[0]), *cells, "no" if k is None else f"k = {k}"]
            )
        head = ["method", "seeds", *(f"pass@{k}" for k in ks), "crosses"]
        count = shown["n_problems"].iloc[0]
        parts.append(f"\n## {benchmark}, {count} problems\n\n")
        parts.append(to_markdown(head, lines, "lr" + "r" * (len(ks) + 1)))
    lines = [
        [row["method"], str(row["seed"]), _number(row["minutes"]), _number(row["gb"])]
        for row in resources.to_dict("records")
    ]
    parts.append("\n## What a run took\n\n")
    parts.append(to_markdown(["method", "seed", "minutes", "GB"], lines, "lrrr"))
    return "".join(parts)


def _number(value: float) -> str:
    return "unmeasured" if pd.isna(value) else f"{value:.1f}"
