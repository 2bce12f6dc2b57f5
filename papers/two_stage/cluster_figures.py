"""Figs 2 and 4 from cluster rows: drawn by `rlvr compare paper=two_stage` and a cluster
sweep's last job."""

from pathlib import Path

import pandas as pd

from common.comparison.cluster_figures import Curve, Figure, along
from papers.two_stage.figures import MAIN

FIGURES = {  # name: number in the paper, model, methods
    "fig2": (2, "Qwen2.5-Math-7B", ("GRPO", "GRPO-N", "GSPO", "GSPO-N")),
    "fig4": (4, "Llama-3.2-3B-Instruct", ("GRPO", "GRPO-N")),
}
CURVES = [
    Curve("MATH-500 pass@1 (%)", benchmark="math500", metric="pass@1"),
    Curve("entropy on MATH-500", benchmark="math500", metric="token_entropy"),
    Curve("entropy in training", column="entropy"),
    Curve("reward in training", column="reward"),
]


def draw(root: Path, cells: pd.DataFrame, rows: pd.DataFrame) -> list[Figure]:
    """Every figure whose rows are there, into <root>/two_stage/figures/cluster_*; what became of
    each.

    cells: not used here; rows: the gathered ones.
    """
    return [
        along(
            root,
            "two_stage",
            rows,
            name=name,
            model=model,
            colors={method: MAIN[method] for method in methods},
            curves=CURVES,
            about=f"Fig. {number}: {model} along training. Accuracy and entropy are of sampled "
            "answers to MATH-500; the paper decodes the whole MATH test set greedily. Entropies "
            "in nats a token.",
        )
        for name, (number, model, methods) in FIGURES.items()
    ]
