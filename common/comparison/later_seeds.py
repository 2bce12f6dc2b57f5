"""Check whether later seeds show what earlier ones showed: every method's difference from its
paper's baseline, over the seeds up to `after` and over the seeds above it.

    rlvr later-seeds [results_dir=results/reference] [after=5]

Later seeds start from other base models and ran on another processor (docs/evidence.md), so this
checks both at once. Runs are read as for claims, as the mean of the last three checkpoints, and
paired by seed. Only `laptop_strong` methods with at least three earlier and two later seeds are
compared. p is from Welch's test between the two groups of seeds, not corrected. The command prints
a table and, for each measure, how many differ at p < 0.05, and the correlation of earlier with
later differences over methods.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import ttest_ind

from common.claims.file import LAPTOP
from common.claims.judge import LAST
from common.comparison.gather import read
from common.comparison.matched import ACCURACY, DIVERSITY
from common.comparison.spec import spec_of
from common.config.words import options
from common.errors import require
from common.results.tables import markdown

COLUMNS = ["paper", "method", "measure", "earlier", "later", "p"]
LEAST = (3, 2)  # least numbers of earlier and of later seeds


def differences(rows: pd.DataFrame, baseline: str, after: int) -> pd.DataFrame:
    """Return COLUMNS without `paper`, in points, from the gathered rows of a paper's runs."""
    found = []
    for benchmark, metric in (DIVERSITY, ACCURACY):
        of = (rows["benchmark"] == benchmark) & (rows["metric"] == metric)
        part = rows[of & (rows["table"] == f"{LAPTOP}_strong") & (rows["step"] > 0)]
        ends = part.sort_values("step").groupby(["method", "seed"])["value"].apply(_end)
        wide = ends.unstack("seed")
        if baseline not in wide.index:
            continue
        for method, gap in (wide.drop(index=baseline) - wide.loc[baseline]).iterrows():
            gap = gap.dropna()
            groups = gap[gap.index <= after], gap[gap.index > after]
            if all(len(group) >= least for group, least in zip(groups, LEAST, strict=True)):
                p = ttest_ind(*groups, equal_var=False).pvalue
                means = (group.mean() for group in groups)
                found.append((method, f"{benchmark} {metric}", *means, p))
    return pd.DataFrame(found, columns=COLUMNS[1:])


def _end(values: pd.Series) -> float:
    return values.iloc[-LAST:].mean()


def main(words: list[str]) -> None:
    given = options(words, {"results_dir": "results/reference", "after": "5"})
    root, after = Path(given["results_dir"]), given["after"]
    require(after.isdecimal(), "after", after, "give a seed, as 5")
    frames = []
    for path in sorted(root.glob(f"*/{LAPTOP}/metrics.csv.gz")):
        paper = path.parent.parent.name
        baseline = spec_of(paper).baseline
        frame = differences(read(root, paper, LAPTOP)[0], baseline, int(after))
        frames.append(frame.assign(paper=paper))
    require(bool(frames), "results_dir", str(root), f"has no {LAPTOP}/metrics.csv.gz of a paper")
    table = pd.concat(frames)[COLUMNS]
    shown = table.assign(
        **{name: table[name].map("{:+.1f}".format) for name in ("earlier", "later")},
        p=table["p"].map("{:.2g}".format),
    )
    print(markdown(COLUMNS, shown.to_numpy().tolist(), "lllrrr"))
    for measure, part in table.groupby("measure"):
        r = np.corrcoef(part["earlier"], part["later"])[0, 1]
        few = (part["p"] < 0.05).sum()
        print(f"{measure}: {few} of {len(part)} differ at p < 0.05, correlation {r:.2f}")
