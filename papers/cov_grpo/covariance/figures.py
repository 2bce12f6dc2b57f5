"""Figures of the covariance statistics: Fig. 3, Table 1, the weights, the entropy drift. A line is
the mean over seeds; the band around it goes from the lowest to the highest seed."""

from pathlib import Path

import pandas as pd

from common.config.files import ROOT
from common.plotting import COLORS, band, panels, save
from common.results.files import read_csv
from papers.cov_grpo.covariance.formulas import agreement

LINES = {"token": "-", "sequence": "--"}


def draw(source: Path, folder: Path) -> None:
    """Draw every figure from the tables in `source`.

    Raises UserError for tables that do not start with the seed, as older versions wrote them.
    """
    spread(source, folder / "covariance")
    weights(source, folder / "weights")
    drift(source, folder / "entropy_drift")


def table(source: Path, name: str) -> pd.DataFrame:
    return read_csv(source / f"{name}.csv", ["seed"])


def over_seeds(rows: pd.DataFrame, by: list[str], value: str) -> pd.DataFrame:
    """Group the rows by the columns `by` and summarise the column `value` over seeds.

    Return `by` with the mean (value), the smallest (low), the largest (high), and the number of
    seeds that have a value (n_seeds).
    """
    named = {"value": "mean", "low": "min", "high": "max", "n_seeds": "count"}
    return rows.groupby(by, sort=False)[value].agg(**named).reset_index()


def seeds_text(rows: pd.DataFrame) -> str:
    n = rows["n_seeds"].max()
    return f"mean of {n} seeds, bands from the lowest to the highest" if n > 1 else "one seed"


def spread(source: Path, path: Path) -> None:
    """Draw Fig. 3, the part of sum |c| in the tokens of largest |c|, and Table 1, |c| at
    percentiles beside the printed values."""
    held, at = table(source, "cumulative"), table(source, "percentiles")
    held = held.assign(percent=100 * held["contribution"])
    held = over_seeds(held, ["mean", "tokens", "share"], "percent")
    at = at.assign(size=at["value"].abs())
    at = over_seeds(at, ["mean", "tokens", "reading", "side", "share"], "size")
    figure, axes = panels(3, width=3.3, height=2.9)
    for mean, style in LINES.items():
        for tokens, color in (("all", COLORS[0]), ("active", COLORS[1])):
            curve = held[(held["mean"] == mean) & (held["tokens"] == tokens)]
            band(axes[0, 0], 100 * curve["share"], curve, color, "value", ls=style, marker="o",
                 markersize=3, label=f"{tokens} tokens, {mean} mean")  # fmt: skip
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
        for reading, style in (("threshold", "-"), ("mean", "--")):
            for tokens, color in (("all", COLORS[0]), ("active", COLORS[1])):
                line = at[(at["side"] == side) & (at["tokens"] == tokens) & (at["mean"] == "token")]
                line = line[line["reading"] == reading]
                band(axis, 100 * line["share"], line, color, "value", ls=style,
                     label=f"{tokens} tokens, {reading}")  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel=f"of {side} tokens (%)", ylabel="|c|")
        axis.set_title(f"Table 1: {side} covariance", fontsize=9)
    axes[0, 1].legend(fontsize=7)
    figure.suptitle(seeds_text(held), fontsize=8)
    shown = printed[["side", "share", "value"]].assign(reading="printed")
    named = [("cumulative, percent", held), ("|c|", at), ("|c|", shown)]
    save(figure, path, pd.concat([rows.assign(drawn=name) for name, rows in named]))


def weights(source: Path, path: Path) -> None:
    """Draw a histogram of the Gaussian weights of tokens with a gradient, for each reading, and
    their mean along training."""
    bins, steps = table(source, "histogram"), table(source, "weights")
    bins = bins.rename(columns={"low": "left", "high": "right"})
    bins = bins.set_index(["reading", "left", "right", "seed"])["percent"]
    # a bin beyond the largest weight of a seed holds none of its tokens
    bins = bins.unstack(fill_value=0).stack().rename("percent")
    bars = over_seeds(bins.reset_index(), ["reading", "left", "right"], "percent")
    along = over_seeds(steps, ["reading", "step"], "mean_active")
    factor = over_seeds(steps[steps["reading"] == steps["reading"].iloc[0]], ["step"], "padded")
    figure, axes = panels(2, width=4.0, height=2.9)
    for color, reading in zip(COLORS, steps["reading"].unique(), strict=False):
        bar, line = bars[bars["reading"] == reading], along[along["reading"] == reading]
        edges = [*bar["left"], bar["right"].iloc[-1]]
        axes[0, 0].stairs(bar["value"], edges, color=color, label=reading)
        axes[0, 0].stairs(
            bar["high"], edges, baseline=bar["low"], fill=True, color=color, alpha=0.2, lw=0
        )
        band(axes[0, 1], line["step"], line, color, "value", label=reading)
    label = "padded size / tokens (the repository's factor)"
    band(axes[0, 1], factor["step"], factor, COLORS[7], "value", ls="--", label=label)
    axes[0, 1].axhline(1, color="k", lw=0.8)
    axes[0, 0].set(xlabel="normalised weight", ylabel="% of tokens with a gradient")
    axes[0, 1].set(xlabel="step", ylim=(0, None))
    axes[0, 1].set_title("mean weight of tokens with a gradient", fontsize=9)
    for axis in axes[0]:
        axis.legend(fontsize=7)
    figure.suptitle(seeds_text(along), fontsize=8)
    named = [("percent", bars), ("mean_active", along), ("padded", factor)]
    save(figure, path, pd.concat([rows.assign(drawn=name) for name, rows in named]))


def drift(source: Path, path: Path) -> None:
    """Draw the measured change of entropy against -eta Cov, one point for each step and seed.

    The panels are for a plain gradient step and for the AdamW step that training takes.
    """
    steps = table(source, "steps")
    figure, axes = panels(2, width=3.6, height=3.0)
    titles = {"plain": "plain gradient step", "adamw": "AdamW step"}
    for axis, (kind, title) in zip(axes[0], titles.items(), strict=True):
        fits = []
        for _, seed in steps.groupby("seed"):
            measured = seed[f"measured_{kind}"]
            fits.append(agreement(seed["predicted"], measured))
            axis.plot(seed["predicted"], measured, "o", markersize=2, alpha=0.5, color=COLORS[0])
        axis.axhline(0, color="k", lw=0.6)
        axis.axvline(0, color="k", lw=0.6)
        fit = pd.DataFrame(fits).astype(float)
        said = [
            f"correlation {ranged(fit['correlation'], '.2f')}",
            f"same sign {ranged(fit['same_sign'], '.0f')} %",
        ]
        axis.set_title("\n".join([title, *said]), fontsize=8)
        axis.set(xlabel=r"$-\eta\,\mathrm{Cov}$, $\eta$ of the plain step (nats)")
        axis.set(ylabel="measured (nats)")
        axis.ticklabel_format(scilimits=(-2, 2))
    n = steps["seed"].nunique()
    figure.suptitle(f"{n} seeds: mean (lowest to highest)" if n > 1 else "one seed", fontsize=8)
    save(figure, path, steps)


def ranged(values: pd.Series, digits: str) -> str:
    """Return the mean over seeds with the lowest and the highest: "0.45 (0.30 to 0.61)"."""
    if values.isna().all():
        return "undefined"
    mean, low, high = (format(x, digits) for x in (values.mean(), values.min(), values.max()))
    return mean if low == high else f"{mean} ({low} to {high})"
