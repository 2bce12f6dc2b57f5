"""Speed compared with other libraries.

    make bench

Prints one table and writes results/bench/<name>.csv with one row per measurement, and <name>.json
with versions, processor and load.
"""

import os
import platform
import sys
import time
from importlib import metadata
from pathlib import Path

import pandas as pd
import torch
from rich.console import Console
from rich.table import Table
from transformers.utils import logging

from bench import COLUMNS, rollout, step, verifiers
from common.cli import guard
from common.config.files import ROOT
from common.results.files import write_csv, write_json

PACKAGES = ("torch", "transformers", "math-verify", "trl", "numpy")


def main() -> None:
    torch.set_num_threads(1)
    logging.set_verbosity_error()  # else it warns about the end token that no model can produce
    logging.disable_progress_bar()
    frames = []
    for name, run in {"step": step.run, "rollout": rollout.run, "verifiers": verifiers.run}.items():
        print(f"bench {name} ...", file=sys.stderr, flush=True)
        about = circumstances()
        frames.append(pd.DataFrame(run(), columns=COLUMNS))
        write_csv(ROOT / "results" / "bench" / f"{name}.csv", frames[-1])
        write_json(ROOT / "results" / "bench" / f"{name}.json", about)
    show(pd.concat(frames), "one thread on both sides; ratio above 1: ours is faster")


def circumstances() -> dict:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    installed = {distribution.name for distribution in metadata.distributions()}
    return {
        "processor": models[0] if models else platform.processor(),
        "machine": platform.machine(),
        "threads": 1,
        "load": round(os.getloadavg()[0], 2),  # processes that wanted to run, last minute
        "cores": os.cpu_count(),
        "start": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES if name in installed},
    }


def show(rows: pd.DataFrame, title: str) -> None:
    table = Table(title=title)
    for column in COLUMNS:
        side = "right" if column in ("ours", "peer", "ratio") else "left"
        table.add_column(column, justify=side, overflow="fold")
    for r in rows.itertuples():
        table.add_row(r.name, number(r.ours), number(r.peer), r.unit, f"{r.ratio:.2f}", r.note)
    width = None if Console().is_terminal else 150
    Console(width=width, markup=False).print(table)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    guard(main)
