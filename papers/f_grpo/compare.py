"""The definition of F-GRPO's comparison with the paper (`rlvr compare paper=f_grpo`)."""

from pathlib import Path

import pandas as pd

from common.comparison.compare import Spec
from common.comparison.gather import Gathered
from common.comparison.published import same_runs
from common.comparison.spec import problems
from papers.f_grpo import laptop

GRPO, F_GRPO = "GRPO (N=8)", "F-GRPO (N=8, gamma=1)"
PAIRS = [  # pairs of methods that are compared at matched pass@1
    (F_GRPO, GRPO),
    ("F-GRPO (N=8, gamma=0.5)", GRPO),
    ("F-GRPO (N=8, gamma=2)", GRPO),
    ("GRPO (N=2)", GRPO),
    ("GRPO (N=32)", GRPO),
    (F_GRPO, "GRPO (N=32)"),
    ("F-DAPO (N=8)", "DAPO (N=8)"),
    ("F-CISPO (N=8)", "CISPO (N=8)"),
    (F_GRPO, "GRPO-H (N=8)"),
    (F_GRPO, "GRPO-KL (N=8)"),
]
CAPTION = "Table 2 (Qwen2.5-7B, percent; pass@k on math and OOD benchmarks)"
AVERAGES = {
    "Avg_Math pass@1": ("Avg_Math", "pass@1"),
    "Avg_Math pass@256": ("Avg_Math", "pass@256"),
    "Avg_OOD pass@1": ("Avg_OOD", "pass@1"),
    "Avg_OOD pass@256": ("Avg_OOD", "pass@256"),
}
TABLE2 = AVERAGES | {
    "Delta NLL rare": ("rare-correct set (1263 trajectories)", "delta_NLL_rare"),
}
LAPTOP = {
    "natural pass@1": ("natural", "pass@1"),
    "natural pass@256": ("natural", "pass@256"),
    "rare pass@1": ("rare", "pass@1"),
    "rare pass@64": ("rare", "pass@64"),
    "rare pass@256": ("rare", "pass@256"),
    "distinct correct (natural)": ("natural", "distinct_correct"),
    "token entropy (natural)": ("natural", "token_entropy"),
    "valid % (natural)": ("natural", "valid"),
    "active groups %": ("training", "active_groups"),
    "Delta NLL rare": ("rare-correct set", "delta_NLL_rare"),
}


def own_rows(root: Path, runs: Gathered) -> list[pd.DataFrame]:
    """Return the result rows of the simulation and of the theory."""
    return [simulation_rows(root), theory_rows(root)]


def simulation_rows(root: Path) -> pd.DataFrame:
    """Return the categorical simulation as result rows: method "gamma=g" and benchmark "N=n", one
    row for each seed, step and metric. Only the reading score_adam is taken.

    Table "simulation at Q_pos=0.9" holds M_ret at the step where Q_pos first reaches 0.9, for the
    runs that reach it. Empty without results of the simulation.
    """
    path = root / "f_grpo" / "simulation" / "trajectory.csv.gz"
    if not path.exists():
        return pd.DataFrame()
    wide = pd.read_csv(path).query("reading == 'score_adam'")
    wide = wide.assign(
        table="simulation",
        model="categorical",
        method="gamma=" + wide["gamma"].map("{:g}".format),
        benchmark="N=" + wide["N"].astype(str),
    )
    key = ["table", "model", "method", "benchmark", "seed", "step"]
    long = wide.melt(key, ["Q_pos", "M_ret", "entropy"], "metric", "value")
    reached = wide[wide["Q_pos"] >= 0.9].sort_values("step").groupby(key[:-1]).head(1)
    reached = reached.assign(
        table="simulation at Q_pos=0.9", metric="M_ret", value=reached["M_ret"]
    )
    return pd.concat([long, reached[[*key, "metric", "value"]]], ignore_index=True)


def theory_rows(root: Path) -> pd.DataFrame:
    """Return the table of Lemma 3.1 as result rows: one row for each number, without a seed. Empty
    without results of the theory."""
    path = root / "f_grpo" / "theory" / "tail_miss.csv"
    if not path.exists():
        return pd.DataFrame()
    wide = pd.read_csv(path)
    return pd.DataFrame(
        {
            "table": "theory",
            "method": [
                f"mu={mu:g}, tau={tau:g}" for mu, tau in zip(wide.mu, wide.tau, strict=True)
            ],
            "benchmark": "N=" + wide["N"].astype(str),
            "metric": "pr_tail_miss",
            "value": wide["pr_tail_miss"],
        }
    )


def figures(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list:
    from papers.f_grpo import cluster_figures

    return cluster_figures.draw(root, cells, cluster.rows)


EVALUATED = {
    "AIME24": "aime24",
    "AIME25": "aime25",
    "AMC": "amc23",
    "MATH500": "math500",
    "Minerva": "minerva",
    "Olympiad": "olympiadbench",
    "GPQA": "gpqa_diamond",
    "IFEval": "ifeval",
}
MATH = ["AIME24", "AIME25", "AMC", "MATH500", "Minerva", "Olympiad"]
OOD = ["IFEval", "SynLogic", "GPQA"]
# the endings of a focal method's name; a name without gamma means the chosen gamma
WEIGHTED = ("", " (gamma=0.5)", " (gamma=1)", " (gamma=2)")
GAINS = [
    *((f"F-{base}{gamma}", base) for base in ("GRPO", "DAPO", "CISPO") for gamma in WEIGHTED),
    # Tables 2 and 3: the baseline has as many rollouts (N = 8) or four times as many (N = 32)
    *(("F-GRPO (N=8)", f"GRPO (N={n})") for n in (8, 32)),
    # the controls of Table 4 and of the second version's Table 3
    *(("F-GRPO", control) for control in ("GRPO (entropy bonus)", "GRPO (KL)")),
    *(("F-GRPO", control) for control in ("GRPO (low LR)", "DS-GRPO")),
]
FOOTNOTES = {
    "INC001": [{"table": "table1", "benchmark": "Avg_OOD", "metric": "pass@256"}],
    "INC002": [{"table": "table2", "benchmark": "Avg_OOD", "metric": "pass@1"}],
    "INC003": [
        {"table": "table3", "benchmark": ["AIME25", "IFEval"], "metric": "pass@1"},
    ],
    "INC004": [
        {
            "table": "table3",
            "benchmark": "IFEval",
            "metric": "pass@1",
            "method": ["GRPO (N=32)", "F-GRPO (N=8)"],
        }
    ],
    "INC006": [
        {
            "table": ["table1", "table3", "table4"],
            "benchmark": ["AIME24", "AIME25", "AMC"],
            "metric": "pass@256",
        }
    ],
    "INC101": [
        {"table": ["table2_v2", "table10_v2"], "benchmark": "Avg_OOD", "metric": "pass@1"},
    ],
    "INC102": [{"table": "table4_v2"}],
    "INC103": [{"table": ["table3_v2", "table11_v2"], "method": "GRPO (low LR)"}],
    "INC105": [{"benchmark": ["SynLogic", "Avg_OOD"]}],
    "INC104": [{"table": ["table1_v2", "table13_v2"], "model": "Qwen3-4B-Base"}],
}
SPEC = Spec(
    paper="f_grpo",
    title="F-GRPO",
    published=[
        ("table2", CAPTION, TABLE2),
        ("table2_v2", f"{CAPTION}, second version", TABLE2),
        ("table3_v2", "Table 3 of the second version (Qwen2.5-7B, percent)", AVERAGES),
    ],
    laptop=LAPTOP,
    pairs=PAIRS,
    baseline=GRPO,
    own_rows=own_rows,
    measure=laptop.measure,
    same_runs=same_runs("f_grpo"),
    averages={"Avg_Math": MATH, "Avg_OOD": OOD},
    gains=GAINS,
    footnotes=FOOTNOTES,
    problems=problems(EVALUATED),
    figures=figures,
    unprinted=("AIME25 (n=64)",),  # v2 Figs 8 to 10, evaluated with SCALE=cluster_v2_first
)
