"""Lemma 3.1 against a real model: how often groups of its samples are active and miss the rare
answers.

`measure` writes <root>/f_grpo/laptop/tail_miss.csv from the run folders; where no samples are
stored, a table that came without them is kept.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import gammaln

from common.comparison.gather import LAPTOP, Gathered
from common.results.files import read_jsonl, write_csv

METHODS = ("GRPO (N=2)", "GRPO (N=8)", "GRPO (N=32)")
METHODS += ("F-GRPO (N=8, gamma=0.5)", "F-GRPO (N=8, gamma=1)")
GROUP_SIZES = (2, 4, 8, 16, 32, 64)


def measure(root: Path, runs: Gathered) -> None:
    """Measure the first seed of the base model and of METHODS, natural prompts."""
    rows = runs.rows
    wanted = rows[(rows["seed"] == 1) & rows["method"].isin(["base", *METHODS])]
    frames = []
    for table, method, run_id in wanted[["table", "method", "run_id"]].drop_duplicates().values:
        samples = root / "f_grpo" / run_id / "samples" / "natural.jsonl.gz"
        if samples.exists():
            frames.append(of_samples(samples).assign(table=table, method=method, run_id=run_id))
    if frames:
        write_csv(root / "f_grpo" / LAPTOP / "tail_miss.csv", pd.concat(frames))


def of_samples(samples: Path) -> pd.DataFrame:
    """N, predicted, predicted_stderr, measured, measured_stderr, active; means over problems.

    Rare-correct answers are those that use `*`. The samples of a problem are split in two halves.
    `measured`: disjoint groups of N from the second half, the share that is active without a rare
    answer. `predicted`: Lemma 3.1 from the first half, each of its powers replaced by its unbiased
    estimate, e.g. C(n - r, N) / C(n, N) for (1 - tau)^N with r rare answers among n; plugging in
    tau = r / n instead would be biased upwards for large N.
    """
    frame = pd.DataFrame(read_jsonl(samples))
    frame["correct"] = frame["outcome"] == "correct"
    frame["rare"] = frame["correct"] & frame["parsed"].fillna("").str.contains("*", regex=False)
    shape = (frame["problem_id"].nunique(), -1)
    correct, rare = (frame[name].to_numpy().reshape(shape) for name in ("correct", "rare"))
    half = correct.shape[1] // 2
    rows = []
    for N in (size for size in GROUP_SIZES if size <= half // 2):
        predicted = lemma_unbiased(correct[:, :half].sum(1), rare[:, :half].sum(1), half, N)
        groups = half // N
        c, r = (
            flags[:, half : half + groups * N].reshape(-1, groups, N).sum(2)
            for flags in (correct, rare)
        )
        active = (c > 0) & (c < N)
        measured = (active & (r == 0)).mean(1)
        error = lambda values: values.std(ddof=1) / len(values) ** 0.5  # noqa: E731
        rows.append(
            {
                "N": N,
                "predicted": predicted.mean(),
                "predicted_stderr": error(predicted),
                "measured": measured.mean(),
                "measured_stderr": error(measured),
                "difference_stderr": error(measured - predicted),
                "active": active.mean(),
            }
        )
    return pd.DataFrame(rows)


def lemma_unbiased(c: np.ndarray, r: np.ndarray, n: int, N: int) -> np.ndarray:
    """Unbiased estimate of Eq. 11 from n samples with c correct, r of them rare, for groups of N <=
    n.

    (1 - tau)^N - (mu - tau)^N - (1 - mu)^N, each power x^N as the share of groups of N drawn
    without replacement that lie wholly in a set of the given count.
    """
    return _all_inside(n - r, n, N) - _all_inside(c - r, n, N) - _all_inside(n - c, n, N)


def _all_inside(count: np.ndarray, n: int, N: int) -> np.ndarray:
    """C(count, N) / C(n, N), zero where count < N."""
    possible = np.where(count >= N, count, N)
    log = gammaln(possible + 1) - gammaln(possible - N + 1) - gammaln(n + 1) + gammaln(n - N + 1)
    return np.where(count >= N, np.exp(log), 0.0)
