"""Over-sharpening's result rows besides its runs': the toy, the theory's counts and the kernel."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.comparison.training import logged, phases
from common.config.files import ROOT
from papers.over_sharpening.embeddings import kernel
from papers.over_sharpening.toy.formulas import COLLAPSED


def own_rows(root: Path) -> list[pd.DataFrame]:
    return [toy_rows(root), theory_rows(root)]


def cell_name(row: pd.Series) -> str:
    name = row["estimator"] + (" + IAC" if row["alpha"] > 0 else "")
    name += " + DLC" if row["mu"] > 0 else ""
    return f"{name}, {row['optimizer']}, lr={row['lr']:g}"


def toy_rows(root: Path) -> pd.DataFrame:
    """Return the toy as one row for each (cell, G, seed, metric). A seed's shares are 0 or 100.

    collapsed: Cat or Persian has a probability of COLLAPSED or more after the last step;
    collapsed_by_20: a label reached it by step 20; cat_wins: Cat is the likelier of the two correct
    labels.
    """
    path = root / "over_sharpening" / "toy" / "final.csv.gz"
    if not path.exists():
        return pd.DataFrame()
    wide = pd.read_csv(path)
    winner = wide[["p_cat", "p_persian"]].max(axis=1)
    shares = {
        "collapsed": winner >= COLLAPSED,
        "collapsed_by_20": wide["step_one"] <= 20,
        "cat_wins": wide["p_cat"] > wide["p_persian"],
    }
    wide = wide.assign(
        table="toy",
        model="softmax",
        method=wide.apply(cell_name, axis=1),
        benchmark="G=" + wide["G"].astype(str),
        p_winner=winner,
        **{name: 100.0 * share for name, share in shares.items()},
    )
    metrics = [*shares, "p_winner", "siamese_high", "siamese_mid", "siamese_low"]
    key = ["table", "model", "method", "benchmark", "seed"]
    return wide.melt(key, metrics, "metric", "value")


def theory_rows(root: Path) -> pd.DataFrame:
    """Return the percent of cases that violate a statement (metric "violated"), and App. G's
    `kernel_cells`, as result rows without a seed."""
    folder = root / "over_sharpening" / "theory"
    if not (folder / "checks.csv").exists():
        return pd.DataFrame()
    checks = pd.read_csv(folder / "checks.csv").assign(benchmark="random instances")
    checks["benchmark"] += ", beta=" + checks["beta"].map("{:g}".format)
    coupled = pd.read_csv(folder / "coupling.csv")
    batch = np.where(coupled["repeats"], "repeated modes", "distinct modes")
    coupled = coupled.groupby(["statement", batch])[["cases", "violated"]].sum().reset_index()
    coupled = coupled.rename(columns={"level_1": "benchmark"})
    both = pd.concat([checks, coupled]).rename(columns={"statement": "method"})
    value = 100 * both["violated"] / both["cases"]
    counted = both.assign(table="theory", metric="violated", value=value)
    return pd.concat([counted, kernel_cells(root)], ignore_index=True)


def kernel_cells(root: Path) -> pd.DataFrame:
    """Return App. G's printed cells recomputed from its embeddings e: lambda = |e_Persian|^2,
    rho = e_Persian . e_Siamese and their ratio."""
    cells = pd.read_csv(ROOT / "papers/over_sharpening/published/table_appendix_g_kernel.csv")
    names = cells["method"].str.removesuffix(" similarity").str.lower()
    lam, rho = np.transpose([kernel(name) for name in names])
    kinds = [cells["metric"] == "self_similarity_lambda", cells["metric"] == "cross_similarity_rho"]
    values = np.select(kinds, [lam, rho], lam / rho)  # the rest are ratio_lambda_over_rho
    return cells[["table", "model", "method", "benchmark", "metric"]].assign(value=values)


def logged_rows(root: Path, rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return what Table 4's cluster runs logged, as result rows of the table "table4, logged": the
    entropy along training (nats a token) and the mean seconds of a rollout phase (rollout_seconds).
    DAPO+IAC+DLC, which has a memory network, also has rollout_ratio: its rollout_seconds divided by
    DAPO+IAC's."""

    def measured(log: pd.DataFrame) -> dict[str, float]:
        seconds = log["rollout_seconds"].mean() if "rollout_seconds" in log else None
        return phases(log, ["entropy"]) | ({"rollout_seconds": seconds} if seconds else {})

    found = logged(root, "over_sharpening", rows[rows["table"] == "table4"], measured)
    seconds = found[found["metric"] == "rollout_seconds"]
    key = ["table", "model", "benchmark", "seed"]
    slow = seconds[seconds["method"] == "DAPO+IAC+DLC"]
    plain = seconds[seconds["method"] == "DAPO+IAC"].rename(columns={"value": "plain"})
    slow = slow.merge(plain[[*key, "plain"]], on=key)
    slow = slow.assign(metric="rollout_ratio", value=slow["value"] / slow["plain"])
    return [found, slow.drop(columns="plain")]
