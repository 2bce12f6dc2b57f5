"""The definition of the two-stage paper's comparison (`rlvr compare paper=two_stage`)."""

from pathlib import Path

import pandas as pd

from common.comparison.compare import Spec
from common.comparison.gather import Gathered
from common.comparison.published import same_runs
from common.comparison.spec import problems
from common.comparison.training import logged, phases
from papers.two_stage import laptop
from papers.two_stage.cluster import GREEDY, code_rows

PAIRS = [  # pairs of methods that are compared at matched pass@1
    ("GRPO-N", "GRPO"),
    ("GSPO-N", "GSPO"),
    ("GSPO", "GRPO"),
    ("GSPO-N", "GRPO-N"),
    ("GRPO-N (token mean)", "GRPO (token mean)"),
]
TABLE1 = {
    f"{benchmark} pass@{k}": (benchmark, f"pass@{k}")
    for benchmark in ("AMC 2023", "AIME 2024", "AIME 2025", "ARC-c", "MMLU-Pro")
    for k in (1, 256)
}
TABLE2 = {title: cell for title, cell in TABLE1.items() if not title.startswith(("ARC", "MMLU"))}
TABLE3 = {f"MATH-500 pass@{k}": ("MATH-500", f"pass@{k}") for k in (1, 8, 32, 256)}
TABLE4 = {
    f"{benchmark} {metric.split('_')[0]}": (benchmark, metric)
    for metric in ("answer_level_entropy", "token_level_entropy")
    for benchmark in ("AMC 2023", "AIME 2024", "AIME 2025")
}
LAPTOP = {
    "natural pass@1": ("natural", "pass@1"),
    "natural pass@16": ("natural", "pass@16"),
    "natural pass@256": ("natural", "pass@256"),
    "rare pass@1": ("rare", "pass@1"),
    "rare pass@64": ("rare", "pass@64"),
    "rare pass@256": ("rare", "pass@256"),
    "shifted pass@1": ("shifted", "pass@1"),
    "shifted pass@64": ("shifted", "pass@64"),
    "shifted pass@256": ("shifted", "pass@256"),
    "distinct correct (natural)": ("natural", "distinct_correct"),
    "token entropy (natural)": ("natural", "token_entropy"),
    "valid % (natural)": ("natural", "valid"),
    "active groups %": ("training", "active_groups"),
}
OTHER_FIGURES = ("two_stages", "crossed", "best_low")  # kept for the figures after Fig. 1
STEPS = {"sgd": "plain step", "adam": "Adam"}


def own_rows(root: Path, runs: Gathered) -> list[pd.DataFrame]:
    """Return the result rows of the toy, of the theory and of the entropies of Table 4."""
    return [toy_rows(root), *theory_rows(root), laptop.read(root, "entropies")]


def logged_rows(root: Path, rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the entropy along the cluster's training runs (table "TABLE, logged") and the pieces
    of code in their stored samples (table "TABLE, samples"), with TABLE the table of the run."""
    entropies = logged(root, "two_stage", rows, lambda log: phases(log, ["entropy"]))
    return [entropies, code_rows(root, rows)]


def toy_rows(root: Path) -> pd.DataFrame:
    """Return the toy as result rows in percent (points), one value for each seed. The method is
    "plain step" or "Adam", with ", -N" after it for -N; the benchmark is "<figure> <cell>".

    two_stages, crossed: 100 or 0; best_low: the lowest probability of the best action before the
    crossing. Fig. 1 also has leader_rise: the leader's rise to its peak before the crossing;
    leader_peak; best_rise_at_peak: the rise of the best action from the start to the step of that
    peak; best_rise, leader_fall: the changes from that step to the last one. `spread`, the mean
    width of the figures' quantile band, has no seed. Empty without results of the toy.
    """
    folder = root / "two_stage" / "toy"
    if not (folder / "ends.csv.gz").exists():
        return pd.DataFrame()
    ends, paths = (named(pd.read_csv(folder / f"{name}.csv.gz")) for name in ("ends", "paths"))
    values = pd.DataFrame(
        {
            "two_stages": ends["two_stages"],
            "crossed": ends["crossing"].notna(),
            "leader_rise": ends["leader_peak"] - ends["leader_start"],
            "leader_peak": ends["leader_peak"],
            "leader_fall": ends["leader_peak"] - ends["leader_end"],
            "best_low": ends["best_low"],
            "best_rise_at_peak": ends["best_at_peak"] - ends["best_start"],
            "best_rise": ends["best_end"] - ends["best_at_peak"],
        }
    )
    key = ["method", "benchmark", "seed"]
    wide = pd.concat([ends[key], 100 * values.astype(float)], axis=1)
    long = wide.melt(key, var_name="metric", value_name="value")
    fig1 = long["benchmark"].str.startswith("fig1 ")
    long = long[fig1 | long["metric"].isin(OTHER_FIGURES)]
    paths["value"] = 100 * (paths["high"] - paths["low"])
    spread = paths.groupby(key[:2])["value"].mean().reset_index().assign(metric="spread")
    both = pd.concat([long, spread], ignore_index=True)
    return both.assign(table="toy", model="softmax", unit="percent")


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the toy's rows with method and benchmark as the claims name them."""
    negative = frame["method"].map({"full": "", "negative": ", -N"})
    return frame.assign(
        method=frame["optimizer"].map(STEPS) + negative,
        benchmark=frame["figure"] + " " + frame["cell"],
    )


def theory_rows(root: Path) -> list[pd.DataFrame]:
    """Return the theory's tables as result rows: means, one row for each number, without a seed."""
    folder, frames = root / "two_stage" / "theory", []
    named = {  # table -> method, benchmark and metrics of its rows
        "theorem1": (lambda t: t["method"], lambda t: "G=" + t["G"].astype(str), ["ratio"]),
        "remark2": (
            lambda t: "Lemma 1",
            lambda t: "scale=" + t["scale"].map("{:g}".format),
            ["fall", "all_fall"],
        ),
        "proposition1": (
            lambda t: "Proposition 1",
            lambda t: "eta=" + t["eta"].map("{:g}".format),
            ["relative_error"],
        ),
        "kernel": (lambda t: "kernel", lambda t: "width=" + t["width"].astype(str), ["moved"]),
    }
    for name, (method, benchmark, metrics) in named.items():
        path = folder / f"{name}.csv"
        if not path.exists():
            continue
        table = pd.read_csv(path)
        table = table.assign(method=method(table), benchmark=benchmark(table))
        means = table.groupby(["method", "benchmark"], sort=False)[metrics].mean().reset_index()
        long = means.melt(["method", "benchmark"], metrics, "metric", "value")
        frames.append(long.assign(table="theory"))
    return frames


EVALUATED = {
    "AMC 2023": "amc23",
    "AIME 2024": "aime24",
    "AIME 2025": "aime25",
    "MATH-500": "math500",
}
# Table 4 prints entropies of the samples of Tables 1 and 2 (App. C.5): our metric -> as printed
ENTROPIES = {
    "answer_entropy": "answer_level_entropy",
    "exact_token_entropy": "token_level_entropy",
}
SAMPLED = [f"pass@{2**i}" for i in range(9)]
FOOTNOTES = {
    "INC016": [
        {"table": "table1", "method": ["GRPO", "GRPO-N"], "benchmark": "ARC-c", "metric": "pass@1"},
        {
            "table": "table1",
            "method": ["GRPO", "GRPO-N"],
            "benchmark": "MMLU-Pro",
            "metric": SAMPLED[:4],
        },
        {
            "table": "table1",
            "method": ["GSPO", "GSPO-N"],
            "benchmark": "ARC-c",
            "metric": SAMPLED[5:7],
        },
    ],
    "INC017": [
        {"table": "table3", "method": ["Base Model", "GRPO-N"], "metric": SAMPLED[3:]},
        {"table": "table3", "method": "GSPO-N", "metric": SAMPLED[4:]},
        {"table": "table2", "method": ["Base Model", "GRPO-N"]},
    ],
    "INC018": [{"table": "table4", "metric": "token_level_entropy"}],
    "INC019": [{"table": "table4", "metric": "answer_level_entropy"}],
    "INC021": [{"table": "table1", "benchmark": ["ARC-c", "MMLU-Pro"]}],
    "INC022": [{"table": "table1", "method": "GSPO-N", "benchmark": "AIME 2024"}],
}


def figures(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list:
    from papers.two_stage import case_study, cluster_figures

    case_study.write_cluster_page(root, cluster.rows)
    return cluster_figures.draw(root, cells, cluster.rows)


SPEC = Spec(
    paper="two_stage",
    title="Two-stage dynamics",
    published=[
        ("table1", "Table 1 (Qwen2.5-Math-7B, percent)", TABLE1),
        ("table2", "Table 2 (Llama-3.2-3B-Instruct, percent)", TABLE2),
        ("table3", "Table 3 (Qwen2.5-Math-7B on MATH-500, percent)", TABLE3),
        ("table4", "Table 4 (Qwen2.5-Math-7B; answer level in bits, token level in nats)", TABLE4),
    ],
    laptop=LAPTOP,
    pairs=PAIRS,
    own_rows=own_rows,
    measure=laptop.measure,
    logged_rows=logged_rows,
    same_runs=same_runs("two_stage"),
    # -N against the method that it changes, and each standard method against the base model (does
    # the capability boundary shrink?)
    gains=[
        *((f"{method}-N", method) for method in ("GRPO", "GSPO")),
        *((method, "Base Model") for method in ("GRPO", "GSPO")),
    ],
    metrics=ENTROPIES,
    footnotes=FOOTNOTES,
    unprinted=(GREEDY,),
    averages={name: [f"{name}, draw {i}" for i in (1, 2, 3)] for name in ("ARC-c", "MMLU-Pro")},
    problems=problems(EVALUATED) | {"ARC-c": 128, "MMLU-Pro": 128},  # in each draw, App. C.2
    # pass@256 cells are multiples of 1/128, which suggests one fixed set of problems (INC021)
    own_problems={"ARC-c": 128, "MMLU-Pro": 128},
    figures=figures,
)
