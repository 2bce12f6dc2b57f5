"""FADE's result rows that do not come from its runs (`own_rows`):

masses, table8, sec14, kish     the exact weights (theory/masses.py); no seed
entropy, scaling, multi_turn    Theorems 13.1 and 12.1, and retries; no seed
"""

from pathlib import Path

import pandas as pd

from common.comparison.training import logged, phases
from common.evaluation.checkpoints import COUNTS, best_step, plateau_step
from common.metrics.fits import fit_power_law
from common.results.files import read_csv
from papers.fade.fits.tables import curves

UPDATES = 10  # optimiser steps of a training step, a rollout (configs/cluster.yaml)
SMALL, LARGE = "Qwen 2.5 7B", "CWM 32B"
V6, CURVE = "LiveCodeBench v6", "LiveCodeBench v6 (curve)"
CURVE_K = [1, 4, 8]  # of the training curve, by which a checkpoint is chosen
BALANCED = {  # sec 8: sign-balanced weights, by method file
    "binary_contrastive", "easy_power", "grpo", "max_rl", "mean_only", "pass_at_k_chen",
    "pass_at_k_mix", "power_alpha", "power_norm", "skew_r", "softmax", "t2t",
}  # fmt: skip


def own_rows(root: Path) -> list[pd.DataFrame]:
    return [frame.assign(model="exact") for frame in exact_rows(root)]


def logged_rows(root: Path, rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return result rows on how the cluster training runs went: entropy and the controller's alpha
    and delta along training, `peaks`, `shapes`, and Table 10, the least and the largest ratio of
    rho_perp over the checkpoints whose hidden states were measured by hand."""
    found = logged(root, "fade", rows, lambda log: phases(log, ["entropy", "alpha", "delta"]))
    return [found, peaks(root, rows), shapes(root, rows), *table10(root)]


def peaks(root: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Return steps_to_peak of each run: the optimiser step at which LiveCodeBench v6 reaches its
    plateau (Sec. 11.2). With 200 samples a problem along its CURVE that is `plateau_step`, or the
    best step where it has none; without them the step that the training curve chose by 8
    samples."""
    mine = rows[rows["benchmark"].isin([V6, CURVE]) & (rows["metric"] == "pass@1")]
    names, parts = ["table", "model", "method", "seed", "step", "run_id"], []
    for _, run in mine.groupby(names[:4], observed=True, dropna=False):
        curve = run[run["benchmark"] == CURVE]
        files = [root / "fade" / run_id / "counts.csv" for run_id in curve["run_id"]]
        step = run["step"].max() if curve.empty else best_step(curve)
        if files and all(path.exists() for path in files):
            counts = [read_csv(path, COUNTS) for path in files]
            counts = [part.assign(step=at) for part, at in zip(counts, curve["step"], strict=True)]
            step = plateau_step(pd.concat(counts), CURVE_K) or step
        at = run[run["step"] == step].iloc[0]
        shown = {"table": f"{at['table']}, logged", "benchmark": "training"}
        found = {"metric": "steps_to_peak", "value": step * UPDATES}
        parts.append(at[names].to_dict() | shown | found)
    return pd.DataFrame(parts)


def shapes(root: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Return two measures of each evaluation of LiveCodeBench v6 with 100 samples or more a
    problem: slope_b, the exponent of the fit to its pass@k (Fig. 6 left), and solve_rates_apart,
    the percent of problems with a solve rate below 0.2 or above 0.8 (Fig. 10; our bounds)."""
    counted = (rows["benchmark"] == V6) & (rows["metric"] == "pass@100")
    names, parts = ["table", "model", "method", "seed", "step", "run_id"], []
    for row in rows.loc[counted, names].to_dict("records"):
        path = root / "fade" / row["run_id"] / "counts.csv"
        if not path.exists():  # as of the log of a run whose folder is elsewhere
            continue
        counts = read_csv(path, COUNTS)
        ks, values = curves(counts)
        rate = counts["c"] / counts["n"]
        found = {"slope_b": fit_power_law(ks, values.mean(0)[None])[0, 1]}
        found["solve_rates_apart"] = 100 * ((rate < 0.2) | (rate > 0.8)).mean()
        row |= {"table": f"{row['table']}, logged", "benchmark": "training"}
        parts += [row | {"metric": name, "value": value} for name, value in found.items()]
    return pd.DataFrame(parts)


def table10(root: Path) -> list[pd.DataFrame]:
    measured = root / "fade" / "hidden_states" / "residuals.csv"
    if not measured.exists():
        return []
    ratio = pd.read_csv(measured)["rho_ratio"].agg(["min", "max"])
    metrics = "perpendicular_correlation_ratio_" + ratio.index
    return [plain("table10", "correct vs failed", None, metrics, ratio.to_numpy())]


def plain(table: str, method, benchmark, metric, value) -> pd.DataFrame:
    row = {"table": table, "method": method, "benchmark": benchmark, "metric": metric}
    return pd.DataFrame(row | {"value": value})


def exact_rows(root: Path) -> list[pd.DataFrame]:
    """Return the rows of the exact tables; [] where `python -m papers.fade.theory` has not run.

    masses      "rho_off", the largest |rho q / p - 1| over the sign-balanced methods and all p, and
                "closed_form_off", for each method ("name (params)") the largest |exact - closed
                form| of either mass; both for each G
    entropy     `entropy.summary`, with methods named "delta=0.5"
    scaling     for each density at the largest k the ratio to the asymptote, or for a rapidly
                decaying density the slope
    multi_turn  for each reading the largest distance of the simulated mass from the exact one in
                standard errors
    """
    home = root / "fade"
    if not (home / "theory" / "multi_turn.csv").exists():  # the last one that is written
        return []
    names = ("masses", "table8", "sec14", "kish")
    masses, signal, best, kish = (pd.read_csv(home / "weights" / f"{name}.csv") for name in names)
    names = ("entropy_summary", "scaling", "multi_turn")
    summary, laws, turns = (pd.read_csv(home / "theory" / f"{name}.csv") for name in names)

    params = masses["params"].fillna("")
    name = masses["method"] + (" (" + params + ")").where(params != "", "")
    masses["G"] = "G=" + masses["G"].map("{:g}".format)
    off = (masses["m_S"] - masses["closed_form_m_S"]).abs()
    off = off.combine((masses["m_F"] - masses["closed_form_m_F"]).abs(), max)
    by_method = off.groupby([name.rename("name"), masses["G"]]).max().dropna().reset_index()
    at = by_method["G"]
    parts = [plain("masses", by_method["name"], at, "closed_form_off", by_method[0])]
    balanced = masses[masses["method"].isin(BALANCED)].dropna(subset=["rho"])
    ratio = (balanced["rho"] * (1 - balanced["p"]) / balanced["p"] - 1).abs()
    worst = ratio.groupby(balanced["G"]).max()
    parts.append(plain("masses", "sign-balanced", worst.index, "rho_off", worst.to_numpy()))
    at = "G=" + signal["G"].astype(str) + ", p=" + signal["p"].map("{:g}".format)
    for metric in ("multiplier", "easing"):
        parts.append(plain("table8", "Power (alpha=3)", at, metric, signal[metric]))
    at, size = "c=" + best["c"].map("{:g}".format), "G=" + best["G"].astype(str)
    for metric in ("alpha", "sweet_spot"):
        parts.append(plain("sec14", size, at, metric, best[metric]))
    name = "alpha=" + kish["alpha"].map("{:g}".format)
    parts.append(plain("kish", name, "uniform", "N_eff", kish["N_eff"]))

    summary["method"] = "delta=" + summary["delta"].map("{:g}".format)
    long = summary.drop(columns="delta").melt("method", var_name="metric")
    parts.append(plain("entropy", long["method"], "tabular softmax", long["metric"], long["value"]))
    end = laws[laws["k"] == laws["k"].max()]
    power, rapid = end.dropna(subset=["b"]), end[end["b"].isna()]
    parts.append(plain("scaling", power["density"], "k=1e6", "ratio", power["ratio"]))
    parts.append(plain("scaling", rapid["density"], "k=1e6", "slope", rapid["slope"]))
    spread = turns["stderr_2"].where(turns["stderr_2"] > 0)  # 0: turn 2 never happened
    off = ((turns["m_2"] - turns["retry"]).abs() / spread).groupby(turns["reading"]).max()
    parts.append(plain("multi_turn", off.index, "retry", "stderrs_off", off.to_numpy()))
    return parts
