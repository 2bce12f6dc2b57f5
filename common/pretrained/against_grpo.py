"""Each method's pass@k minus GRPO's on the same seeds and problems: what the seeds of a scale can
show, and how large a difference must be for them to show it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from common.metrics.bootstrap import holm
from common.metrics.paired import two_way_interval
from common.metrics.passk import pass_at_k
from common.sweeps.plan import BASE

GRPO, LEVEL = "GRPO", 0.05
COLUMNS = ["method", "benchmark", "k", "difference", "low", "high", "p", "detectable", "n_seeds"]


def against_grpo(counts: pd.DataFrame, ks: list[int]) -> pd.DataFrame:
    """Return COLUMNS, in points: the difference over the seeds that both methods have on the same
    problems, with a 95 % interval over seeds and problems that is not corrected. p is, over the
    methods of a k (Holm). detectable: the smallest difference that such runs show four times in
    five, without the correction. It is missing where all differences are alike, such as those of
    methods that both solve everything: they have no spread to judge by. A method with fewer than
    two such seeds has no row.

    counts: as in `crossing`.
    """
    rows = []
    for benchmark, here in counts.groupby("benchmark", sort=False):
        pass_k = {
            key: pd.DataFrame(100 * pass_at_k(one["c"], one["n"], ks), index=one["problem_id"])
            for key, one in here.sort_values("problem_id").groupby(["method", "seed"], sort=False)
        }
        grpo = {seed: values for (method, seed), values in pass_k.items() if method == GRPO}
        for method in [name for name in here["method"].unique() if name not in (BASE, GRPO)]:
            pairs = [(pass_k[m, seed], grpo.get(seed)) for m, seed in pass_k if m == method]
            same = [x - y for x, y in pairs if y is not None and x.index.equals(y.index)]
            if len(same) < 2:
                continue
            difference = np.stack(same)  # (S, P, K)
            for at, k in enumerate(ks):
                interval = two_way_interval(difference[:, :, at])
                needed = interval.detectable() if interval.stderr > 0 else np.nan
                numbers = [interval.value, *interval.bounds(), interval.p(), needed]
                rows.append([method, benchmark, k, *numbers, len(same)])
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.assign(p=table.groupby(["benchmark", "k"])["p"].transform(holm))


def markdown(table: pd.DataFrame) -> str:
    """Return the table as markdown: a line per method and benchmark, a column per k."""
    from common.results.tables import markdown as to_markdown

    if table.empty:
        return ""
    lines = []
    for (method, benchmark), one in table.groupby(["method", "benchmark"], sort=False):
        cells = one.sort_values("k").apply(_cell, axis=1)
        lines.append([method, benchmark, str(one["n_seeds"].iloc[0]), *cells])
    ks = sorted(table["k"].unique())
    head = ["method", "benchmark", "seeds", *(f"pass@{k}" for k in ks)]
    return (
        "\n## Minus GRPO\n\n"
        "Points, with a 95 % interval over problems and seeds. * marks a difference from 0 at "
        f"p < {LEVEL} that is corrected over the methods of the column (Holm). The last number is "
        "the smallest difference that such runs show four times in five before that correction.\n\n"
        + to_markdown(head, lines, "llr" + "r" * len(ks))
    )


def _cell(row: pd.Series) -> str:
    if np.isnan(row.detectable):
        return f"{row.difference:+.1f}; no spread"
    star = " *" if row.p < LEVEL else ""
    interval = f"[{row.low:+.1f}, {row.high:+.1f}]"
    return f"{row.difference:+.1f} {interval}{star}; {row.detectable:.1f}"
