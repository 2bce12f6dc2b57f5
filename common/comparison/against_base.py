"""What RL and a paper's method change in the model that they start from: the numbers on the first
screen of the README.

The key `against_base` in the first entry of claims.yaml names the rows, {table: TABLE, methods:
[METHOD, ...]}, with GRPO first and the paper's method last. A difference and its interval are
computed as for a claim that compares the two (claims/judge.py): over seeds and problems, without a
correction.
"""

import pandas as pd

from common.claims.file import AGAINST_BASE, LAPTOP
from common.claims.judge import judge

COLUMNS = ("method", "benchmark", "metric", "difference", "low", "high", "n_seeds")
BASE = "base"
MEASURES = (("natural", "pass@1"), ("rare", "pass@64"))  # accuracy, diversity


def against_base(about: dict, rows: pd.DataFrame, counts: pd.DataFrame | None) -> pd.DataFrame:
    """Return method minus base, in points, for each method that `about` (the first entry of
    claims.yaml) names: COLUMNS. Rows that were not run are left out."""
    given = about.get(AGAINST_BASE, {"methods": ()})
    pairs, stated = [], []
    for method in given["methods"]:
        for benchmark, metric in MEASURES:
            where = {"table": given["table"], "benchmark": benchmark, "metric": metric}
            order = [{"method": method}, {"method": BASE}]
            asked = {"where": where, "order": order, "relation": ">"}
            name = f"{method} {benchmark}"
            stated.append({"id": name, "claim": name, "source": "", LAPTOP: asked})
            pairs.append({"claim": name, "method": method, "benchmark": benchmark})
    _, gaps, _ = judge(stated, {LAPTOP: rows}, {} if counts is None else {LAPTOP: counts})
    named = pd.DataFrame(pairs, columns=["claim", *COLUMNS[:2]])
    return named.merge(gaps.drop(columns="benchmark"), on="claim")[[*COLUMNS]]
