"""How well the laptop testbeds agree with the printed results: method minus baseline, from three
sources.

A row (COLUMNS) is a pair of PAIRS and a measure. Its values are in points:

    published   the mean over models of the mean over their benchmarks, all tables together:
                pass@1 or AVG@8, or the pass@k of the largest k (`k`) that is printed for the pair
    countdown   Subset-Countdown, the mean of the last three checkpoints, as for claims
    mazes       mazes with loops, after the last step

On a testbed "pass@1" is measured on natural prompts, "large k" is pass@64 on rare prompts, and
"large k, natural" is pass@64 on natural prompts. low and high are the bounds of 95 % intervals over
seeds and problems.

Left out are pairs with the base model or with a method that has no laptop rows, Table 3 of CW-GRPO
(later steps of Table 2's runs), printed averages whose benchmarks are printed too, and testbed
differences with fewer than three shared seeds. Signs and ranks ignore all intervals. Pairs share
methods and runs, so they are not independent.
"""

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from common.claims.gaps import MIN_SEEDS
from common.claims.judge import LAST
from common.comparison import layout
from common.comparison.difference import Side, differences
from common.comparison.gains import printed_pairs
from common.comparison.gather import LAPTOP, MAZES, read
from common.comparison.published import published
from common.comparison.spec import Spec, spec_of
from common.config.files import ROOT
from common.results.tables import markdown, replaced

Names = tuple[str, str]  # a method and its baseline
GRPO8, FOCAL = "GRPO (N=8)", "F-GRPO (N=8, gamma=0.5)"  # the gamma that Table 6 chose for F-GRPO
ALPHA0 = "IAC alpha=0 (=GRPO)"
OURS = "GRPO + Gaussian Reweight (CW-GRPO)"
# Paper -> names on the laptop -> the printed names of the same pair, as SPEC.gains has them.
PAIRS: dict[str, dict[Names, list[Names]]] = {
    "cov_grpo": {
        ("CW-GRPO", "GRPO"): [(OURS, "GRPO")],
        ("CW-GRPO", "Clip-Cov"): [(OURS, "Clip-Cov")],
    },
    "f_grpo": {
        (FOCAL, GRPO8): [
            ("F-GRPO", "GRPO"),
            ("F-GRPO (N=8)", "GRPO (N=8)"),
            ("F-GRPO (gamma=0.5)", "GRPO"),
        ],
        ("F-GRPO (N=8, gamma=1)", GRPO8): [("F-GRPO (gamma=1)", "GRPO")],
        ("F-GRPO (N=8, gamma=2)", GRPO8): [("F-GRPO (gamma=2)", "GRPO")],
        ("F-DAPO (N=8)", "DAPO (N=8)"): [("F-DAPO", "DAPO")],
        ("F-CISPO (N=8)", "CISPO (N=8)"): [("F-CISPO", "CISPO")],
        # at equal numbers of prompts, hence a quarter of the rollouts; claim focal_n8_matches_n32
        ("F-GRPO (N=8, gamma=0.5, 8 prompts)", "GRPO (N=32)"): [("F-GRPO (N=8)", "GRPO (N=32)")],
        (FOCAL, "GRPO-H (N=8)"): [("F-GRPO", "GRPO (entropy bonus)")],
        (FOCAL, "GRPO-KL (N=8)"): [("F-GRPO", "GRPO (KL)")],
        (FOCAL, "GRPO (N=8, low LR of gamma=0.5)"): [("F-GRPO", "GRPO (low LR)")],
        (FOCAL, "DS-GRPO (N=8)"): [("F-GRPO", "DS-GRPO")],
    },
    "fade": {  # H* = 1.0 is half the initial entropy, as on the laptop
        ("FADE", "GRPO"): [("FADE H*=1.0", "GRPO")],
        ("FADE", "Power (alpha=2)"): [("FADE H*=1.0", "Power alpha=2")],
        ("FADE", "AsymGRPO (delta=0.5)"): [("FADE H*=1.0", "AsymGRPO delta=0.5")],
        ("Power (alpha=2)", "GRPO"): [("Power alpha=2", "GRPO")],
        ("AsymGRPO (delta=0.5)", "GRPO"): [("AsymGRPO delta=0.5", "GRPO")],
    },
    "over_sharpening": {  # alpha = 1 is the default
        ("IAC", "GRPO"): [("IAC", "GRPO"), ("IAC alpha=1", ALPHA0)],
        ("IAC", "RLOO"): [("IAC", "RLOO")],
        ("IAC", "Reinforce++"): [("IAC", "Reinforce++")],
        ("IAC", "DrGRPO"): [("IAC", "DrGRPO")],
        ("IAC", "Filtering (easiest 25 %)"): [("IAC alpha=1", "Filtering-based")],
        ("IAC (alpha=0.5)", "GRPO"): [("IAC alpha=0.5", ALPHA0)],
        ("IAC (alpha=1.5)", "GRPO"): [("IAC alpha=1.5", ALPHA0)],
        ("IAC (alpha=2)", "GRPO"): [("IAC alpha=2", ALPHA0)],
        ("DAPO+IAC", "DAPO"): [("DAPO+IAC", "DAPO")],
        ("DAPO+IAC+DLC", "DAPO+IAC"): [("DAPO+IAC+DLC", "DAPO+IAC")],
    },
    "two_stage": {
        ("GRPO-N", "GRPO"): [("GRPO-N", "GRPO")],
        ("GSPO-N", "GSPO"): [("GSPO-N", "GSPO")],
    },
}
PASS1, LARGE, LARGE_NATURAL = "pass@1", "large k", "large k, natural"
READ = {
    PASS1: ("natural", "pass@1"),
    LARGE: ("rare", "pass@64"),
    LARGE_NATURAL: ("natural", "pass@64"),
}
PRINTED, COUNTDOWN, MAZE = "published", "countdown", "mazes"
# source -> scope and table of its rows, and the number of last checkpoints to average
TESTBEDS = {COUNTDOWN: (LAPTOP, "laptop_strong", LAST), MAZE: (MAZES, MAZES, 1)}
SOURCES = (PRINTED, *TESTBEDS)
COLUMNS = ["paper", "method", "baseline", "measure", "k", PRINTED]
COLUMNS += [f"{name}{part}" for name in TESTBEDS for part in ("", "_low", "_high")]
FILE = "agreement.csv"
SUMMARY = ["measure", "a", "b", "n", "agree", "by_chance", "rho", "p"]
HEAD = ["measure", "sources", "same sign", "by chance", "rank correlation", "p"]
START, END = "<!-- agreement: written by `rlvr docs` -->", "<!-- end of agreement -->"


def table(reference: Path) -> pd.DataFrame:
    """Return COLUMNS for every pair and measure, from the printed and the committed tables."""
    rows = []
    for paper, pairs in PAIRS.items():
        spec = spec_of(paper)
        cells = printed_pairs(spec, published(ROOT / "papers" / paper / "published"))
        beds = {name: testbed(reference, paper, *of) for name, of in TESTBEDS.items()}
        for (method, baseline), names in pairs.items():
            said = printed(spec, cells, names)
            found = {name: measured(*bed, method, baseline) for name, bed in beds.items()}
            for measure, read_as in READ.items():
                one = {"paper": paper, "method": method, "baseline": baseline, "measure": measure}
                one |= said[measure == PASS1]
                for name, by_measure in found.items():
                    values = by_measure.get(read_as, {})
                    one |= {name + part: value for part, value in values.items()}
                rows.append(one)
    return pd.DataFrame(rows, columns=COLUMNS)


def printed(spec: Spec, cells: pd.DataFrame, names: list[Names]) -> dict[bool, dict]:
    """Return `k` and `published` of the pair that is printed under `names`: under True for accuracy
    (pass@1 or avg@n), under False for pass@k at the largest k. cells: from
    `gains.printed_pairs`."""
    cells = cells[[pair in names for pair in zip(cells["method"], cells["baseline"], strict=True)]]
    metric = cells["metric"].str.lower()
    accuracy = (metric == "pass@1") | metric.str.startswith("avg@")
    large = cells[metric.str.startswith("pass@") & ~accuracy]
    k = large["k"].max()
    return {
        True: {"k": 1, PRINTED: mean(spec, cells[accuracy])},
        False: {"k": k, PRINTED: mean(spec, large[large["k"] == k])},
    }


def mean(spec: Spec, cells: pd.DataFrame) -> float:
    """Return the mean over models of the mean over benchmarks of the mean over tables; NaN without
    cells. It is rounded so that printed differences that cancel give exactly 0."""
    models = []
    for _, of_model in cells.groupby("model"):
        by_benchmark = of_model.groupby("benchmark")["printed"].mean()
        members = set(by_benchmark.index)
        averages = [name for name, of in spec.averages.items() if members & set(of)]
        models.append(by_benchmark.drop(averages, errors="ignore").mean())
    return round(float(np.mean(models)), 9) if models else np.nan


def testbed(reference: Path, paper: str, scope: str, name: str, last: int) -> tuple[Side, int]:
    """Return the rows and counts of a testbed's table on natural and rare prompts, and `last`, the
    number of checkpoints to average."""
    wanted = {benchmark for benchmark, _ in READ.values()}
    rows, counts = (
        frame[(frame["table"] == name) & frame["benchmark"].isin(wanted)]
        for frame in read(reference, paper, scope)
    )
    return (rows, counts), last


def measured(both: Side, last: int, method: str, baseline: str) -> dict[tuple[str, str], dict]:
    """Return, for each (benchmark, metric), the difference (key "") and its interval (keys "_low",
    "_high"); {} with fewer than MIN_SEEDS shared seeds."""
    one, other = (of(both, name) for name in (method, baseline))
    if len(set(one[0]["seed"]) & set(other[0]["seed"])) < MIN_SEEDS:
        return {}
    metrics = list(dict.fromkeys(metric for _, metric in READ.values()))
    parts = {"": "difference", "_low": "low", "_high": "high"}
    return {
        (line["benchmark"], line["metric"]): {part: line[name] for part, name in parts.items()}
        for line in differences(one, other, metrics, last).to_dict("records")
    }


def of(both: Side, method: str) -> Side:
    rows, counts = both
    return rows[rows["method"] == method], counts[counts["method"] == method]


def stored(reference: Path) -> pd.DataFrame:
    """Return the committed rows."""
    return pd.read_csv(reference / FILE)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return SUMMARY for each measure and each two sources: the number of pairs that both have, how
    many of these have the same sign in both (0 has no sign), how many would have if the signs of
    the two sources were unrelated, and Spearman's rank correlation with its p."""
    found = []
    for measure, of_measure in rows.groupby("measure", sort=False):
        for a, b in combinations(SOURCES, 2):
            x, y = of_measure[[a, b]].dropna().astype(float).to_numpy().T
            agree = int((x * y > 0).sum())
            found.append([measure, a, b, len(x), agree, by_chance(x, y), *ranks(x, y)])
    return pd.DataFrame(found, columns=SUMMARY)


def by_chance(x: np.ndarray, y: np.ndarray) -> float:
    """Return the number of pairs expected to have the same sign in both by chance, given how many
    are positive and negative in each; NaN without pairs."""
    if not len(x):
        return np.nan
    return float(sum((side * x > 0).sum() * (side * y > 0).sum() for side in (1, -1)) / len(x))


def ranks(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return Spearman's rho and p; NaN with fewer than three pairs or if one side is constant."""
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return np.nan, np.nan
    rho, p = spearmanr(x, y)
    return float(rho), float(p)


def lines(found: pd.DataFrame) -> list[list[str]]:
    """Return the columns HEAD of each row of a summary, as text."""
    return [
        [
            one["measure"],
            f"{one['a']}, {one['b']}",
            f"{one['agree']} of {one['n']}",
            layout.rounded(one["by_chance"], 1),
            layout.rounded(one["rho"], 2),
            "" if one["p"] == "" else f"{one['p']:.2g}",
        ]
        for one in layout.objects(found)
    ]


def written(text: str, rows: pd.DataFrame) -> str:
    """Return `text` (docs/testbeds.md) with the summary of `rows` between its marks."""
    shown = markdown(HEAD, lines(summary(rows)), "llrrrr")
    return replaced("docs/testbeds.md", text, (START, END), shown)
