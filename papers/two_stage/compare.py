"""The two-stage paper's result rows that come from its toy, its theory and cluster samples."""

from pathlib import Path

import pandas as pd

from common.comparison.training import logged, phases
from papers.two_stage.cluster import code_rows

OTHER_FIGURES = ("two_stages", "crossed", "best_low")  # kept for the figures after Fig. 1
SHOWN = ["ratio", "max_rises", "min_falls"]  # of Theorem 1's table
STEPS = {"sgd": "plain step", "adam": "Adam"}


def own_rows(root: Path) -> list[pd.DataFrame]:
    return [toy_rows(root), *theory_rows(root)]


def logged_rows(root: Path, rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return entropy and reward along the cluster's training runs (table "TABLE, logged") and the
    pieces of code in their stored samples (table "TABLE, samples"), with TABLE the run's table."""
    measured = logged(root, "two_stage", rows, lambda log: phases(log, ["entropy", "reward"]))
    return [measured, code_rows(root, rows)]


def toy_rows(root: Path) -> pd.DataFrame:
    """Return the toy as result rows in percent (points), one value for each seed. The method is
    "plain step" or "Adam", with ", -N" after it for -N; the benchmark is "<figure> <cell>".

    two_stages, crossed: 100 or 0; best_low: the lowest probability of the best action before the
    crossing. Fig. 1 also has leader_rise: the leader's rise to its peak before the crossing;
    leader_peak; best_rise_at_peak: the rise of the best action from the start to the step of that
    peak; best_rise, leader_fall: the changes from that step to the last one; negative_1,
    negative_2: the leader's share of the samples with a negative advantage up to that step, and
    from there to the crossing. `spread`, the mean width of the figures' quantile band, has no seed.
    """
    folder = root / "two_stage" / "toy"
    if not (folder / "ends.csv.gz").exists():
        return pd.DataFrame()
    ends, paths = (named(pd.read_csv(folder / f"{name}.csv.gz")) for name in ("ends", "paths"))
    values = pd.DataFrame(
        {
            "two_stages": ends["two_stages"],
            "crossed": ends["crossing"].notna(),
            "leader_rise": ends["leader_peak"] - ends["leader_start"],
            "leader_peak": ends["leader_peak"],
            "leader_fall": ends["leader_peak"] - ends["leader_end"],
            "best_low": ends["best_low"],
            "best_rise_at_peak": ends["best_at_peak"] - ends["best_start"],
            "best_rise": ends["best_end"] - ends["best_at_peak"],
            "negative_1": ends["negative_1"],
            "negative_2": ends["negative_2"],
        }
    )
    key = ["method", "benchmark", "seed"]
    wide = pd.concat([ends[key], 100 * values.astype(float)], axis=1)
    long = wide.melt(key, var_name="metric", value_name="value")
    fig1 = long["benchmark"].str.startswith("fig1 ")
    long = long[fig1 | long["metric"].isin(OTHER_FIGURES)]
    paths["value"] = 100 * (paths["high"] - paths["low"])
    spread = paths.groupby(key[:2])["value"].mean().reset_index().assign(metric="spread")
    both = pd.concat([long, spread], ignore_index=True)
    return both.assign(table="toy", model="softmax", unit="percent")


def named(frame: pd.DataFrame) -> pd.DataFrame:
    negative = frame["method"].map({"full": "", "negative": ", -N"})
    return frame.assign(
        method=frame["optimizer"].map(STEPS) + negative,
        benchmark=frame["figure"] + " " + frame["cell"],
    )


def theory_rows(root: Path) -> list[pd.DataFrame]:
    folder, frames = root / "two_stage" / "theory", []
    named = {  # table -> method, the column that names the benchmark, metrics of its rows
        "theorem1": ("full", "G", SHOWN),
        "remark2": ("Lemma 1", "scale", ["fall", "all_fall"]),
        "proposition1": ("Proposition 1", "eta", ["relative_error"]),
        "kernel": ("kernel", "width", ["moved"]),
    }
    for name, (method, by, metrics) in named.items():
        path = folder / f"{name}.csv"
        if not path.exists():
            continue
        table = pd.read_csv(path)
        table = table.assign(method=method, benchmark=f"{by}=" + table[by].map("{:g}".format))
        key = [name for name in ("method", "benchmark", "seed") if name in table]
        frames.append(table.melt(key, metrics, "metric").assign(table="theory"))
    return frames
