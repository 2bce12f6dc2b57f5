"""The figure of the covariance statistics, Fig. 3 and Table 1: `rlvr figures paper=cov_grpo`. A
line is the mean over seeds; the band around it goes from the lowest to the highest seed."""

from pathlib import Path

import pandas as pd

from common.config.files import ROOT
from common.plotting import COLORS, band, panels, save
from common.results.files import read_csv


def over_seeds(rows: pd.DataFrame, by: list[str], value: str) -> pd.DataFrame:
    """Return `by` with the column's mean over seeds (value), the smallest (low) and the largest
    (high) one, and the number of seeds that have one (n_seeds)."""
    named = {"value": "mean", "low": "min", "high": "max", "n_seeds": "count"}
    return rows.groupby(by, sort=False)[value].agg(**named).reset_index()


def by_tokens(axis, rows: pd.DataFrame, column: str, styles: dict[str, str], more="", **marks):
    """Draw a line for each kind of tokens and each value of the column."""
    for value, style in styles.items():
        for tokens, color in (("all", COLORS[0]), ("active", COLORS[1])):
            curve = rows[(rows[column] == value) & (rows["tokens"] == tokens)]
            marks |= {"ls": style, "label": f"{tokens} tokens, {value}{more}"}
            band(axis, 100 * curve["share"], curve, color, "value", **marks)


def draw(root: Path) -> None:
    """Draw Fig. 3, the part of sum |c| in the tokens of largest |c|, and Table 1, |c| at
    percentiles next to the printed values, into <root>/cov_grpo/figures/, if the tables are there.

    Raises UserError for tables that do not start with the seed, as older versions wrote them.
    """
    source = root / "cov_grpo" / "covariance"
    if not (source / "cumulative.csv").exists():
        return
    held, at = (
        read_csv(source / f"{name}.csv", ["seed"]) for name in ("cumulative", "percentiles")
    )
    held = held.assign(percent=100 * held["contribution"])
    held = over_seeds(held, ["mean", "tokens", "share"], "percent")
    at = at.assign(size=at["value"].abs())
    at = over_seeds(at, ["mean", "tokens", "reading", "side", "share"], "size")
    figure, axes = panels(3, width=3.3, height=2.9)
    styles = {"token": "-", "sequence": "--"}
    by_tokens(axes[0, 0], held, "mean", styles, " mean", marker="o", markersize=3)
    axes[0, 0].set(xscale="log", xlabel="tokens of largest |c| (%)", ylabel="of sum |c| (%)")
    axes[0, 0].set_title("Fig. 3: cumulative contribution", fontsize=9)
    axes[0, 0].legend(fontsize=7)
    printed = pd.read_csv(ROOT / "papers" / "cov_grpo" / "published" / "table1.csv")
    printed["share"] = printed["benchmark"].str.extract(r"([\d.]+)%")[0].astype(float) / 100
    printed = printed.assign(side=printed["metric"].str.removesuffix("_covariance"))
    printed["value"] = printed["value"].abs()
    for axis, side in zip(axes[0, 1:], ("positive", "negative"), strict=True):
        line = printed[printed["side"] == side]
        axis.plot(100 * line["share"], line["value"], "k*", label="printed (1.5B)")
        own = at[(at["side"] == side) & (at["mean"] == "token")]
        by_tokens(axis, own, "reading", {"threshold": "-", "mean": "--"})
        axis.set(xscale="log", yscale="log", xlabel=f"of {side} tokens (%)", ylabel="|c|")
        axis.set_title(f"Table 1: {side} covariance", fontsize=9)
    axes[0, 1].legend(fontsize=7)
    n = held["n_seeds"].max()
    seeds = f"mean of {n} seeds, bands from the lowest to the highest" if n > 1 else "one seed"
    figure.suptitle(seeds, fontsize=8)
    shown = printed[["side", "share", "value"]].assign(reading="printed")
    named = [("cumulative, percent", held), ("|c|", at), ("|c|", shown)]
    path = root / "cov_grpo" / "figures" / "covariance"
    save(figure, path, pd.concat([rows.assign(drawn=name) for name, rows in named]))
