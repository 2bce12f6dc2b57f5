"""How stable the entropy of laptop runs is (Fig. 1), from their training logs.

`gather` writes <root>/cov_grpo/laptop/{training,stability}.csv from the run folders; where these
are not there, tables that came without them are kept.
"""

from pathlib import Path

import pandas as pd

from common.comparison import gather as gather_module
from common.comparison.gather import LAPTOP
from common.results.columns import COLUMNS
from common.results.files import write_csv

BLOCK = 10  # training steps that one point of the curve is the mean of
HORIZON = 100  # Table 5's training steps; Table 3's checkpoints are 1, 1.5 and 2 times it
CURVES = ["table", "method", "seed", "step", "entropy", "reward", "active_groups"]


def gather(root: Path) -> None:
    """Measure every finished run that `common.comparison.gather.gather` has found."""
    runs = gather_module.runs(gather_module.read(root, "cov_grpo", LAPTOP)[0])
    curves, measured = [], []
    for run_id, run in runs.iterrows():
        path = root / "cov_grpo" / run_id / "metrics.jsonl"
        if not path.exists() or run["step"] == 0:
            continue
        log = pd.read_json(path, lines=True)
        curves.append(blocks(log).assign(**run[["table", "method", "seed"]]))
        own = [
            dict(benchmark="training", metric=metric, value=value, unit="nats")
            for metric, value in stability(log).items()
        ]
        own = pd.DataFrame(own).assign(**run, run_id=run_id)
        measured.append(own.reindex(columns=COLUMNS))
    target = root / "cov_grpo" / LAPTOP
    if curves:
        write_csv(target / "training.csv", pd.concat(curves, ignore_index=True)[CURVES])
        write_csv(target / "stability.csv", pd.concat(measured, ignore_index=True))


def blocks(log: pd.DataFrame) -> pd.DataFrame:
    """entropy (nats a token, exact, of the rollouts' policy), reward, active_groups: means of BLOCK
    steps under the block's last step."""
    means = log.groupby((log["step"] - 1) // BLOCK).agg(
        step=("step", "max"),
        entropy=("entropy", "mean"),
        reward=("reward", "mean"),
        active_groups=("active_groups", "mean"),
    )
    return means.reset_index(drop=True)


def stability(log: pd.DataFrame) -> dict[str, float]:
    """The paper calls entropy unstable by eye (Fig. 1: low near step 150, high near 200). Ours, on
    the block means, in nats; fixed before anything was run:

    entropy_range  largest minus smallest, from the horizon on (all steps of a shorter run)
    entropy_swing  largest rise after a low, max_t H_t - min_{s<=t} H_s, over all steps
    entropy_drop   first block minus the smallest: collapse
    entropy_jitter mean |H_{t+1} - H_t| of single steps
    entropy_end    the last block
    """
    curve = blocks(log)
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
    """A table that `gather` wrote; empty if there is none."""
    path = root / "cov_grpo" / LAPTOP / f"{name}.csv"
    return (
        pd.read_csv(path)
        if path.exists()
        else pd.DataFrame(columns=CURVES if name == "training" else COLUMNS)
    )
