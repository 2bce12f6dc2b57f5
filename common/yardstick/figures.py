"""The yardstick's figures: diversity against accuracy along training, with a curve for each method;
and what each method gains over a smaller learning rate."""

import textwrap
from pathlib import Path

import numpy as np
import pandas as pd

from common.palette import look
from common.plotting import COLORS, panels, save
from common.yardstick.protocol import AGAINST_LOWER, EQUALISED, LOWER, PLAIN, REFERENCE, Protocol
from common.yardstick.ranking import ACCURACY, first_reach, interpolated
from common.yardstick.table import spread

TITLES = {
    PLAIN: "same learning rate",
    EQUALISED: "equalised effective learning rate",
    LOWER: "a third of the learning rate",
}
GREY = "#b8b8b8"
SHOWN = 6  # methods in color beside GRPO


def frontier(protocol: Protocol, means: pd.DataFrame, path: Path) -> None:
    """Draw the protocol's diversity against natural pass@1: means over seeds, a point for each
    evaluation.

    means: the result of `ranking.means`. GRPO is black. The methods of the `front` are in color,
    with their names and standard errors over seeds. All others are grey.
    """
    points, level = _points(means, protocol.drawn), protocol.levels[0]
    if protocol.bases > 1:
        level += points.loc[points["step"] == 0, "accuracy"].mean()
    titles = {rate: title for rate, title in TITLES.items() if rate in protocol.rates}
    fronts = {rate: front(points[points["rate"] == rate]) for rate in titles}
    figure, axes = panels(2, width=4.6, height=4.3, sharex=True, sharey=True)
    for axis, (rate, title) in zip(axes[0], titles.items(), strict=True):
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
        axis.axvline(level, color=COLORS[6], lw=0.8, ls=":", zorder=0)  # where methods are ranked
        axis.set(title=title, xlabel="natural pass@1 (%)")
        if len(shown):
            start = shown[shown["step"] == 0].iloc[0]
            at = start["accuracy"], start["diversity"]
            axis.plot(*at, color=COLORS[6], marker="D", ms=5, zorder=5)
            axis.annotate("base model", at, xytext=(6, 4), textcoords="offset points")
            _names(axis, ends)
        axis.text(level, 0.01, " ranked here", transform=axis.get_xaxis_transform(), size=7.5)
    axes[0, 0].set_ylabel(f"{' '.join(protocol.drawn)} (%)")
    seeds = spread(points.loc[points["step"] > 0, "n_seeds"])
    figure.suptitle(
        f"Up and right is better. {protocol.model[0].upper()}{protocol.model[1:]}, one task "
        f"({protocol.task}), seeds: {seeds}.\nBlack: GRPO; color: highest at some pass@1; grey: "
        f"the other methods, {points['method'].nunique()} in all",
        fontsize=9,
    )
    save(figure, path, points)


def gain(protocol: Protocol, ranking: pd.DataFrame, path: Path) -> None:
    """Draw which methods beat a smaller learning rate: the ranking's measure minus GRPO's at the
    lower rate, at the first level, with 95 % intervals. Filled markers are methods at the plain
    rate, hollow ones their twins at the lower rate. The title names the methods of which some seed
    does not reach the level."""
    benchmark, metric = next(iter(protocol.measures))
    of = (ranking["benchmark"] == benchmark) & (ranking["metric"] == metric)
    shown = ranking[of & (ranking["level"] == protocol.levels[0])]
    columns = ["difference", "difference_low", "difference_high", "p_holm"]
    rates = {AGAINST_LOWER: "at the plain rate", LOWER: "its twin at a third of it"}
    table = {name: shown[shown["rate"] == name].set_index("method")[columns] for name in rates}
    plain = table[AGAINST_LOWER]["difference"].astype(float).dropna()
    order = plain.sort_values().index.tolist()
    missing = sorted(set(table[AGAINST_LOWER].index) - set(order))
    figure, axes = panels(1, width=6.4, height=0.9 + 0.22 * max(len(order), 4))
    axis, rows = axes[0, 0], []
    for name, size in ((AGAINST_LOWER, 5.5), (LOWER, 4.5)):
        for place, method in enumerate(order):
            if method not in table[name].index or pd.isna(table[name].loc[method, "difference"]):
                continue
            middle, low, high, p = table[name].loc[method].astype(float)
            y = place + (0.14 if name == AGAINST_LOWER else -0.14)
            color = look(method).color
            face = color if name == AGAINST_LOWER else "white"
            axis.plot([low, high], [y, y], color=color, lw=1.2 if name == AGAINST_LOWER else 0.7)
            axis.plot(middle, y, look(method).marker, color=color, mfc=face, ms=size)
            row = {"method": method, "rate": name, "difference": middle}
            rows.append(row | {"low": low, "high": high, "p_holm": p})
    axis.axvline(0, color=COLORS[6], lw=0.8)
    names = [f"{m} *" if table[AGAINST_LOWER].loc[m, "p_holm"] < 0.05 else m for m in order]
    axis.set_yticks(range(len(order)), names)
    axis.set_ylim(-0.7, len(order) - 0.3)
    axis.set_xlabel(
        f"{benchmark} {metric} at a natural pass@1 {protocol.named(protocol.levels[0])}, minus\n"
        "GRPO's at a third of the learning rate (points)"
    )
    under = f"not all seeds reach it: {', '.join(missing)}" if missing else ""
    figure.suptitle(
        f"Right of 0: better than a smaller step ({protocol.task}), seeds: "
        f"{spread(shown['n_seeds'])}.\nFilled: at the plain rate; hollow: its twin at a third of "
        f"it; *: p < 0.05 after Holm's correction\n{_wrapped(under)}",
        fontsize=9,
    )
    save(figure, path, pd.DataFrame(rows))


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 110))


def _points(means: pd.DataFrame, diversity: tuple[str, str]) -> pd.DataFrame:
    """Return rate, method, step, accuracy, diversity, their standard errors over seeds, n_seeds."""
    key, wide = ["rate", "method", "step"], {}
    for name, (benchmark, metric) in {"accuracy": ACCURACY, "diversity": diversity}.items():
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
    """Return the methods whose mean curve is highest at some accuracy above the base model's,
    ordered by how many of 50 accuracies that holds for; at most `shown`, without GRPO."""
    if points.empty:
        return []
    base = points.loc[points["step"] == 0, "accuracy"].iloc[0]
    best = {}
    for level in np.linspace(base, points["accuracy"].max(), 51)[1:]:
        reached = {}
        for method, curve in points.groupby("method"):
            place = first_reach(curve["accuracy"].to_numpy(), level)
            if place is not None:
                reached[method] = interpolated(curve["diversity"].to_numpy(), place)
        if reached:
            winner = max(reached, key=reached.get)
            best[winner] = best.get(winner, 0) + 1
    best.pop(REFERENCE, None)
    return sorted(best, key=best.get, reverse=True)[:shown]


def _names(axis, ends: dict[str, tuple[float, float, str]]) -> None:
    """Write the curves' names in a column at the right, in the order of the curves' ends. A line
    joins each name to the end of its curve."""
    axis.figure.draw_without_rendering()
    (low, high), (left, right) = axis.get_ylim(), axis.get_xlim()
    axis.set(xlim=(left, right), ylim=(low, high))  # keep them, whatever the lines add
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
