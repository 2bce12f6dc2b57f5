"""Lemma 3.1 compared with a real model: how often a group of its samples is active (holds both
correct and wrong answers) and yet holds no rare-correct answer.

`measure` writes <root>/f_grpo/laptop/tail_miss.csv from the run folders. Where no run folder has
stored samples, an existing table (such as a committed one) is left as it is.
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
    """Write the tail-miss table of the base model and of METHODS: seed 1, natural prompts."""
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
    """Return one row for each N, with means over problems: N, predicted, predicted_stderr,
    measured, measured_stderr, difference_stderr, active.

    A correct answer that uses `*` counts as rare. The samples of a problem are split into two
    halves. `measured` is the share of disjoint groups of N from the second half that are active
    and hold no rare answer. `predicted` is Lemma 3.1 estimated from the first half. Each of its
    powers is replaced by an unbiased estimate, e.g. (1 - tau)^N by C(n - r, N) / C(n, N) with r
    rare answers among n. Plugging in tau = r / n instead would be biased upwards for large N.
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
    """Return the unbiased estimate of Eq. 11 for groups of N <= n, from n samples of which c are
    correct and r of these rare.

    Eq. 11 is (1 - tau)^N - (mu - tau)^N - (1 - mu)^N. Each power x^N is estimated by the share of
    groups of N, drawn without replacement, that lie wholly in the matching subset: the n - r that
    are not rare, the c - r correct ones that are not rare, the n - c wrong ones.
    """
    return _all_inside(n - r, n, N) - _all_inside(c - r, n, N) - _all_inside(n - c, n, N)


def _all_inside(count: np.ndarray, n: int, N: int) -> np.ndarray:
    """Return C(count, N) / C(n, N), zero where count < N."""
    possible = np.where(count >= N, count, N)
    log = gammaln(possible + 1) - gammaln(possible - N + 1) - gammaln(n + 1) + gammaln(n - N + 1)
    return np.where(count >= N, np.exp(log), 0.0)
