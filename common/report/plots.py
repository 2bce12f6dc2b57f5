"""Figures that the page draws itself as SVG, from the CSV beside a figure. A point shows its
method, seed, step and values when the mouse is over it.

A CSV is recognised by its columns, whichever testbed or paper wrote it. All other figures stay
pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from common.palette import Look, look

WIDTH, HEIGHT = 340, 250  # of a panel; numbers of the viewBox
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 24, 36
WIDE, TALL = 560, 360  # a figure of one panel
DASHES = {"-": "", "--": "6 4", ":": "1.5 3", "-.": "7 3 1.5 3"}


@dataclass(frozen=True)
class Point:
    x: float  # in the panel
    y: float
    data: str  # seed, step and values, as the script reads them: "seed 3|step 50|25.7|32"


@dataclass(frozen=True)
class Line:
    method: str
    look: Look
    path: str
    points: tuple[Point, ...]
    bars: str = ""  # standard errors


@dataclass(frozen=True)
class Panel:
    title: str
    x_label: str
    y_label: str
    width: int
    height: int
    lines: tuple[Line, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Plot:
    name: str
    title: str
    panels: tuple[Panel, ...]
    legend: tuple[tuple[str, Look], ...]


@dataclass(frozen=True)
class Curve:
    """A curve before it is placed in a panel: its values, and a text for each of them."""

    method: str
    look: Look
    x: np.ndarray
    y: np.ndarray
    said: list[str]
    error: np.ndarray | None = None


def plot(path: Path, compared: set[str] | None = None) -> Plot | None:
    """Return the figure of a CSV, or None where its columns are not in DRAWN. A frontier has only
    the methods that are `compared`, or all if that is None."""
    try:
        with path.open() as file:  # for most figures only the first line is read
            there = set(file.readline().strip().split(","))
        draw = next((draw for columns, draw in DRAWN.items() if set(columns) == there), None)
        table = pd.read_csv(path) if draw else pd.DataFrame()
    except (OSError, ValueError):  # pandas' parser errors are ValueErrors
        return None
    # a few steps have no pass@64, for example
    table = table.dropna(subset=table.columns.intersection(["accuracy", "diversity", "mean"]))
    return draw(path.stem, table, compared) if len(table) else None


def methods(path: Path) -> set[str]:
    """Return the methods in a CSV, an empty set where it cannot be read."""
    try:
        return set(pd.read_csv(path)["method"].astype(str))
    except (OSError, ValueError, KeyError):
        return set()


def frontier(name: str, table: pd.DataFrame, compared: set[str] | None) -> Plot:
    """Draw diversity against accuracy along training, as means over seeds of the methods that are
    compared. The single runs are in the CSV."""
    curves = []
    for method, rows in table.groupby("method"):
        if compared is not None and method not in compared:
            continue
        mean = rows.groupby("step")[["accuracy", "diversity"]].mean().reset_index()
        many = rows["seed"].nunique()
        said = [f"mean of {many} seed{'s' * (many > 1)}|step {s:g}" for s in mean["step"]]
        curves.append(_curve(str(method), look(str(method)), mean, said))
    title = "Along training: a point is a checkpoint, a mean over seeds"
    panel = place(title, "natural pass@1 (%)", "rare pass@64 (%)", curves, WIDE, TALL)
    return _plot(name, title, [panel], curves)


def training(name: str, table: pd.DataFrame, compared: set[str] | None) -> Plot:
    """Draw means and standard errors over seeds against the step, one panel for each measure."""
    panels, every = [], []
    by = ["benchmark", "metric"]
    for names, part in table.fillna({name: "" for name in by}).groupby(by, sort=False):
        curves = _means(part, "step", "step")
        every += curves
        title = " ".join(str(name) for name in names).replace("_", " ").strip()
        panels.append(place(title, "step", "", curves))
    return _plot(name, "Along training", panels, every)


def at_k(name: str, table: pd.DataFrame, compared: set[str] | None) -> Plot:
    """Draw pass@k against k after the last step, one panel a benchmark."""
    panels, every = [], []
    for benchmark, part in table.groupby("benchmark", sort=False):
        curves = _means(part, "k", "k =")
        every += curves
        panels.append(place(f"{benchmark} prompts", "k", "pass@k (%)", curves, log=True))
    return _plot(name, "pass@k after the last step", panels, every)


DRAWN: dict[tuple[str, ...], Callable] = {
    ("method", "seed", "run_id", "step", "accuracy", "diversity"): frontier,
    ("step", "mean", "sem", "n_seeds", "method", "benchmark", "metric"): training,
    ("k", "mean", "sem", "n_seeds", "method", "benchmark"): at_k,
}


def place(
    title: str,
    x_label: str,
    y_label: str,
    curves: list[Curve],
    width: int = WIDTH,
    height: int = HEIGHT,
    *,
    log: bool = False,
) -> Panel:
    """Return a panel with the curves in its coordinates, and with ticks."""
    at = np.log2 if log else np.asarray
    xs = np.concatenate([at(curve.x) for curve in curves])
    spread = [curve.y + s * _error(curve) for curve in curves for s in (-1, 1)]
    (x0, x1), (y0, y1) = _span(xs), _span(np.concatenate(spread))
    right, low = width - RIGHT, height - BOTTOM

    def across(x):
        return LEFT + (at(x) - x0) / (x1 - x0) * (right - LEFT)

    def up(y):
        return low - (np.asarray(y) - y0) / (y1 - y0) * (low - TOP)

    lines = []
    for curve in curves:
        px, py = across(curve.x), up(curve.y)
        path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(px, py, strict=True))
        values = zip(curve.said, curve.x, curve.y, strict=True)
        said = [f"{words}|{_text(a)}|{_text(b)}" for words, a, b in values]
        points = zip(px, py, said, strict=True)
        tops = zip(px, up(curve.y - _error(curve)), up(curve.y + _error(curve)), strict=True)
        bars = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in tops if abs(b - c) > 0.5)
        made = tuple(Point(round(float(a), 1), round(float(b), 1), one) for a, b, one in points)
        lines.append(Line(curve.method, curve.look, path, made, bars))
    marks = sorted({float(x) for curve in curves for x in curve.x}) if log else _ticks(x0, x1)
    marks = [x for x in marks if not log or math.log2(x) % (2 if len(marks) > 6 else 1) == 0]
    return Panel(
        title,
        x_label,
        y_label,
        width,
        height,
        tuple(lines),
        tuple((round(float(across(x)), 1), f"{x:g}") for x in marks),
        tuple((round(float(up(y)), 1), f"{y:g}") for y in _ticks(y0, y1)),
    )


def _plot(name: str, title: str, panels: list[Panel], curves: list[Curve]) -> Plot:
    legend = {curve.method: curve.look for curve in curves[::-1]}
    return Plot(name, title, tuple(panels), tuple(legend.items()))


def _curve(method: str, style: Look, rows: pd.DataFrame, said: list[str], **options) -> Curve:
    known = rows[["accuracy", "diversity"]].notna().all(axis=1).to_numpy()
    x, y = (rows[name].to_numpy(float)[known] for name in ("accuracy", "diversity"))
    kept = [words for words, fits in zip(said, known, strict=True) if fits]
    return Curve(method, style, x, y, kept, **options)


def _means(part: pd.DataFrame, by: str, word: str) -> list[Curve]:
    """Return one curve for each method, with a text for each mean."""
    curves = []
    for method, rows in part[part["mean"].notna()].groupby("method", sort=False):
        errors = rows["sem"].fillna(0).to_numpy(float)
        said = [
            f"mean of {row.n_seeds:g} seed{'s' * (row.n_seeds > 1)}, ± {_text(error)}|"
            f"{word} {getattr(row, by):g}"
            for row, error in zip(rows.itertuples(), errors, strict=True)
        ]
        x, y = (rows[name].to_numpy(float) for name in (by, "mean"))
        curves.append(Curve(str(method), look(str(method)), x, y, said, error=errors))
    return curves


def _error(curve: Curve) -> np.ndarray:
    return np.zeros_like(curve.y) if curve.error is None else curve.error


def _span(values: np.ndarray) -> tuple[float, float]:
    """Return the ends of an axis: those of the values, and five percent more on each side."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    rim = 0.05 * (high - low) or max(1e-9, abs(high) * 0.1)
    return low - rim, high + rim


def _ticks(low: float, high: float, many: int = 5) -> list[float]:
    """Return round numbers between two ends."""
    raw = (high - low) / many
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * unit for unit in (1, 2, 5, 10) if power * unit >= raw)
    first = math.ceil(low / step)
    return [round(step * i, 10) for i in range(first, math.floor(high / step) + 1)]


def _text(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.4g}"
