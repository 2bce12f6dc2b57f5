"""pass@k after the last step, the papers' measure, against the base model."""

import numpy as np
import pandas as pd

from common.claims.gaps import MIN_SEEDS
from common.metrics.paired import two_way_interval
from common.metrics.passk import pass_at_k
from papers.yardstick.curves import require_same_problems
from papers.yardstick.protocol import BASE, DEV, LAST_KS

COLUMNS = [
    *["rate", "method", "benchmark", "metric", "value", "low", "high"],
    *["difference", "difference_low", "difference_high", "p", "n_seeds"],
]


def against_base(rows: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Return COLUMNS: pass@k (percent) of each method at each learning rate after its last step,
    with an interval of the share (`Interval.of_share`), and its difference from the base models of
    the same seeds, in points. Test prompts alone; no interval for fewer than three seeds. Raises
    UserError as `require_same_problems`."""
    require_same_problems(counts)
    runs = rows.groupby("run_id", sort=False)[["table", "method", "seed"]].first()
    last = counts[counts["step"] == counts.groupby("run_id")["step"].transform("max")]
    last = last[~last["benchmark"].str.startswith(DEV)]
    found = []
    for benchmark, part in last.sort_values("problem_id").groupby("benchmark"):
        shares = {
            run_id: 100 * pass_at_k(one["c"].to_numpy(), one["n"].to_numpy(), LAST_KS)
            for run_id, one in part.groupby("run_id")
        }
        named = runs[runs.index.isin(shares)]
        base = named[named["method"] == BASE]
        start = {seed: shares[run_id] for run_id, seed in base["seed"].items()}
        trained = named[(named["method"] != BASE) & named["seed"].isin(start)]
        for (rate, method), group in trained.groupby(["table", "method"], sort=False):
            x = np.stack([shares[run_id] for run_id in group.index])  # (S, P, K)
            gap = x - np.stack([start[seed] for seed in group["seed"]])
            about = {"rate": rate, "method": method, "benchmark": benchmark}
            for i, k in enumerate(LAST_KS):
                row = about | {"metric": f"pass@{k}", "n_seeds": len(group)}
                found.append(row | _numbers(x[..., i], gap[..., i]))
    return pd.DataFrame(found, columns=COLUMNS)


def _numbers(x: np.ndarray, gap: np.ndarray) -> dict[str, float]:
    numbers = {"value": x.mean(), "difference": gap.mean()}
    if len(x) < MIN_SEEDS:
        return numbers
    low, high = two_way_interval(x).of_share(x.shape[1])
    interval = two_way_interval(gap)
    ends = dict(zip(("difference_low", "difference_high"), interval.bounds(), strict=True))
    return numbers | {"low": low, "high": high, "p": interval.p()} | ends
