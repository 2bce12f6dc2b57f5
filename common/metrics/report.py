"""All metrics of a benchmark as tidy rows with intervals: from counts, and from samples.

The columns are `passk.report`'s, then low and high: a 95 % interval over resampled problems
(`bootstrap.resampled_means`). Where all problems have the same value, a percentage has Wilson's
interval and other numbers have none; a single problem has none.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from common.metrics import passk
from common.metrics.bootstrap import percentile_interval, resampled_means, wilson_interval
from common.metrics.samples import answer_entropy, token_entropy

COLUMNS = ["benchmark", "metric", "k", "value", "unit", "stderr", "n_problems", "n_samples"]
COLUMNS += ["low", "high"]
DRAWS = 2000  # bootstrap samples


def from_counts(counts: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    """Return the rows of one benchmark from its counts (benchmark, problem_id, n, c): pass@k
    (unbiased, percent) and avg@n, the mean accuracy of all n samples. Raises UserError as
    `passk.report` does."""
    rows = passk.report(counts, ks)  # first: its errors name the problem
    average = passk.report(counts, [1])
    n = int(average["n_samples"].iloc[0])
    rows = pd.concat([rows, average.assign(metric=f"avg@{n}", k=n)], ignore_index=True)
    values = 100 * passk.pass_at_k(counts["c"].to_numpy(), n, [*ks, 1])
    return _with_interval(rows, values)


def from_samples(rows: pd.DataFrame, benchmark: str) -> pd.DataFrame:
    """Return the rows of one benchmark that need its samples, which have the columns
    `common.evaluation.samples.COLUMNS`. A metric whose column is missing has no row.

    answer_entropy               bits (two_stage App. C.5)
    token_entropy_per_response   nats, mean over responses of their means (two_stage App. C.5)
    token_nll_per_response       nats, the same from raw_log_prob (samples drawn with top-p): the
                                 entropy of the model's distribution without the part that the
                                 nucleus leaves out, so too low
    """
    answers = rows["parsed"].where(rows["parsed"].notna(), None)
    columns = [("answer_entropy", "bits", answer_entropy(rows["problem_id"], answers))]
    named = {"log_prob": "token_entropy_per_response", "raw_log_prob": "token_nll_per_response"}
    for column, metric in named.items():
        if column in rows and rows[[column, "tokens"]].notna().all(axis=None):
            nats = token_entropy(rows["problem_id"], rows[column], rows["tokens"])
            columns.append((metric, "nats", nats))
    return _by_problem(columns, rows, benchmark)


def from_scores(rows: pd.DataFrame, benchmark: str) -> pd.DataFrame:
    """Return the rows of one benchmark from a model's scores of its samples
    (evaluation/scoring.py): problem_id, tokens, log_prob, entropy and, for samples drawn at a
    temperature other than 1, drawn_entropy. All metrics are means over responses of their means
    over tokens.

    exact_token_entropy   of H(p_t), the model's own next token, temperature 1 (two_stage App. C.5)
    exact_token_nll       of -log p of the token that was drawn
    exact_drawn_entropy   of H(p_t) at the temperature at which the samples were drawn
    """
    sums = {"exact_token_entropy": -rows["entropy"], "exact_token_nll": rows["log_prob"]}
    if "drawn_entropy" in rows:
        sums["exact_drawn_entropy"] = -rows["drawn_entropy"]
    columns = [
        (metric, "nats", token_entropy(rows["problem_id"], one, rows["tokens"]))
        for metric, one in sums.items()
    ]
    return _by_problem(columns, rows, benchmark)


def _by_problem(columns: list[tuple], rows: pd.DataFrame, benchmark: str) -> pd.DataFrame:
    values = np.column_stack([column[-1] for column in columns])
    mean, stderr = passk.mean_and_stderr(values)
    frame = pd.DataFrame([column[:2] for column in columns], columns=["metric", "unit"])
    frame = frame.assign(benchmark=benchmark, value=mean, stderr=stderr, n_problems=len(values))
    return _with_interval(frame.assign(n_samples=rows.groupby("problem_id").size().min()), values)


def _with_interval(rows: pd.DataFrame, values: np.ndarray) -> pd.DataFrame:
    low, high = percentile_interval(resampled_means(values, draws=DRAWS, seed=0))
    alike = np.isnan(low) & (rows["unit"] == "percent").to_numpy() & (len(values) > 1)
    shares = np.clip(values[0, alike] / 100, 0, 1)
    low[alike], high[alike] = (100 * end for end in wilson_interval(shares, len(values)))
    return rows.assign(low=low, high=high).reindex(columns=COLUMNS).astype({"k": "Int64"})
