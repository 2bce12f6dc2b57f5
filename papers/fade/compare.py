"""FADE's result rows besides those of its runs (`own_rows`):

masses, table8, sec14, kish     the exact weights (theory/masses.py); no seed
entropy, scaling, multi_turn    Theorems 13.1 and 12.1, and retries; no seed
<table>, training               for each run: entropy, solve rate, alpha, delta, and the steps
                                it needs to reach a solve rate
<table>, fits                   for each run: a and b of the shifted power law; for each budget:
                                the error of its prediction
<table>, weights                for each run: the output head's weight change, and rho_perp
"""

from pathlib import Path

import pandas as pd

from common.comparison.gather import Gathered
from common.comparison.spec import spec_of
from common.comparison.training import logged, phases
from papers.fade import laptop
from papers.fade.fits.tables import budgets, by_seed

BALANCED = {  # sec 8: sign-balanced weights, by method file
    "binary_contrastive",
    "easy_power",
    "grpo",
    "max_rl",
    "mean_only",
    "pass_at_k_chen",
    "pass_at_k_mix",
    "power_alpha",
    "power_norm",
    "skew_r",
    "softmax",
    "t2t",
}


def own_rows(root: Path, runs: Gathered) -> list[pd.DataFrame]:
    """Return the exact results, and what the runs show besides pass@k, as result rows."""
    frames = [*mass_rows(root), entropy_rows(root), *theory_rows(root)]
    for table in runs.rows["table"].unique():
        frames.append(
            laptop.result_rows(laptop.curves(root, runs, table), table, spec_of("fade").pairs)
        )
        part = runs.counts[runs.counts["table"] == table]
        frames += [fit_rows(part, table), weight_rows(root, table)]
    return [frame.assign(model="exact") if "model" not in frame else frame for frame in frames]


def logged_rows(root: Path, rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return result rows on how the cluster training runs went.

    They hold entropy and the controller's alpha and delta along training, and the step (a rollout
    of 10 optimiser steps) of the run's chosen checkpoint, where LiveCodeBench v6 reaches its
    plateau (Sec. 11.2).
    """
    found = logged(root, "fade", rows, lambda log: phases(log, ["entropy", "alpha", "delta"]))
    peak = rows[(rows["benchmark"] == "LiveCodeBench v6") & (rows["metric"] == "pass@1")]
    peak = peak[["table", "model", "method", "seed", "step", "run_id"]].assign(
        table=peak["table"].astype(str) + ", logged",
        benchmark="training",
        metric="steps_to_peak",
        value=peak["step"],
    )
    return [found, peak]


def plain(table: str, method, benchmark, metric: str, value) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "table": table,
            "method": method,
            "benchmark": benchmark,
            "metric": metric,
            "value": value,
        }
    )


def table_of(root: Path, *place: str) -> pd.DataFrame:
    """Read a table below <root>/fade/; return an empty one if the file does not exist."""
    path = root.joinpath("fade", *place)
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def mass_rows(root: Path) -> list[pd.DataFrame]:
    """Return the rows of the tables "masses", "table8", "sec14" and "kish".

    "masses" holds m_S, m_F, rho of each method ("name (params)") at p = 0.1, 0.3, 0.5, 0.9 and each
    G; "rho_off", the largest |rho q / p - 1| over the sign-balanced methods and all p; and
    "closed_form_off", for each method the largest |exact - closed form| of either mass.
    """
    masses = table_of(root, "weights", "masses.csv")
    if masses.empty:
        return []
    params = masses["params"].fillna("")
    masses["name"] = masses["method"] + (" (" + params + ")").where(params != "", "")
    masses["benchmark"] = "G=" + masses["G"].map("{:g}".format)
    parts = []
    shown = masses[masses["p"].isin([0.1, 0.3, 0.5, 0.9])]
    at = shown["benchmark"] + ", p=" + shown["p"].map("{:g}".format)
    for metric in ("m_S", "m_F", "rho"):
        parts.append(plain("masses", shown["name"], at, metric, shown[metric]).dropna())
    off = (masses["m_S"] - masses["closed_form_m_S"]).abs()
    off = off.combine((masses["m_F"] - masses["closed_form_m_F"]).abs(), max)
    by_method = off.groupby([masses["name"], masses["benchmark"]]).max().dropna().reset_index()
    parts.append(
        plain("masses", by_method["name"], by_method["benchmark"], "closed_form_off", by_method[0])
    )
    balanced = masses[masses["method"].isin(BALANCED)].dropna(subset=["rho"])
    ratio = (balanced["rho"] * (1 - balanced["p"]) / balanced["p"] - 1).abs()
    worst = ratio.groupby(balanced["benchmark"]).max()
    parts.append(plain("masses", "sign-balanced", worst.index, "rho_off", worst.to_numpy()))
    signal = table_of(root, "weights", "table8.csv")
    at = "G=" + signal["G"].astype(str) + ", p=" + signal["p"].map("{:g}".format)
    for metric in ("multiplier", "easing"):
        parts.append(plain("table8", "Power (alpha=3)", at, metric, signal[metric]))
    best = table_of(root, "weights", "sec14.csv")
    at = "c=" + best["c"].map("{:g}".format)
    size = "G=" + best["G"].astype(str)
    for metric in ("alpha", "sweet_spot"):
        parts.append(plain("sec14", size, at, metric, best[metric]))
    kish = table_of(root, "weights", "kish.csv")
    name = "alpha=" + kish["alpha"].map("{:g}".format)
    parts.append(plain("kish", name, "uniform", "N_eff", kish["N_eff"]))
    return parts


def entropy_rows(root: Path) -> pd.DataFrame:
    """Return the rows of table "entropy": `entropy.summary`, with methods named "delta=0.5"."""
    summary = table_of(root, "theory", "entropy_summary.csv")
    if summary.empty:
        return summary
    summary["method"] = "delta=" + summary["delta"].map("{:g}".format)
    long = summary.drop(columns="delta").melt("method", var_name="metric")
    return plain("entropy", long["method"], "tabular softmax", long["metric"], long["value"])


def theory_rows(root: Path) -> list[pd.DataFrame]:
    """Return the rows of the tables "scaling" and "multi_turn".

    "scaling" holds, for each density at the largest k, the ratio to the asymptote and the slope
    minus b; for a rapidly decaying density it holds the slope alone. "multi_turn" holds, for each
    reading, the largest distance of the simulated mass from the exact one in standard errors, and
    the largest |retry / (p q^2) - (B - 1) / B|.
    """
    parts = []
    laws = table_of(root, "theory", "scaling.csv")
    if len(laws):
        end = laws[laws["k"] == laws["k"].max()]
        power, rapid = end.dropna(subset=["b"]), end[end["b"].isna()]
        parts.append(plain("scaling", power["density"], "k=1e6", "ratio", power["ratio"]))
        off = power["slope"] - power["b"]
        parts.append(plain("scaling", power["density"], "k=1e6", "slope_less_b", off))
        parts.append(plain("scaling", rapid["density"], "k=1e6", "slope", rapid["slope"]))
    turns = table_of(root, "theory", "multi_turn.csv")
    if len(turns):
        for reading, group in turns.groupby("reading"):
            spread = group["stderr_2"].where(group["stderr_2"] > 0)  # 0: turn 2 never happened
            off = ((group["m_2"] - group["retry"]).abs() / spread).max()
            shape = (group["retry"] / group["power_2"] - (group["B"] - 1) / group["B"]).abs().max()
            for metric, value in (("stderrs_off", off), ("shape_off", shape)):
                parts.append(plain("multi_turn", reading, "retry", metric, [value]))
    return parts


def fit_rows(counts: pd.DataFrame, table: str) -> pd.DataFrame:
    """Return the rows of table "<table>, fits".

    They hold a and b of each run at each step, with the base model as method "base". For each
    method and budget, without a seed, they hold |predicted - measured| pass@100 in points.
    """
    if counts.empty:
        return pd.DataFrame()
    fits = by_seed(counts).melt(
        ["table", "method", "benchmark", "seed", "step"], ["a", "b"], "metric"
    )
    last = counts[counts["step"] == counts.groupby("method")["step"].transform("max")]
    predictions = budgets(last)
    off = 100 * (predictions["predicted"] - predictions["measured"]).abs()
    metric = "pass@100_off_by_k<=" + predictions["budget"].astype(str)
    named = plain("", predictions["method"], predictions["benchmark"], metric, off)
    return pd.concat([fits, named], ignore_index=True).assign(table=f"{table}, fits")


def weight_rows(root: Path, table: str) -> pd.DataFrame:
    """Return the rows of table "<table>, weights", for the checkpoints of each run.

    They hold s1/s2, the rank-1 fraction (percent), srank and the share of the whole change for the
    output head; and rho_perp and residual norms of right and wrong responses with their ratios,
    measured along the direction of the states.
    """
    parts = []
    folders = sorted((root / "fade" / "geometry" / "laptop").glob("**/tensors.csv"))
    if folders:  # one folder for each base model
        tensors = pd.concat([pd.read_csv(path) for path in folders])
        head = tensors[tensors["part"] == "output head"].assign(
            rank1_fraction=lambda x: 100 * x["rank1_fraction"]
        )
        metrics = ["s1_over_s2", "rank1_fraction", "srank", "energy_share"]
        parts.append(head.melt(["label", "seed", "step"], metrics, "metric"))
    states = table_of(root, "hidden_states", "residuals.csv")
    if len(states):
        residuals = states[states["direction"] == "states"].dropna(subset=["seed"])
        metrics = ["rho_S", "rho_F", "rho_ratio", "norm_ratio", "clt_ratio", "norm_ratio_equal_n"]
        parts.append(residuals.melt(["label", "seed", "step"], metrics, "metric"))
    if not parts:
        return pd.DataFrame()
    rows = pd.concat(parts).dropna(subset=["value"]).rename(columns={"label": "method"})
    return rows.assign(table=f"{table}, weights", benchmark="output head")
