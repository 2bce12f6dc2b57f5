"""The paper's figures from cluster rows: those that compare.yaml states as curves along training or
as printed cells (`Spec.figures`), and those that a paper's own code draws (`Spec.own_figures`).

A figure of printed cells shows what the comparison says about them: the rerun with the interval in
which a printed number is within noise, and the printed number next to it. The function of a figure
returns it as `Drawn`, and raises `LeftOut` where its rows are not all there.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from common.comparison.cells import CELL, as_printed
from common.comparison.gather import Gathered
from common.comparison.published import naming_runs
from common.comparison.spec import Curve, Plot, Spec, Where, matches
from common.comparison.training import logs
from common.config.resolve import import_target
from common.palette import look
from common.plotting import legend, panels, save

PREFIX = "cluster_"  # starts the names of all these figures
Drawn = tuple[Any, pd.DataFrame, str]  # figure, exactly what it shows, caption
KEPT = [
    *("table", "model", "method", "benchmark", "metric", "k", "printed", "rerun", "low", "high"),
    *("n_seeds", "n_problems", "n_samples", "step", "run_ids"),
]
ALONG = ["model", "method", "seed", "curve", "step", "value"]
PRINTED = dict(ls="", marker="D", markerfacecolor="none", markersize=6, markeredgewidth=0.9)


class LeftOut(Exception):
    """Why a figure is not drawn."""


@dataclass(frozen=True)
class Figure:
    """A figure: the name of its files in figures/ and its caption, or in `left_out` the reason why
    it was not drawn."""

    name: str
    caption: str = ""
    left_out: str = ""


def draw(spec: Spec, root: Path, cells: pd.DataFrame, cluster: Gathered) -> list[Figure]:
    """Draw the paper's figures of cluster rows into <root>/<paper>/figures/, and return them; []
    where there are no cluster rows.

    cells: those of the comparison (`cells.COLUMNS`). Files that an earlier comparison drew and this
    one cannot draw are removed.
    """
    if cluster.rows.empty:
        return []
    cells = located(cells, as_printed(spec, cluster.rows, naming_runs(spec.paper)))
    functions = {
        name: partial(of_cells if plot.cells else along, plot, spec.paper)
        for name, plot in spec.figures.items()
    }
    for name, target in spec.own_figures.items():
        functions[name] = import_target(target, f"{spec.paper}: own_figures.{name}")
    made = []
    for name, function in functions.items():
        path = root / spec.paper / "figures" / f"{PREFIX}{name}"
        try:
            figure, drawn, caption = function(root, cells, cluster)
        except LeftOut as reason:
            for suffix in (".png", ".pdf", ".csv"):
                path.with_suffix(suffix).unlink(missing_ok=True)
            made.append(Figure(path.name, left_out=str(reason)))
        else:
            save(figure, path, drawn)
            made.append(Figure(path.name, caption))
    return made


def markdown(made: list[Figure]) -> str:
    """Return the section on figures in comparison.md, which lies next to figures/."""
    if not made:
        return ""
    lines = ["\n## The paper's figures from cluster rows\n"]
    for one in made:
        picture = f"![{one.name}](figures/{one.name}.png)\n\n{one.caption}"
        said = f"{one.name} is not drawn: {one.left_out}" if one.left_out else picture
        lines.append(f"\n{said}\n")
    return "".join(lines)


# ---- printed cells


def of_cells(plot: Plot, paper: str, root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw printed cells next to their reruns: a panel with a metric has the plot's methods side by
    side, one without a metric has a curve of each method's pass@k by k."""
    wanted = []
    for panel in plot.cells:
        where = {"table": plot.tables, "model": plot.model, "benchmark": panel.benchmark}
        where |= {"metric": panel.metric} if panel.metric else {}
        wanted += [where | {"method": method} for method in plot.methods]
    found = chosen(cells, wanted)
    columns, side = min(5, len(plot.cells)), 2.3 if len(plot.cells) > 2 else 2.9
    figure, axes = panels(columns, -(-len(plot.cells) // columns), width=side, height=side)
    places = list(axes.flatten())
    for axis, panel in zip(places, plot.cells, strict=False):
        shown = found[found["benchmark"] == panel.benchmark]
        axis.set_title(f"{panel.benchmark} {panel.metric} (%)" if panel.metric else panel.benchmark)
        if panel.metric:
            _by_method(axis, plot, shown[shown["metric"] == panel.metric])
        else:
            _by_k(axis, plot, shown)
        low, high = axis.get_ylim()
        axis.set_ylim(max(low, -1), min(high, 101))  # percent
    by_k = not all(panel.metric for panel in plot.cells)
    handles = legend_handles(places[0], _hues(plot) if by_k else {})
    for axis in places[len(plot.cells) :]:
        axis.axis("off")
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure, found, f"{plot.caption} {about(found)}"


def _by_method(axis, plot: Plot, cells: pd.DataFrame) -> None:
    for x, (method, color) in enumerate(_hues(plot).items()):
        whiskers(axis, cells[cells["method"] == method], [x], color)
    places = range(len(plot.methods))
    axis.set_xticks(places, plot.methods, rotation=20, ha="right", fontsize=8)
    axis.set_xlim(-0.5, len(plot.methods) - 0.5)


def _by_k(axis, plot: Plot, cells: pd.DataFrame) -> None:
    for i, (method, color) in enumerate(_hues(plot).items()):
        own = cells[cells["method"] == method].sort_values("k")
        side = 1.1 ** (2 * i - len(plot.methods) + 1)  # the methods' points are next to each other
        whiskers(axis, own, own["k"] * side, color)
    axis.set_xscale("log", base=2)
    axis.set_xticks([1, 4, 16, 64, 256], ["1", "4", "16", "64", "256"])
    axis.set(xlabel="k", ylabel="pass@k (%)" if axis.get_subplotspec().is_first_col() else "")


def located(cells: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with the step and the samples per problem of the rows that fill them. If
    seeds have different steps, they are written as "100, 120"."""
    known = rows.dropna(subset=["step"])
    groups = known.groupby(CELL, dropna=False)
    about = groups.agg(
        step=("step", lambda x: ", ".join(f"{step:g}" for step in sorted(set(x)))),
        n_samples=("n_samples", "min"),
    )
    return cells.merge(about.reset_index(), on=CELL, how="left")


def chosen(cells: pd.DataFrame, wanted: list[Where]) -> pd.DataFrame:
    """Return the columns KEPT of the printed cells that match one of `wanted`, in its order. Raises
    LeftOut if there are none, or if one has no rerun."""
    found = pd.concat([cells[matches(cells, where)] for where in wanted], ignore_index=True)
    found = found.rename(columns={"value": "printed"})
    if found.empty:
        raise LeftOut("the paper prints no such cells")
    words = []
    for reason, part in found[found["rerun"].isna()].groupby("reason", sort=False):
        rows = []
        for (model, method), row in part.groupby(["model", "method"], sort=False):
            first, *rest = row["benchmark"].unique()
            more = f" and {len(rest)} more" if rest else ""
            rows.append(f"{method} of {model} on {first}{more}")
        words.append(f"{', '.join(rows)} ({reason})")
    if words:
        raise LeftOut("rows without a rerun: " + "; ".join(words))
    return found[KEPT]


def whiskers(axis, cells: pd.DataFrame, x, color: str) -> None:
    """Draw reruns (dots) with their intervals, and the printed numbers (open diamonds) at the same
    x."""
    spread = (cells["rerun"] - cells["low"], cells["high"] - cells["rerun"])
    axis.errorbar(x, cells["rerun"], spread, color=color, marker="o", markersize=2.5, lw=1.0,
                  elinewidth=0.7, capsize=1.5)  # fmt: skip
    axis.plot(x, cells["printed"], **PRINTED, color=color)


def legend_handles(axis, colors: dict[str, str]) -> list:
    """Return legend handles: a line for each method, then the two kinds of markers."""
    lines = [axis.plot([], [], color=color, label=method)[0] for method, color in colors.items()]
    (dot,) = axis.plot([], [], "o", color="k", markersize=2.5, label="rerun, 95 %")
    (mark,) = axis.plot([], [], **PRINTED, color="k", label="printed")
    return [*lines, dot, mark]


def about(cells: pd.DataFrame) -> str:
    """Return the part of a caption that says what the cells rest on: seeds, problems, samples,
    steps."""
    problems = cells.drop_duplicates("benchmark").set_index("benchmark")["n_problems"]
    sets = ", ".join(f"{name} {number:g}" for name, number in problems.items())
    samples = " or ".join(f"{n:g}" for n in sorted(cells["n_samples"].dropna().unique()))
    by_method = {
        method: " or ".join(dict.fromkeys(part["step"]))
        for method, part in cells.groupby("method", sort=False)
    }
    steps = "; ".join(f"{method} {step}" for method, step in by_method.items())
    if len(set(by_method.values())) == 1:
        steps = f"{next(iter(by_method.values()))} of every row"
    seeds = sorted({int(n) for n in cells["n_seeds"]})
    number = "One seed" if seeds == [1] else f"{' or '.join(map(str, seeds))} seeds"
    spread = "problems" if seeds == [1] else "seeds"
    return (
        f"{number}; problems: {sets}; {samples} samples a problem; training step: {steps}. Dots: "
        f"rerun, bars: its 95 % interval over {spread}, in which a printed number is within noise; "
        "open diamonds: printed."
    )


# ---- curves along training


def along(plot: Plot, paper: str, root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw curves of the plot's methods along training: thin lines are seeds, thick lines their
    mean. The figure is left out where a method lacks a curve."""
    where: Where = {"model": plot.model} | ({"table": plot.tables} if plot.tables else {})
    rows = cluster.rows[matches(cluster.rows, where)]
    mine = rows[rows["method"].isin(plot.methods)]
    runs = mine[["method", "seed"]].drop_duplicates()
    first = rows[rows["method"] == plot.start].drop(columns=["method", "seed"])
    started = pd.concat([first.merge(runs, how="cross"), mine], ignore_index=True)
    parts = [
        _logged(root, paper, mine, curve) if curve.column else _evaluated(started, curve)
        for curve in plot.curves
    ]
    drawn = pd.concat(parts, ignore_index=True).assign(model=plot.model)
    there = set(zip(drawn["curve"], drawn["method"], strict=True))
    need(
        plot.model,
        "a curve",
        [m for m in plot.methods if not all((c.title, m) in there for c in plot.curves)],
    )
    hues, columns = _hues(plot), min(4, len(plot.curves))  # a panel has room for one long name
    figure, axes = panels(
        len(plot.curves), width=2.9, height=2.3 + 0.2 * -(-len(plot.methods) // columns)
    )
    for axis, curve in zip(axes[0], plot.curves, strict=True):
        for method, color in hues.items():
            of = drawn[(drawn["curve"] == curve.title) & (drawn["method"] == method)]
            for _, seed in of.groupby("seed"):
                axis.plot(seed["step"], seed["value"], color=color, lw=0.5, alpha=0.4)
            mean = of.groupby("step")["value"].mean()
            axis.plot(mean.index, mean, color=color, label=method)
        axis.set(title=curve.title, xlabel="step")
    legend(figure, axes[0, 0], columns)
    seeds = drawn.groupby("method")["seed"].nunique()
    number = "One seed a method" if (seeds == 1).all() else "Thin lines: seeds, thick: their mean"
    return figure, drawn[ALONG], f"{plot.caption} {number}."


def need(model: str, what: str, lacking: list[str]) -> None:
    """Raise LeftOut if methods of the model lack what a figure shows."""
    if lacking:
        raise LeftOut(f"rows without {what}: {', '.join(lacking)} of {model}")


def _hues(plot: Plot) -> dict[str, str]:
    return {method: plot.colors.get(method, look(method).color) for method in plot.methods}


def _logged(root: Path, paper: str, rows: pd.DataFrame, curve: Curve) -> pd.DataFrame:
    parts = [pd.DataFrame(columns=ALONG)]
    for run, log in logs(root, paper, rows):
        if curve.column in log:
            values = log[["step", curve.column]].rename(columns={curve.column: "value"}).dropna()
            if curve.ema < 1:
                values["value"] = values["value"].ewm(alpha=curve.ema, adjust=False).mean()
            parts.append(values.assign(curve=curve.title, method=run["method"], seed=run["seed"]))
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def _evaluated(rows: pd.DataFrame, curve: Curve) -> pd.DataFrame:
    """Return the evaluations of the runs that were evaluated at two or more steps: one point is no
    curve."""
    shown = rows[(rows["benchmark"].fillna("") == curve.benchmark) & rows["step"].notna()]
    fits = [fnmatchcase(metric, curve.metric) for metric in shown["metric"]]
    shown = shown[pd.Series(fits, shown.index, dtype=bool)]
    steps = shown.groupby(["method", "seed"])["step"].transform("nunique")
    shown = shown.loc[steps > 1, ["method", "seed", "step", "value"]]
    return shown.sort_values("step").assign(curve=curve.title)
