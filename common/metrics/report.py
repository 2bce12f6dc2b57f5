"""All metrics of a benchmark as tidy rows with intervals: from counts alone, and from samples.

The columns are the ones of `passk.report`, followed by low and high: a 95 % interval over resampled
problems (`bootstrap.resampled_means`).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from common.errors import UserError
from common.metrics import passk
from common.metrics.bootstrap import percentile_interval, resampled_means
from common.metrics.fits import fit_beta, fit_power_law, power_law
from common.metrics.samples import answer_entropy, maj_at_k, token_entropy

COLUMNS = ["benchmark", "metric", "k", "value", "unit", "stderr", "n_problems", "n_samples"]
COLUMNS += ["low", "high"]
DRAWS, REFITS = 2000, 500  # bootstrap samples, and how many of them get a fitted curve


def from_counts(counts: pd.DataFrame, ks: Sequence[int], *, seed: int = 0) -> pd.DataFrame:
    """Return the rows of each benchmark from its counts (benchmark, problem_id, n, c).

    pass@k                   unbiased, percent
    avg@n                    mean accuracy of all n samples, percent: pass@1 under its other name
    power_law_{a,b,c,rmse}   fit of exp(-a (k + c)^-b) over these k, if there are 4 or more; rmse in
                             percent, the intervals from fits to the curves of the bootstrap
    beta_{a,b}               fit of BetaBin(n, a, b) to the counts
    beta_mixture_{weight,a1,b1,a2,b2}   fit of a mixture; weight is that of the harder component

    A fit that the counts do not determine (all right, all wrong) has no rows. Raises UserError as
    `passk.report` does.
    """
    frames = []
    for benchmark, group in counts.groupby("benchmark", sort=False):
        c, n = group["c"].to_numpy(), passk.check_benchmark(str(benchmark), group)
        rows = passk.report(group, ks)  # first: its errors name the problem
        values = passk.pass_at_k(c, n, ks)
        means = resampled_means(
            np.column_stack([values, passk.avg_at_k(c, n)]), draws=DRAWS, seed=seed
        )
        low, high = percentile_interval(100 * means)
        rows = rows.assign(low=low[:-1], high=high[:-1])
        average = passk.report(group, [1]).assign(low=low[-1], high=high[-1])
        frames += [rows, average.assign(metric=f"avg@{n}", k=n)]
        about = {"benchmark": benchmark, "n_problems": len(group), "n_samples": n}
        fitted = [*_power_law(values, means[:REFITS, :-1], ks), *_beta(c, n)]
        frames.append(pd.DataFrame([about | row for row in fitted]))
    return _tidy(frames)


def _power_law(values: np.ndarray, means: np.ndarray, ks: Sequence[int]) -> list[dict]:
    if len(set(ks)) < 4:
        return []
    curve = values.mean(axis=0)
    fitted = fit_power_law(ks, curve)[0]
    if np.isnan(fitted).any():
        return []
    low, high = percentile_interval(fit_power_law(ks, means))
    rows = [
        {"metric": f"power_law_{name}", "value": fitted[i], "low": low[i], "high": high[i]}
        for i, name in enumerate("abc")
    ]
    rmse = 100 * np.sqrt(((power_law(ks, *fitted) - curve) ** 2).mean())
    return [*rows, {"metric": "power_law_rmse", "value": rmse, "unit": "percent"}]


def _beta(c: np.ndarray, n: int) -> list[dict]:
    try:
        one, two = fit_beta(c, n), fit_beta(c, n, components=2)
    except UserError:
        return []
    values = {"beta_a": one.a[0], "beta_b": one.b[0], "beta_mixture_weight": two.weight[0]}
    for i in (0, 1):
        values |= {f"beta_mixture_a{i + 1}": two.a[i], f"beta_mixture_b{i + 1}": two.b[i]}
    return [{"metric": metric, "value": value} for metric, value in values.items()]


def from_samples(
    rows: pd.DataFrame, benchmark: str, ks: Sequence[int], *, seed: int = 0
) -> pd.DataFrame:
    """Return the rows of one benchmark that need its samples, which have the columns
    `common.evaluation.samples.COLUMNS`.

    maj@k                        majority vote over parsed answers, percent
    answer_entropy               bits (two_stage App. C.5)
    token_entropy_per_response   nats, mean over responses of their means (two_stage App. C.5);
                                 no row if log-probabilities are missing
    token_nll_per_response       nats, the same from raw_log_prob (of samples drawn with top-p). It
                                 is the entropy of the model's own distribution without the part
                                 that the nucleus leaves out, so too low; no row if it is missing
    """
    answers = rows["parsed"].where(rows["parsed"].notna(), None)
    right = rows["outcome"] == "correct"
    votes = maj_at_k(rows["problem_id"], answers, right, ks, seed=seed)
    columns = [(f"maj@{k}", k, "percent", 100 * votes[:, i]) for i, k in enumerate(ks)]
    entropy = answer_entropy(rows["problem_id"], answers)
    columns.append(("answer_entropy", None, "bits", entropy))
    named = {"log_prob": "token_entropy_per_response", "raw_log_prob": "token_nll_per_response"}
    for column, metric in named.items():
        if column in rows and rows[[column, "tokens"]].notna().all(axis=None):
            nats = token_entropy(rows["problem_id"], rows[column], rows["tokens"])
            columns.append((metric, None, "nats", nats))
    return _by_problem(columns, rows, benchmark, seed)


def from_scores(rows: pd.DataFrame, benchmark: str, *, seed: int = 0) -> pd.DataFrame:
    """Return the rows of one benchmark from a model's scores of its samples
    (evaluation/scoring.py): problem_id, tokens, log_prob, entropy. Both metrics are means over
    responses of their means over tokens.

    exact_token_entropy   of H(p_t), the model's own next token, temperature 1 (two_stage App. C.5)
    exact_token_nll       of -log p of the token that was drawn
    """
    columns = [
        (metric, None, "nats", token_entropy(rows["problem_id"], sums, rows["tokens"]))
        for metric, sums in (
            ("exact_token_entropy", -rows["entropy"]),
            ("exact_token_nll", rows["log_prob"]),
        )
    ]
    return _by_problem(columns, rows, benchmark, seed)


def _by_problem(
    columns: list[tuple], rows: pd.DataFrame, benchmark: str, seed: int
) -> pd.DataFrame:
    """Return a row per (metric, k, unit, values per problem), with an interval over problems."""
    values = np.column_stack([column[-1] for column in columns])
    low, high = percentile_interval(resampled_means(values, draws=DRAWS, seed=seed))
    mean, stderr = passk.mean_and_stderr(values)
    frame = pd.DataFrame([column[:3] for column in columns], columns=["metric", "k", "unit"])
    samples = rows.groupby("problem_id").size().min()
    return _tidy(
        [
            frame.assign(
                benchmark=benchmark,
                value=mean,
                stderr=stderr,
                n_problems=len(values),
                n_samples=samples,
                low=low,
                high=high,
            )
        ]
    )


def _tidy(frames: list[pd.DataFrame]) -> pd.DataFrame:
    parts = [frame.reindex(columns=COLUMNS) for frame in frames if len(frame)]
    return pd.concat([part.astype({"k": "Int64"}) for part in parts], ignore_index=True)
