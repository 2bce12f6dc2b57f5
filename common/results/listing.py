"""The runs in a results folder, of every paper: how far each is, and its pass@1.

    rlvr runs [results_dir=results]

A run that is not done resumes where its command is typed again.
"""

from pathlib import Path

import pandas as pd
import yaml

from common.config.words import options
from common.errors import require
from common.results.files import whole_rows

HEAD = ("run", "state", "pass@1 in percent, after the last step")


def main(words: list[str]) -> None:
    root = Path(options(words, {"results_dir": "results"})["results_dir"])
    found = runs(root)
    require(bool(found), "results_dir", root, "no run is below it; name another folder")
    widths = [max(map(len, column)) for column in zip(HEAD, *found, strict=True)]
    for line in (HEAD, *found):
        cells = (word.ljust(width) for word, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


def runs(root: Path) -> list[tuple[str, str, str]]:
    """Return (folder below `root`, state, pass@1 of each benchmark) of every run, by folder."""
    folders = sorted(file.parent for file in root.rglob("config.yaml"))
    return [(str(run.relative_to(root)), state(run), accuracy(run)) for run in folders]


def state(run: Path) -> str:
    """Return "done", or how many steps of an unfinished run are logged."""
    if (run / "DONE").exists():
        return "done"
    config = yaml.safe_load((run / "config.yaml").read_text())
    steps = (config.get("optim") or {}).get("steps")
    logged = [row["step"] for row in whole_rows(run / "metrics.jsonl") if "step" in row]
    return f"step {max(logged, default=0)} of {steps}" if steps else "unfinished"


def accuracy(run: Path) -> str:
    """Return pass@1 of each benchmark after the last step, as "natural 32.1, rare 3.0"; "" where
    nothing was measured."""
    if not (run / "metrics.csv").exists():
        return ""
    rows = pd.read_csv(run / "metrics.csv")
    rows = rows[
        (rows["metric"] == "pass@1") & (rows["step"].isna() | (rows["step"] == rows["step"].max()))
    ]
    pairs = zip(rows["benchmark"], rows["value"], strict=True)
    return ", ".join(f"{name} {value:.1f}" for name, value in pairs)
