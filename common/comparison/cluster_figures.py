"""Code shared by papers/<p>/cluster_figures.py, which draw the papers' own figures from cluster
rows.

A figure of printed cells shows what the comparison says about them: the rerun with the interval in
which a printed number is within noise, and the printed number next to it. A figure whose rows are
not all there is not drawn, and its `Figure` says what is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from common.comparison.cells import CELL, as_printed
from common.comparison.gather import Gathered
from common.comparison.published import published
from common.comparison.spec import Spec
from common.comparison.training import logs
from common.config.files import ROOT
from common.config.resolve import named
from common.plotting import legend, panels, save

PREFIX = "cluster_"  # starts the names of all these figures
KEPT = ["table", "model", "method", "benchmark", "metric", "k", "printed", "rerun", "low", "high"]
ALONG = ["model", "method", "seed", "curve", "step", "value"]
KEPT += ["n_seeds", "n_problems", "n_samples", "step", "run_ids"]
PRINTED = dict(ls="", marker="D", markerfacecolor="none", markersize=6, markeredgewidth=0.9)


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
    rows = cluster.rows
    if rows.empty or not spec.figures:
        return []
    printed = published(ROOT / "papers" / spec.paper / "published")
    draw_all = named({"_target_": spec.figures}, f"{spec.paper}: figures")
    made = draw_all(root, located(cells, as_printed(spec, rows, printed)), cluster)
    for one in made:
        for suffix in (".png", ".pdf", ".csv") if one.left_out else ():
            (root / spec.paper / "figures" / f"{one.name}{suffix}").unlink(missing_ok=True)
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


def chosen(cells: pd.DataFrame, wanted: list[dict]) -> tuple[pd.DataFrame, str]:
    """Return (the columns KEPT of the printed cells that match one of `wanted` in all its values,
    in the order of `wanted`; a phrase on the cells without a rerun, "" if all have one)."""
    parts = []
    for where in wanted:
        hit = pd.Series(True, cells.index)
        for column, value in where.items():
            hit &= cells[column] == value
        parts.append(cells[hit])
    found = pd.concat(parts, ignore_index=True).rename(columns={"value": "printed"})
    lacking = found[found["rerun"].isna()]
    return found[KEPT], missing(lacking)


def missing(lacking: pd.DataFrame) -> str:
    """Return the rows that a figure lacks, by reason, as "rows without a rerun: ..."; or ""."""
    words = []
    for reason, part in lacking.groupby("reason", sort=False):
        rows = []
        for (model, method), row in part.groupby(["model", "method"], sort=False):
            first, *rest = row["benchmark"].unique()
            more = f" and {len(rest)} more" if rest else ""
            rows.append(f"{method} of {model} on {first}{more}")
        words.append(f"{', '.join(rows)} ({reason})")
    return "rows without a rerun: " + "; ".join(words) if words else ""


def once(
    name: str, found: pd.DataFrame, left_out: str, picture: Callable[[pd.DataFrame], str]
) -> Figure:
    """Draw `found` with `picture`, which returns the caption, or return why it is left out."""
    if left_out or found.empty:
        return Figure(PREFIX + name, left_out=left_out or "the paper prints no such cells")
    return Figure(PREFIX + name, picture(found))


def whiskers(axis, cells: pd.DataFrame, x, color: str, **style) -> None:
    """Draw reruns (dots) with their intervals, and the printed numbers (open diamonds) at the same
    x."""
    spread = (cells["rerun"] - cells["low"], cells["high"] - cells["rerun"])
    axis.errorbar(x, cells["rerun"], spread, color=color, marker="o", markersize=2.5, lw=1.0,
                  elinewidth=0.7, capsize=1.5, **style)  # fmt: skip
    axis.plot(x, cells["printed"], **PRINTED, color=color)


def percent(axis) -> None:
    """Limit a percentage axis to -1..101. Call it after everything is drawn."""
    low, high = axis.get_ylim()
    axis.set_ylim(max(low, -1), min(high, 101))


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


@dataclass(frozen=True)
class Curve:
    """One panel. It shows `column` of each step's log (metrics.jsonl), or, without a column, the
    result rows' `metric` on `benchmark` at the evaluations during training. `ema` below 1 draws a
    moving average of a logged column, in which each step's number has this weight."""

    title: str
    column: str = ""
    benchmark: str = ""
    metric: str = ""
    ema: float = 1.0


def along(
    root: Path,
    paper: str,
    rows: pd.DataFrame,
    *,
    name: str,
    model: str,
    colors: dict[str, str],
    curves: list[Curve],
    about: str,
    start: str = "",
) -> Figure:
    """Draw the curves of one model's methods along training: thin lines are seeds, thick lines
    their mean. The figure is left out where a method of `colors` lacks one of `curves`. `start`:
    the method name of the model that all runs start from; its rows begin each curve of
    evaluations at step 0."""
    of_model = rows[rows["model"] == model]
    mine = of_model[of_model["method"].isin(list(colors))]
    parts = [_logged(root, paper, mine, curve) for curve in curves if curve.column]
    runs = mine[["method", "seed"]].drop_duplicates()
    first = of_model[of_model["method"] == start].drop(columns=["method", "seed"])
    mine = pd.concat([first.merge(runs, how="cross"), mine], ignore_index=True)
    parts += [_evaluated(mine, curve) for curve in curves if not curve.column]
    drawn = pd.concat(parts, ignore_index=True).assign(model=model)
    there = set(zip(drawn["curve"], drawn["method"], strict=True))
    lacking = [one for one in colors if not all((c.title, one) in there for c in curves)]
    if lacking:
        said = f"rows without a curve: {', '.join(lacking)} of {model}"
        return Figure(PREFIX + name, left_out=said)
    columns = min(4, len(curves))  # of the legend: a panel has room for one long name
    lines = -(-len(colors) // columns)
    figure, axes = panels(len(curves), width=2.9, height=2.3 + 0.2 * lines)
    for axis, curve in zip(axes[0], curves, strict=True):
        for method, color in colors.items():
            of = drawn[(drawn["curve"] == curve.title) & (drawn["method"] == method)]
            for _, seed in of.groupby("seed"):
                axis.plot(seed["step"], seed["value"], color=color, lw=0.5, alpha=0.4)
            mean = of.groupby("step")["value"].mean()
            axis.plot(mean.index, mean, color=color, label=method)
        axis.set(title=curve.title, xlabel="step")
    legend(figure, axes[0, 0], columns)
    save(figure, root / paper / "figures" / f"{PREFIX}{name}", drawn[ALONG])
    seeds = drawn.groupby("method")["seed"].nunique()
    number = "One seed a method" if (seeds == 1).all() else "Thin lines: seeds, thick: their mean"
    return Figure(PREFIX + name, f"{about} {number}.")


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
    wanted = (rows["benchmark"] == curve.benchmark) & (rows["metric"] == curve.metric)
    shown = rows.loc[wanted & rows["step"].notna(), ["method", "seed", "step", "value"]]
    return shown.sort_values("step").assign(curve=curve.title)
