"""Stability of the entropy of laptop runs (Fig. 1), from their training logs.

`measure` writes <root>/cov_grpo/laptop/{training,stability}.csv.gz from the run folders. Without
run folders, tables that are already stored are kept.
"""

from pathlib import Path

import pandas as pd

from common.comparison import training
from common.comparison.gather import LAPTOP, Gathered
from common.results.columns import COLUMNS

HORIZON = 100  # training steps of Table 5; Table 3's checkpoints are at 1, 1.5 and 2 times this
# the entropy is exact, in nats per token, on the rollouts
LOGGED = ["entropy", "reward", "active_groups"]
CURVES = ["table", "method", "seed", "step", *LOGGED]


def measure(root: Path, runs: Gathered) -> None:
    """Write the training curves and the stability of the entropy of every finished run."""
    rows = runs.rows
    curves, measured = [], []
    for run, log in training.logs(root, "cov_grpo", rows):
        curves.append(training.blocks(log, LOGGED).assign(**run[["table", "method", "seed"]]))
        values = [
            dict(benchmark="training", metric=metric, value=value, unit="nats")
            for metric, value in stability(log).items()
        ]
        values = pd.DataFrame(values).assign(**run, run_id=run.name)
        measured.append(values.reindex(columns=COLUMNS))
    target = root / "cov_grpo" / LAPTOP
    training.keep(target / "training.csv.gz", curves, CURVES)
    training.keep(target / "stability.csv.gz", measured, COLUMNS)


def stability(log: pd.DataFrame) -> dict[str, float]:
    """Return measures of how stable the entropy of one run is, in nats.

    The paper calls entropy unstable by eye (Fig. 1: low near step 150, high near 200). These
    measures are ours and were fixed before any run. All but entropy_jitter use block means:

    entropy_range  largest minus smallest block after the horizon; a run that ends by then has its
                   last block alone, so 0
    entropy_swing  largest rise after a low, max_t H_t - min_{s<=t} H_s, over all steps
    entropy_drop   first block minus the smallest: collapse
    entropy_jitter mean |H_{t+1} - H_t| of single steps
    entropy_end    the last block
    """
    curve = training.blocks(log, ["entropy"])
    H = curve["entropy"]
    late = H[curve["step"] > min(HORIZON, curve["step"].max() - 1)]
    return {
        "entropy_range": late.max() - late.min(),
        "entropy_swing": (H - H.cummin()).max(),
        "entropy_drop": H.iloc[0] - H.min(),
        "entropy_jitter": log["entropy"].diff().abs().mean(),
        "entropy_end": H.iloc[-1],
    }


def read(root: Path, name: str) -> pd.DataFrame:
    """Read a table that `measure` wrote; return an empty one if it does not exist."""
    columns = CURVES if name == "training" else COLUMNS
    return training.kept(root / "cov_grpo" / LAPTOP / f"{name}.csv.gz", columns)
