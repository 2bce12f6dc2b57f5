"""The runs in a results folder, of every paper: how far each is, and its pass@1.

    rlvr runs [results_dir=results] [curves=FILE]

curves=FILE draws the runs' training curves to FILE.png and .pdf, with their numbers in FILE.csv;
results_dir may be any folder above them. To resume an unfinished run, type its command again.
"""

import math
from pathlib import Path

import pandas as pd
import yaml

from common.config.words import options
from common.errors import UserError, require
from common.plotting import legend, panels, save
from common.results.collect import NUMBERS, damage
from common.results.files import whole_rows
from common.results.run import held

CURVES = ("reward", "entropy", "response_length", "grad_norm")
NAMED = 16  # with more runs, a legend leaves no room for the curves
MARKS = ("config.yaml", "metrics.csv")  # of a run's folder
HEAD = ("run", "state", "pass@1 in percent, after the last step")


def main(words: list[str]) -> None:
    given = options(words, {"results_dir": "results", "curves": ""})
    root, found = Path(given["results_dir"]), runs(Path(given["results_dir"]))
    require(bool(found), "results_dir", root, "contains no runs; name another folder")
    widths = [max(map(len, column)) for column in zip(HEAD, *found, strict=True)]
    for line in (HEAD, *found):
        cells = (word.ljust(width) for word, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
    if given["curves"]:
        draw(root, [name for name, *_ in found], Path(given["curves"]))


def runs(root: Path) -> list[tuple[str, str, str]]:
    found = []
    for run in sorted({file.parent for name in MARKS for file in root.rglob(name)}):
        known = state(run)
        found.append((str(run.relative_to(root)), known, accuracy(run) if known == "done" else ""))
    return found


def state(run: Path) -> str:
    """Return "done", "damaged", or how many steps of an unfinished run are logged, with "stopped"
    if no process holds it."""
    try:
        if (run / "DONE").exists():
            return "damaged" if damage(run, NUMBERS) else "done"
        config = yaml.safe_load((run / "config.yaml").read_bytes())
        steps = (config.get("optim") or {}).get("steps")
    except (UserError, OSError, ValueError, AttributeError, yaml.YAMLError):
        return "damaged"
    logged = [row["step"] for row in whole_rows(run / "metrics.jsonl") if "step" in row]
    said = f"step {max(logged, default=0)} of {steps}" if steps else "unfinished"
    return said if held(run) else f"stopped, {said}"


def accuracy(run: Path) -> str:
    """Return pass@1 of each benchmark of a run that is done, as "natural 32.1, rare 3.0"."""
    if not (run / "metrics.csv").exists():
        return ""
    rows = pd.read_csv(run / "metrics.csv")
    rows = rows[
        (rows["metric"] == "pass@1") & (rows["step"].isna() | (rows["step"] == rows["step"].max()))
    ]
    pairs = zip(rows["benchmark"], rows["value"], strict=True)
    return ", ".join(f"{name} {value:.1f}" for name, value in pairs)


def curves(run: Path) -> pd.DataFrame:
    """Return a run's log by step, with CURVES as running means over a fiftieth of its steps."""
    log = pd.DataFrame(whole_rows(run / "metrics.jsonl"))
    there = log.columns.intersection(CURVES)
    return log.assign(**log[there].rolling(max(1, len(log) // 50), min_periods=1).mean())


def draw(root: Path, names: list[str], target: Path) -> None:
    """Draw a panel for each of CURVES and for pass@1 of each benchmark, with a line per run."""
    rows = pd.concat([curves(root / name).assign(run=name) for name in names])
    require("step" in rows, "curves", target, f"no run below {root} has trained")
    shown = [name for name in rows if name in CURVES or name.startswith("pass@1/")]
    figure, axes = panels(3, math.ceil(len(shown) / 3), layout="constrained")
    for axis in axes.flat[len(shown) :]:
        axis.set_axis_off()
    for axis, column in zip(axes.flat, shown, strict=False):
        for name, log in rows.dropna(subset=[column]).groupby("run", sort=False):
            mark = "." if "@" in column else ""  # few points
            axis.plot(log["step"], log[column], lw=1, marker=mark, label=name)
        axis.set(xlabel="step", title=column)
    if len(names) <= NAMED:
        legend(figure, axes[0][0], columns=2)
    save(figure, target, rows[["run", "step", *shown]])
    print(f"curves: {target}.png, .pdf, .csv")
