"""The specification of CW-GRPO's comparison (`rlvr compare paper=cov_grpo`)."""

from pathlib import Path

import pandas as pd

from common.comparison.compare import Spec
from common.comparison.gather import Gathered
from common.comparison.published import same_runs
from common.comparison.spec import problems
from common.comparison.training import logged
from common.results.files import read_csv
from papers.cov_grpo import laptop
from papers.cov_grpo.covariance.formulas import agreement

PAIRS = [  # compared at matched pass@1
    ("CW-GRPO", "GRPO"),
    ("Clip-Cov", "GRPO"),
    ("CW-GRPO", "Clip-Cov"),
    ("CW-GRPO (by group)", "GRPO"),
    ("CW-GRPO (sequence mean)", "GRPO"),
    ("CW-GRPO (repository)", "GRPO"),
    ("CW-GRPO (beta=0)", "GRPO (beta=0)"),
]
BENCHMARKS = ("AIME24", "MATH-500", "AMC23", "Minerva", "OlympiadBench", "Avg")
TABLE1 = {
    f"{side} {share}": (f"percentile {share}", f"{side}_covariance")
    for side in ("positive", "negative")
    for share in ("0.01%", "1.00%", "20.00%", "40.00%", "100.00%")
}
TABLE2 = {name: (name, "pass@1") for name in BENCHMARKS}
TABLE3 = {
    cell: (cell, "pass@1")
    for cell in (
        f"{benchmark}, step {step}"
        for benchmark in ("MATH-500", "OlympiadBench")
        for step in (100, 150, 200)
    )
}
LAPTOP = {
    "natural pass@1": ("natural", "pass@1"),
    "natural pass@256": ("natural", "pass@256"),
    "rare pass@1": ("rare", "pass@1"),
    "rare pass@64": ("rare", "pass@64"),
    "distinct correct (natural)": ("natural", "distinct_correct"),
    "token entropy (natural)": ("natural", "token_entropy"),
    "valid % (natural)": ("natural", "valid"),
    "active groups %": ("training", "active_groups"),
}


def own_rows(root: Path, runs: Gathered) -> list[pd.DataFrame]:
    """Return the stability of the entropy and the covariance statistics as result rows."""
    return [laptop.read(root, "stability"), *covariance_rows(root)]


def logged_rows(root: Path, rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return how stable the entropy of the cluster runs is, in tables such as "table2, logged"."""
    return [logged(root, "cov_grpo", rows, laptop.stability)]


def covariance_rows(root: Path) -> list[pd.DataFrame]:
    """Return the tables of covariance/tables.py as rows of table "covariance", one for each seed.

    method: the mean in the covariance (token, sequence), or the reading of the weights; benchmark:
    "all" or "active" tokens, the kind of a step (plain, adamw), or "weights". The metric
    "contribution top 1%" is in percent of sum |c|, "positive_covariance 1% (threshold)" is Table
    1's, and mean_active and the other statistics of weights are means over steps.
    Raises UserError for tables of an older version, which do not start with the seed.
    """
    folder = root / "cov_grpo" / "covariance"
    if not (folder / "steps.csv").exists():
        return []
    names = ("cumulative", "percentiles", "weights", "steps")
    tables = {name: read_csv(folder / f"{name}.csv", ["seed"]) for name in names}
    held = tables["cumulative"]
    held = held.assign(
        metric="contribution top " + percent(held["share"]),
        value=100 * held["contribution"],
        unit="percent",
    )
    at = tables["percentiles"]
    at = at.assign(
        metric=at["side"] + "_covariance " + percent(at["share"]) + " (" + at["reading"] + ")"
    )
    spread = pd.concat([held, at]).rename(columns={"mean": "method", "tokens": "benchmark"})
    weights = tables["weights"].groupby(["seed", "reading"], sort=False).mean()
    weights = weights.drop(columns="step").rename_axis(["seed", "method"]).reset_index()
    weights = weights.melt(["seed", "method"], var_name="metric").assign(benchmark="weights")
    drift = [
        {"seed": seed, "method": "token", "benchmark": kind, "metric": metric, "value": value}
        for seed, steps in tables["steps"].groupby("seed")
        for kind in ("plain", "adamw")
        for metric, value in agreement(steps["predicted"], steps[f"measured_{kind}"]).items()
    ]
    frames = [spread, weights, pd.DataFrame(drift)]
    keep = ["method", "benchmark", "metric", "value", "unit", "seed"]
    return [frame.reindex(columns=keep).assign(table="covariance") for frame in frames]


def percent(share: pd.Series) -> pd.Series:
    return (100 * share).map("{:g}%".format)


OURS = "GRPO + Gaussian Reweight (CW-GRPO)"  # its name in Table 2
PRINTED_7B = {"table": "table2", "model": "Qwen-2.5-Math-7B-Instruct"}
FOOTNOTES = {
    "INC023": [PRINTED_7B | {"method": OURS, "metric": "improvement_over_base"}],
    "INC024": [PRINTED_7B | {"method": ["GRPO", OURS], "benchmark": "Avg"}],
    "INC025": [
        {
            "table": "table2",
            "model": "DeepSeek-R1-Distill-Qwen-1.5B",
            "method": ["GRPO", OURS],
            "benchmark": "AIME24",
        },
        PRINTED_7B | {"method": ["GRPO", OURS], "benchmark": "Minerva"},
    ],
    "INC026": [PRINTED_7B | {"method": ["GRPO", OURS], "benchmark": ["AIME24", "AMC23"]}],
    "INC027": [{"table": "table3"}],
    "INC032": [{"table": "table1"}],
    "INC033": [{"table": "table2", "method": ["as published", "Base Model"], "metric": "pass@1"}],
}
NOT_REPRODUCIBLE = [
    (
        {"table": "table2", "method": "as published"},
        "taken over from other papers; these models are not trained here",
    ),
    (
        {"metric": ["fine_tuning_samples", "improvement_over_base", "correct_count", "n_problems"]},
        "a count or a difference that the paper states about its own cells, not a measurement",
    ),
    (
        {"table": "table1"},
        "not said whether thresholds or means, nor of which tokens (INC032); the laptop's "
        "statistics show both readings",
    ),
]


def data_set_sizes(root: Path) -> pd.DataFrame:
    """Return Table 4: the number of problems of each test set that this repository evaluates."""
    frame = pd.DataFrame({"benchmark": list(PROBLEMS), "value": list(PROBLEMS.values())})
    return frame.assign(table="table4", model=None, method=None, metric="dataset_size")


PROBLEMS = problems(
    {
        "AIME24": "aime24",
        "MATH-500": "math500",
        "AMC23": "amc23",
        "Minerva": "minerva",
        "OlympiadBench": "olympiadbench",
    }
)


def figures(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list:
    from papers.cov_grpo import cluster_figures

    return cluster_figures.draw(root, cells, cluster.rows)


SPEC = Spec(
    paper="cov_grpo",
    title="CW-GRPO",
    published=[
        ("table1", "Table 1 (covariance at percentiles of tokens, 50 steps of GRPO)", TABLE1),
        (
            "table2",
            "Table 2 (pass@1, percent; the rows of both models one below the other)",
            TABLE2,
        ),
        ("table3", "Table 3 (DeepSeek-R1-Distill-Qwen-1.5B, pass@1 by checkpoint)", TABLE3),
    ],
    laptop=LAPTOP,
    pairs=PAIRS,
    own_rows=own_rows,
    stacked=("table1",),
    measure=laptop.measure,
    logged_rows=logged_rows,
    same_runs=same_runs("cov_grpo"),
    averages={"Avg": list(PROBLEMS)},
    gains=[  # Table 2 compares CW-GRPO with GRPO, Clip-Cov and the base model; Table 3 with GRPO
        *((OURS, baseline) for baseline in ("GRPO", "Clip-Cov", "Base Model")),
        *((method, "Base Model") for method in ("GRPO", "Clip-Cov")),
        ("CW-GRPO", "GRPO"),
    ],
    steps={"table2": 100},  # from Table 5; the rows of step 100 in Table 3 are the rows of Table 2
    exact=data_set_sizes,
    footnotes=FOOTNOTES,
    figures=figures,
    not_reproducible=NOT_REPRODUCIBLE,
    problems=PROBLEMS,
)
