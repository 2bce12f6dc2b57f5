"""A benchmark's metrics from its samples compared with verl's validation metrics, 500 problems x
256."""

from importlib import util
from statistics import median

import numpy as np
import pandas as pd

from bench import MISSING_VERL, row, timed
from common.metrics.report import from_counts, from_samples

PROBLEMS, N, SHARE = 500, 256, 125  # verl runs 1/125 of the problems; its time counts 125 times
KS = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def run(rounds: int = 3) -> list[dict]:
    """Return the milliseconds from all samples' verdicts to the metrics, without and with their
    answers.

    verl computes mean, std, best and worst of 2..256 by 1000 bootstrap samples per problem, and a
    majority vote if there are answers. It takes problem after problem, so a few of them tell the
    time of all. Ours counts the verdicts, then calls `from_counts`, and with answers `from_samples`
    too.
    """
    samples = made()
    few = samples[samples["problem_id"].isin(samples["problem_id"].unique()[: PROBLEMS // SHARE])]
    rows = []
    for answers in (False, True):
        ours = [timed(lambda answers=answers: report(samples, answers)) for _ in range(rounds)]
        name = (
            f"validation metrics, {PROBLEMS} problems x {N}, {'with' if answers else 'no'} answers"
        )
        peer, note = None, MISSING_VERL
        if util.find_spec("verl"):
            note = f"peer: process_validation_metrics, {PROBLEMS // SHARE} problems, time x {SHARE}"
            peer = 1e3 * SHARE * median(timed_verl(few, answers) for _ in range(rounds))
        rows.append(row(name, 1e3 * median(ours), peer, "ms", note))
    return rows


def made() -> pd.DataFrame:
    """Return samples of problems of all difficulties; a wrong sample has one of many wrong
    answers."""
    rng = np.random.default_rng(0)
    p = np.repeat(rng.beta(0.5, 0.5, PROBLEMS), N)
    right = rng.random(len(p)) < p
    parsed = np.where(right, "right", [f"wrong {i}" for i in rng.geometric(0.15, len(p))])
    outcome = np.where(right, "correct", "wrong")
    problems = [f"problem {i}" for i in np.repeat(np.arange(PROBLEMS), N)]
    frame = {"problem_id": problems, "outcome": outcome, "parsed": parsed}
    return pd.DataFrame(frame | {"log_prob": None, "tokens": None})


def report(samples: pd.DataFrame, answers: bool) -> None:
    right = samples["outcome"].eq("correct").groupby(samples["problem_id"], sort=False)
    counts = right.agg(n="size", c="sum").reset_index().assign(benchmark="b")
    from_counts(counts, KS)
    if answers:
        from_samples(samples, "b", KS)


def timed_verl(samples: pd.DataFrame, answers: bool) -> float:
    from verl.trainer.ppo.metric_utils import process_validation_metrics

    infos = {"reward": samples["outcome"].eq("correct").astype(float).tolist()}
    if answers:
        infos["pred"] = samples["parsed"].tolist()
    uids = samples["problem_id"].tolist()
    return timed(lambda: process_validation_metrics(["b"] * len(uids), uids, infos))
