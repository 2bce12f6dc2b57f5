"""pass@k of trained models minus that of the base model they started from, and minus GRPO's on the
same seeds and problems."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from common.metrics.bootstrap import holm
from common.metrics.paired import over_problems, two_way_interval
from common.metrics.passk import pass_at_k
from common.palette import look
from common.plotting import COLORS, panels, save
from common.sweeps.plan import BASE

GRPO = "GRPO"
OF_BASE = ["table", "model", "method", "benchmark", "k", "value", "base", "difference"]
OF_BASE += ["low", "high", "n_seeds", "n_problems"]
OF_GRPO = ["method", "benchmark", "k", "difference", "low", "high", "p", "detectable", "n_seeds"]


def crossing(counts: pd.DataFrame, ks: list[int]) -> pd.DataFrame:
    """Return OF_BASE, in percent: each method's pass@k after its last step, the base model's, and
    their difference with a 95 % interval.

    counts: the rows of one table at each run's last step (table, model, method, benchmark, seed,
    problem_id, n, c). The interval is over seeds and problems. Where a method has one seed, it is
    over problems alone and takes the run as fixed, so that it says nothing about another seed.
    """
    rows = []
    for benchmark, here in counts.groupby("benchmark", sort=False):
        values = _values(here, ks)
        start = values.pop((BASE, here.loc[here["method"] == BASE, "seed"].min()), None)
        if start is None:
            continue
        base = start.to_numpy()
        for method in [name for name in here["method"].unique() if name != BASE]:
            seeds = [
                x for (m, _), x in values.items() if m == method and x.index.equals(start.index)
            ]
            if not seeds:
                continue
            trained = np.stack(seeds)  # (S, P, K)
            first = here[here["method"] == method].iloc[0]
            for at, k in enumerate(ks):
                difference = trained[:, :, at] - base[:, at]
                interval = (two_way_interval if len(seeds) > 1 else over_problems)(difference)
                row = [first["table"], first["model"], method, benchmark, k]
                row += [trained[:, :, at].mean(), base[:, at].mean(), interval.value]
                rows.append([*row, *interval.bounds(), len(seeds), len(base)])
    return pd.DataFrame(rows, columns=OF_BASE)


def against_grpo(counts: pd.DataFrame, ks: list[int]) -> pd.DataFrame:
    """Return OF_GRPO, in points: the difference over the seeds that both methods have on the same
    problems, with a 95 % interval over seeds and problems that is not corrected. p is, over the
    methods of a k (Holm). detectable: the smallest difference that such runs show four times in
    five, without the correction. It is missing where all differences are alike, such as those of
    methods that both solve everything: they have no spread to judge by. A method with fewer than
    two such seeds has no row.

    counts: as in `crossing`.
    """
    rows = []
    for benchmark, here in counts.groupby("benchmark", sort=False):
        values = _values(here, ks)
        grpo = {seed: x for (method, seed), x in values.items() if method == GRPO}
        for method in [name for name in here["method"].unique() if name not in (BASE, GRPO)]:
            pairs = [(x, grpo.get(seed)) for (m, seed), x in values.items() if m == method]
            same = [x - y for x, y in pairs if y is not None and x.index.equals(y.index)]
            if len(same) < 2:
                continue
            difference = np.stack(same)  # (S, P, K)
            for at, k in enumerate(ks):
                interval = two_way_interval(difference[:, :, at])
                needed = interval.detectable() if interval.stderr > 0 else np.nan
                numbers = [interval.value, *interval.bounds(), interval.p(), needed]
                rows.append([method, benchmark, k, *numbers, len(same)])
    table = pd.DataFrame(rows, columns=OF_GRPO)
    return table.assign(p=table.groupby(["benchmark", "k"])["p"].transform(holm))


def _values(counts: pd.DataFrame, ks: list[int]) -> dict[tuple[str, int], pd.DataFrame]:
    """Return pass@k (percent) of every problem, (P, K), by method and seed."""
    return {
        key: pd.DataFrame(100 * pass_at_k(one["c"], one["n"], ks), index=one["problem_id"])
        for key, one in counts.sort_values("problem_id").groupby(["method", "seed"], sort=False)
    }


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
