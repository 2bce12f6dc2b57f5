"""Training curves of the laptop runs: entropy, solve rate, and the controller's values.

`measure` writes <root>/fade/laptop/<table>_training.csv.gz from the run folders, with every fifth
step of every run. Without run folders, a table that is already stored is kept.
"""

from pathlib import Path

import pandas as pd

from common.comparison import training
from common.comparison.gather import LAPTOP, Gathered
from common.results.columns import COLUMNS

# the last five columns are empty for a method without a controller
LOGGED = ["entropy", "solve_rate", "lr", "alpha", "delta", "p_hat", "H_hat", "H_0"]
CURVES = ["method", "seed", "step", *LOGGED]
EVERY = 5
WINDOW = 4  # kept points (20 steps) of a moving average


def measure(root: Path, runs: Gathered) -> None:
    """Write the training curves of every finished run, one file for each table."""
    for table in runs.rows["table"].unique():
        found = []
        for run, log in training.logs(root, "fade", runs.rows[runs.rows["table"] == table]):
            curve = log[log["step"] % EVERY == 0].reindex(columns=["step", *LOGGED])
            digits = {name: curve[name].astype(float).round(5) for name in LOGGED if name != "lr"}
            found.append(curve.assign(**digits, method=run["method"], seed=run["seed"]))
        training.keep(_file(root, table), found, CURVES)


def read(root: Path, table: str) -> pd.DataFrame:
    """Read the training curves of one table's runs that `measure` wrote; empty without a file."""
    return training.kept(_file(root, table), CURVES)


def _file(root: Path, table: str) -> Path:
    return root / "fade" / LAPTOP / f"{table}_training.csv.gz"


def smoothed(curves: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return `curves` with the column replaced by its moving average over 20 steps in each run."""
    means = curves.groupby(["method", "seed"])[column].transform(
        lambda values: values.rolling(WINDOW, min_periods=1).mean()
    )
    return curves.assign(**{column: means})


def steps_to(curves: pd.DataFrame, methods: tuple[str, str]) -> dict[tuple[str, int], float]:
    """Return (method, seed) -> the first step at which the run reaches a common solve rate.

    The solve rate is the moving average on training prompts. The common level is the highest one
    that every run of both methods reached. Return {} if a method has no run. This puts the paper's
    "reaches peak pass@1 k steps earlier" in a form that has a value for every run.
    """
    smooth = smoothed(curves[curves["method"].isin(methods)], "solve_rate")
    if smooth["method"].nunique() < 2:
        return {}
    runs = smooth.groupby(["method", "seed"])
    level = runs["solve_rate"].max().min()
    reached = smooth[smooth["solve_rate"] >= level - 1e-12]
    return reached.groupby(["method", "seed"])["step"].min().astype(float).to_dict()


def result_rows(curves: pd.DataFrame, table: str, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """Return result rows of benchmark "training" for each run.

    They hold means over the first and the last 20 steps of entropy, solve rate, alpha and delta.
    `steps_to` of each pair is in a table of its own, named "<table>, A vs B".
    """
    rows = []
    for (method, seed), run in curves.groupby(["method", "seed"], sort=False):
        for name in ("entropy", "solve_rate", "alpha", "delta"):
            values = run[name].dropna()
            if len(values):
                first, last = values.iloc[:WINDOW].mean(), values.iloc[-WINDOW:].mean()
                rows.append((table, method, seed, f"{name}_first", first))
                rows.append((table, method, seed, f"{name}_last", last))
    for pair in pairs:
        where = f"{table}, {pair[0]} vs {pair[1]}"
        for (method, seed), step in steps_to(curves, pair).items():
            rows.append((where, method, seed, "steps_to_solve_rate", step))
    frame = pd.DataFrame(rows, columns=["table", "method", "seed", "metric", "value"])
    return frame.assign(benchmark="training").reindex(columns=COLUMNS)
