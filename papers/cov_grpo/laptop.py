"""How stable the entropy of laptop runs is (Fig. 1), from their training logs.

`measure` writes <root>/cov_grpo/laptop/{training,stability}.csv from the run folders; where these
are not there, tables that came without them are kept.
"""

from pathlib import Path

import pandas as pd

from common.comparison import training
from common.comparison.gather import LAPTOP, Gathered
from common.results.columns import COLUMNS

HORIZON = 100  # Table 5's training steps; Table 3's checkpoints are 1, 1.5 and 2 times it
LOGGED = ["entropy", "reward", "active_groups"]  # entropy: nats a token, exact, of the rollouts
CURVES = ["table", "method", "seed", "step", *LOGGED]


def measure(root: Path, runs: Gathered) -> None:
    """Measure every finished run."""
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
    training.keep(target / "training.csv", curves, CURVES)
    training.keep(target / "stability.csv", measured, COLUMNS)


def stability(log: pd.DataFrame) -> dict[str, float]:
    """The paper calls entropy unstable by eye (Fig. 1: low near step 150, high near 200). Ours, on
    the block means, in nats; fixed before anything was run:

    entropy_range  largest minus smallest, from the horizon on (all steps of a shorter run)
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
    """A table that `measure` wrote; empty if there is none."""
    columns = CURVES if name == "training" else COLUMNS
    return training.kept(root / "cov_grpo" / LAPTOP / f"{name}.csv", columns)
