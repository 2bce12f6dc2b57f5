"""The yardstick's figure: diversity against accuracy along training, a curve a method."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.palette import look
from common.plotting import COLORS, panels, save
from common.yardstick.ranking import ACCURACY, LEVELS, REFERENCE, between, first_reach
from common.yardstick.table import spread

DIVERSITY = ("rare", "pass@256")
TITLES = {"plain": "same learning rate", "equalised": "equalised effective learning rate"}
GREY = "#b8b8b8"
SHOWN = 6  # methods in color beside GRPO


def frontier(means: pd.DataFrame, path: Path) -> None:
    """rare pass@256 against natural pass@1, mean over seeds, a point an evaluation.

    means: `yardstick_ranking.means`. GRPO is black; in color are the methods of the front, with
    standard errors over seeds and their names; all others are grey.
    """
    points = _points(means)
    fronts = {rate: front(points[points["rate"] == rate]) for rate in TITLES}
    figure, axes = panels(2, width=4.6, height=4.3, sharex=True, sharey=True)
    for axis, (rate, title) in zip(axes[0], TITLES.items(), strict=True):
        shown = points[points["rate"] == rate]
        colors = {method: look(method).color for method in (*fronts[rate], REFERENCE)}
        for _, curve in shown[~shown["method"].isin(colors)].groupby("method"):
            axis.plot(curve["accuracy"], curve["diversity"], color=GREY, lw=0.7, zorder=1)
        ends = {}
        for method, color in colors.items():
            curve = shown[shown["method"] == method]
            if curve.empty:
                continue
            mark = look(method)
            style = {"color": color, "ls": mark.line, "marker": mark.marker}
            axis.plot(curve["accuracy"], curve["diversity"], ms=3.5, **style)
            axis.errorbar(
                curve["accuracy"],
                curve["diversity"],
                xerr=curve["accuracy_sem"],
                yerr=curve["diversity_sem"],
                fmt="none",
                ecolor=color,
                alpha=0.35,
                lw=0.9,
            )
            ends[method] = (*curve[["accuracy", "diversity"]].to_numpy()[-1], color)
        axis.axvline(LEVELS[0], color=COLORS[6], lw=0.8, ls=":", zorder=0)  # where they are ranked
        axis.set(title=title, xlabel="natural pass@1 (%)")
        if len(shown):
            start = shown[shown["step"] == 0].iloc[0]
            at = start["accuracy"], start["diversity"]
            axis.plot(*at, color=COLORS[6], marker="D", ms=5, zorder=5)
            axis.annotate("base model", at, xytext=(6, 4), textcoords="offset points")
            _names(axis, ends)
        axis.text(LEVELS[0], 0.01, " ranked here", transform=axis.get_xaxis_transform(), size=7.5)
    axes[0, 0].set_ylabel("rare pass@256 (%)")
    figure.suptitle(
        "Up and right is better. One model of 0.4 M parameters, one task (Subset-Countdown), "
        f"seeds: {spread(points.loc[points['step'] > 0, 'n_seeds'])}.\nBlack: GRPO; color: highest "
        f"at some pass@1; grey: the other methods, {points['method'].nunique()} in all",
        fontsize=9,
    )
    save(figure, path, points)


def _points(means: pd.DataFrame) -> pd.DataFrame:
    """rate, method, step, accuracy, diversity, and their standard errors over seeds."""
    key, wide = ["rate", "method", "step"], {}
    for name, (benchmark, metric) in {"accuracy": ACCURACY, "diversity": DIVERSITY}.items():
        measured = means[(means["benchmark"] == benchmark) & (means["metric"] == metric)].set_index(
            key
        )
        wide |= {
            name: measured["mean"],
            f"{name}_sem": measured["sem"],
            "n_seeds": measured["n_seeds"],
        }
    return pd.DataFrame(wide).reset_index().sort_values(key, ignore_index=True)


def front(points: pd.DataFrame, shown: int = SHOWN) -> list[str]:
    """The methods whose mean curve is highest at some accuracy above the base model's, those first
    that are so at the most of 50 accuracies; at most `shown`, GRPO apart."""
    if points.empty:
        return []
    base = points.loc[points["step"] == 0, "accuracy"].iloc[0]
    best = {}
    for level in np.linspace(base, points["accuracy"].max(), 51)[1:]:
        reached = {}
        for method, curve in points.groupby("method"):
            place = first_reach(curve["accuracy"].to_numpy(), level)
            if place is not None:
                reached[method] = between(curve["diversity"].to_numpy(), place)
        if reached:
            winner = max(reached, key=reached.get)
            best[winner] = best.get(winner, 0) + 1
    best.pop(REFERENCE, None)
    return sorted(best, key=best.get, reverse=True)[:shown]


def _names(axis, ends: dict[str, tuple[float, float, str]]) -> None:
    """Each curve's name in a column at the right, in the order of their ends, joined by a line."""
    axis.figure.draw_without_rendering()
    (low, high), (left, right) = axis.get_ylim(), axis.get_xlim()
    axis.set(xlim=(left, right), ylim=(low, high))  # as they are, whatever the lines add
    gap = 0.06 * (high - low)
    y = -np.inf
    places = {}
    for method, (_, at, _) in sorted(ends.items(), key=lambda end: end[1][1]):
        y = max(at, y + gap)
        places[method] = y
    over = max(0.0, y - high)
    for method, place in places.items():
        x, at, color = ends[method]
        line = {"color": color, "lw": 0.5, "alpha": 0.6, "clip_on": False}
        axis.plot([x, right], [at, place - over], **line)
        axis.text(right, place - over, f" {method}", color=color, va="center")
