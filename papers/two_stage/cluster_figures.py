"""Figs 2 and 4, drawn from the result rows of cluster runs by `rlvr compare paper=two_stage` and by
the last job of a cluster sweep."""

from pathlib import Path

import pandas as pd

from common.comparison.cluster_figures import Curve, Figure, along
from common.comparison.gather import Gathered
from common.palette import colors
from papers.two_stage.case_study import write_page
from papers.two_stage.cluster import GREEDY

FIGURES = {  # name -> number in the paper, model, methods
    "fig2": (2, "Qwen2.5-Math-7B", ("GRPO", "GRPO-N", "GSPO", "GSPO-N")),
    "fig4": (4, "Llama-3.2-3B-Instruct", ("GRPO", "GRPO-N")),
}
CURVES = [
    Curve("MATH, greedy pass@1 (%)", benchmark=GREEDY, metric="pass@1"),
    Curve("entropy on MATH, T = 1 (nats)", benchmark=GREEDY, metric="exact_token_entropy"),
    Curve("entropy in training, T = 1 (nats)", column="entropy"),
    Curve("reward in training", column="reward"),
]


def draw(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list[Figure]:
    """Draw every figure whose runs are there as <root>/two_stage/figures/cluster_*, and write the
    case study. Return for each figure its caption, or the reason why it was left out.

    cells: not used here; cluster: the gathered cluster runs.
    """
    write_page(root, cluster.rows)
    return [
        along(
            root,
            "two_stage",
            cluster.rows,
            name=name,
            model=model,
            colors=colors(methods),
            curves=CURVES,
            start="Base Model",
            about=f"Fig. {number}: {model} along training. Accuracy and entropy are measured "
            "on greedy answers to the MATH test set, training entropy on the rollouts. Step 0 is "
            "the base model. Entropies are exact: over the whole vocabulary at temperature 1, in "
            "nats a token.",
        )
        for name, (number, model, methods) in FIGURES.items()
    ]
