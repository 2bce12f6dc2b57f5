"""The result rows of F-GRPO that come from its simulation and its theory."""

from pathlib import Path

import pandas as pd

from common.comparison.gather import Gathered


def own_rows(root: Path, runs: Gathered) -> list[pd.DataFrame]:
    """Return the result rows of the simulation and of the theory."""
    return [simulation_rows(root), theory_rows(root)]


def simulation_rows(root: Path) -> pd.DataFrame:
    """Return the categorical simulation as result rows: method "gamma=g" and benchmark "N=n", one
    row for each seed, step and metric. Only the reading score_adam is taken.

    Table "simulation at Q_pos=0.9" holds M_ret at the step where Q_pos first reaches 0.9, for the
    runs that reach it. Empty without results of the simulation.
    """
    path = root / "f_grpo" / "simulation" / "trajectory.csv.gz"
    if not path.exists():
        return pd.DataFrame()
    wide = pd.read_csv(path).query("reading == 'score_adam'")
    wide = wide.assign(
        table="simulation",
        model="categorical",
        method="gamma=" + wide["gamma"].map("{:g}".format),
        benchmark="N=" + wide["N"].astype(str),
    )
    key = ["table", "model", "method", "benchmark", "seed", "step"]
    long = wide.melt(key, ["Q_pos", "M_ret", "entropy"], "metric", "value")
    reached = wide[wide["Q_pos"] >= 0.9].sort_values("step").groupby(key[:-1]).head(1)
    reached = reached.assign(
        table="simulation at Q_pos=0.9", metric="M_ret", value=reached["M_ret"]
    )
    return pd.concat([long, reached[[*key, "metric", "value"]]], ignore_index=True)


def theory_rows(root: Path) -> pd.DataFrame:
    """Return the table of Lemma 3.1 as result rows: one row for each number, without a seed. Empty
    without results of the theory."""
    path = root / "f_grpo" / "theory" / "tail_miss.csv"
    if not path.exists():
        return pd.DataFrame()
    wide = pd.read_csv(path)
    return pd.DataFrame(
        {
            "table": "theory",
            "method": [
                f"mu={mu:g}, tau={tau:g}" for mu, tau in zip(wide.mu, wide.tau, strict=True)
            ],
            "benchmark": "N=" + wide["N"].astype(str),
            "metric": "pr_tail_miss",
            "value": wide["pr_tail_miss"],
        }
    )
