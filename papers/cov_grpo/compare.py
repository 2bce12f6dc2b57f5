"""The result rows of CW-GRPO that come from training logs and from the covariance statistics."""

from pathlib import Path

import pandas as pd

from common.comparison.spec import matches, spec_of
from common.comparison.training import blocks, logged
from common.results.files import read_csv
from papers.cov_grpo.covariance.formulas import agreement

HORIZON = 100  # training steps of Table 5; Table 3's checkpoints are at 1, 1.5 and 2 times this
TRACKED = 50  # first steps of GRPO, whose covariances Fig. 3 and Table 1 show (sec 2.2)
SEC22 = {"model": "DeepSeek-R1-Distill-Qwen-1.5B", "method": "GRPO"}  # the run that it tracks


def stability(log: pd.DataFrame) -> dict[str, float]:
    """Return measures of how stable the entropy of one run is, in nats.

    The paper calls entropy unstable by eye (Fig. 1: low near step 150, high near 200). These
    measures are ours and were fixed before any run. All but entropy_jitter use block means:

    entropy_range  largest minus smallest block after the horizon; a run that ends by then has its
                   last block alone, so 0
    entropy_swing  largest rise after a low, max_t H_t - min_{s<=t} H_s, over all steps
    entropy_change |last block minus first|, whether it rises or falls
    entropy_jitter mean |H_{t+1} - H_t| of single steps
    """
    curve = blocks(log, ["entropy"])
    H = curve["entropy"]
    late = H[curve["step"] > min(HORIZON, curve["step"].max() - 1)]
    return {
        "entropy_range": late.max() - late.min(),
        "entropy_swing": (H - H.cummin()).max(),
        "entropy_change": abs(H.iloc[-1] - H.iloc[0]),
        "entropy_jitter": log["entropy"].diff().abs().mean(),
    }


def tracked(log: pd.DataFrame) -> dict[str, float]:
    """Return the means over the first TRACKED steps of what a run logs of its covariances
    (common/losses/contributions.py), each over that step's tokens."""
    columns = [name for name in log if name.startswith("covariance_")]
    return log.loc[log["step"] <= TRACKED, columns].mean().dropna().to_dict()


def logged_rows(root: Path, rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return how stable the entropy of the cluster runs is and how their covariances are spread, in
    tables such as "table2, logged", and Table 1, whose magnitudes are read as the thresholds that a
    share of the tokens reaches (INC032)."""
    found = logged(root, "cov_grpo", rows, lambda log: stability(log) | tracked(log))
    at = found["metric"].str.extract("covariance_(.+)_at_(.+)")
    share = at[1].astype(float).map("percentile {:.2%}".format)
    printed = found.assign(table="table1", metric=at[0] + "_covariance", benchmark=share)
    return [found, printed[at[0].notna() & matches(found, SEC22)]]


def covariance_rows(root: Path) -> list[pd.DataFrame]:
    """Return the tables of covariance/tables.py as rows of table "covariance", one for each seed.

    method: the mean in the covariance (token, sequence), or the reading of the weights; benchmark:
    "all" or "active" tokens, the kind of a step (plain, adamw), or "weights". "contribution top 1%"
    is in percent of sum |c|, "positive_covariance 1% (threshold)" is Table 1's, and the weights'
    statistics are means over steps. Raises UserError for tables of an older version.
    """
    folder = root / "cov_grpo" / "covariance"
    if not (folder / "steps.csv").exists():
        return []
    names = ("cumulative", "percentiles", "weights", "steps")
    tables = {name: read_csv(folder / f"{name}.csv", ["seed"]) for name in names}
    held = tables["cumulative"]
    held = held.assign(
        metric="contribution top " + percent(held["share"]),
        value=100 * held["contribution"],
        unit="percent",
    )
    at = tables["percentiles"]
    at = at.assign(
        metric=at["side"] + "_covariance " + percent(at["share"]) + " (" + at["reading"] + ")"
    )
    spread = pd.concat([held, at]).rename(columns={"mean": "method", "tokens": "benchmark"})
    weights = tables["weights"].groupby(["seed", "reading"], sort=False).mean()
    weights = weights.drop(columns="step").rename_axis(["seed", "method"]).reset_index()
    weights = weights.melt(["seed", "method"], var_name="metric").assign(benchmark="weights")
    drift = [
        {"seed": seed, "method": "token", "benchmark": kind, "metric": metric, "value": value}
        for seed, steps in tables["steps"].groupby("seed")
        for kind in ("plain", "adamw")
        for metric, value in agreement(steps["predicted"], steps[f"measured_{kind}"]).items()
    ]
    frames = [spread, weights, pd.DataFrame(drift)]
    keep = ["method", "benchmark", "metric", "value", "unit", "seed"]
    return [frame.reindex(columns=keep).assign(table="covariance") for frame in frames]


def percent(share: pd.Series) -> pd.Series:
    return (100 * share).map("{:g}%".format)


def data_set_sizes(root: Path) -> pd.DataFrame:
    """Return Table 4: the number of problems of each test set that this repository evaluates."""
    problems = spec_of("cov_grpo").problems
    frame = pd.DataFrame({"benchmark": list(problems), "value": list(problems.values())})
    return frame.assign(table="table4", model=None, method=None, metric="dataset_size")
