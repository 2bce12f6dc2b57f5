"""Figures of the covariance statistics: Fig. 3, Table 1, the weights, the entropy drift."""

from pathlib import Path

import pandas as pd

from common.config.compose import ROOT
from common.plotting import COLORS, panels, save
from papers.cov_grpo.covariance.formulas import agreement

LINES = {"token": "-", "sequence": "--"}


def draw(source: Path, folder: Path) -> None:
    """Every figure of the tables in `source`."""
    spread(source, folder / "covariance")
    weights(source, folder / "weights")
    drift(source, folder / "entropy_drift")


def spread(source: Path, path: Path) -> None:
    """Fig. 3 and Table 1: how much the tokens of largest |c| hold, and |c| at percentiles beside
    the printed ones."""
    held, at = (pd.read_csv(source / f"{name}.csv") for name in ("cumulative", "percentiles"))
    figure, axes = panels(3, width=3.3, height=2.9)
    for mean, style in LINES.items():
        for tokens, color in (("all", COLORS[0]), ("active", COLORS[1])):
            curve = held[(held["mean"] == mean) & (held["tokens"] == tokens)]
            axes[0, 0].plot(
                100 * curve["share"], 100 * curve["contribution"], style, color=color, marker="o",
                markersize=3, label=f"{tokens} tokens, {mean} mean",
            )  # fmt: skip
    axes[0, 0].set(xscale="log", xlabel="tokens of largest |c| (%)", ylabel="of sum |c| (%)")
    axes[0, 0].set_title("Fig. 3: cumulative contribution", fontsize=9)
    axes[0, 0].legend(fontsize=7)
    printed = pd.read_csv(ROOT / "papers" / "cov_grpo" / "published" / "table1.csv")
    printed["share"] = printed["benchmark"].str.extract(r"([\d.]+)%")[0].astype(float) / 100
    printed = printed.assign(side=printed["metric"].str.removesuffix("_covariance"))
    for axis, side in zip(axes[0, 1:], ("positive", "negative"), strict=True):
        line = printed[printed["side"] == side]
        axis.plot(100 * line["share"], line["value"].abs(), "k*", label="printed (1.5B)")
        for reading, style in (("threshold", "-"), ("mean", "--")):
            for tokens, color in (("all", COLORS[0]), ("active", COLORS[1])):
                line = at[(at["side"] == side) & (at["tokens"] == tokens) & (at["mean"] == "token")]
                line = line[line["reading"] == reading]
                axis.plot(
                    100 * line["share"], line["value"].abs(), style, color=color,
                    label=f"{tokens} tokens, {reading}",
                )  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel=f"of {side} tokens (%)", ylabel="|c|")
        axis.set_title(f"Table 1: {side} covariance", fontsize=9)
    axes[0, 1].legend(fontsize=7)
    at = at.rename(columns={"value": "covariance"})
    shown = printed.rename(columns={"value": "covariance"})[["side", "share", "covariance"]]
    save(figure, path, pd.concat([held, at, shown.assign(reading="printed")]))


def weights(source: Path, path: Path) -> None:
    """The Gaussian weights of tokens with a gradient, by reading, and their mean along training."""
    bins, steps = (pd.read_csv(source / f"{name}.csv") for name in ("histogram", "weights"))
    figure, axes = panels(2, width=4.0, height=2.9)
    for color, reading in zip(COLORS, bins["reading"].unique(), strict=False):
        bars, along = bins[bins["reading"] == reading], steps[steps["reading"] == reading]
        axes[0, 0].stairs(
            bars["percent"], [*bars["low"], bars["high"].iloc[-1]], color=color, label=reading
        )
        axes[0, 1].plot(along["step"], along["mean_active"], color=color, label=reading)
    padded = steps[steps["reading"] == steps["reading"].iloc[0]]
    axes[0, 1].plot(
        padded["step"], padded["padded"], color=COLORS[7], ls="--",
        label="padded size / tokens (the repository's factor)",
    )  # fmt: skip
    axes[0, 1].axhline(1, color="k", lw=0.8)
    axes[0, 0].set(xlabel="normalised weight", ylabel="% of tokens with a gradient")
    axes[0, 1].set(xlabel="step", title="mean weight of tokens with a gradient", ylim=(0, None))
    for axis in axes[0]:
        axis.legend(fontsize=7)
    save(figure, path, pd.concat([bins, steps]))


def drift(source: Path, path: Path) -> None:
    """-eta Cov against the measured change of entropy, a point a step: a plain gradient step, and
    the AdamW step that training takes."""
    steps = pd.read_csv(source / "steps.csv")
    figure, axes = panels(2, width=3.6, height=3.0)
    titles = {"plain": "plain gradient step", "adamw": "AdamW step"}
    for axis, (kind, title) in zip(axes[0], titles.items(), strict=True):
        measured = steps[f"measured_{kind}"]
        fit = agreement(steps["predicted"], measured)
        axis.plot(steps["predicted"], measured, "o", markersize=3)
        axis.axhline(0, color="k", lw=0.6)
        axis.axvline(0, color="k", lw=0.6)
        correlation = "undefined" if fit["correlation"] is None else f"{fit['correlation']:.2f}"
        axis.set_title(
            f"{title}\ncorrelation {correlation}, same sign {fit['same_sign']:.0f} %", fontsize=9
        )
        axis.set(xlabel=r"$-\eta\,\mathrm{Cov}$, $\eta$ of the plain step (nats)")
        axis.set(ylabel="measured (nats)")
        axis.ticklabel_format(scilimits=(-2, 2))
    save(figure, path, steps)
