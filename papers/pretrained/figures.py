"""The tables and the figure of each scale: `rlvr figures paper=pretrained [results_dir=...]`.

<results_dir>/pretrained/laptop/          metrics, counts and shares of the finished runs
<results_dir>/pretrained/<scale>/         crossing.{csv,png,pdf}, against_grpo.csv, gain.csv
"""

from pathlib import Path

import pandas as pd

from common.comparison.gather import LAPTOP, gather, gathered
from common.palette import look
from common.plotting import COLORS, panels, save
from common.results.files import read_csv, write_csv
from common.sweeps.plan import BASE
from papers.pretrained.tables import against_grpo, crossing, of_runs, split

PAPER = "pretrained"


def draw(root: Path) -> None:
    """Make everything that the results below `root` allow."""
    home = root / PAPER
    found = gather(root, PAPER)
    found.write(root, PAPER)
    for one in found.scopes.values():  # there is one
        write_csv(home / LAPTOP / "shares.csv", of_runs(home, one.rows))
    counts = gathered(root, PAPER, LAPTOP)[0].counts
    counts = counts[
        counts["step"] == counts.groupby(["table", "method", "seed"])["step"].transform("max")
    ]
    for table, here in counts.groupby("table"):
        ks = [k for k in (2**i for i in range(12)) if k <= here["n"].min()]
        compared = crossing(here, ks)
        if compared.empty:
            continue
        shares = read_csv(home / LAPTOP / "shares.csv", [])
        folder = home / table
        figure(compared, folder / "crossing")  # also writes crossing.csv
        write_csv(folder / "against_grpo.csv", against_grpo(here, ks))
        write_csv(folder / "gain.csv", split(shares[shares["table"] == table]))


def figure(table: pd.DataFrame, path: Path) -> None:
    """Draw a row for each benchmark: left pass@k, with the base model dashed; right the difference
    from the base model, with its interval."""
    benchmarks = list(table["benchmark"].unique())
    drawn, axes = panels(2, rows=len(benchmarks), width=4.0, height=3.0)
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
    over = "problems and seeds" if seeds[0] > 1 else "problems, with one seed"
    drawn.suptitle(f"{model}; bars: 95 % over {over}", fontsize=9)
    handles = axes[0, 0].get_legend_handles_labels()
    drawn.legend(*handles, loc="outside lower center", ncols=4)
    save(drawn, path, table)
