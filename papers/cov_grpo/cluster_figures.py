"""Fig. 1 from cluster rows: drawn by `python -m papers.cov_grpo.compare` and a cluster sweep's last
job. The paper does not say of which model its Fig. 1 is; each has one here."""

from pathlib import Path

import pandas as pd

from common.comparison.cluster_figures import PREFIX, Curve, Figure, along
from papers.cov_grpo.figures import MAIN

MODELS = {  # name of the figure: model as Table 2 writes it
    "fig1_7b": "Qwen-2.5-Math-7B-Instruct",
    "fig1_15b": "DeepSeek-R1-Distill-Qwen-1.5B",
}
OURS = "GRPO + Gaussian Reweight (CW-GRPO)"  # as Table 2 writes it
CURVES = [
    Curve("policy entropy (nats a token)", column="entropy"),
    Curve("training reward", column="reward"),
]


def draw(root: Path, cells: pd.DataFrame, rows: pd.DataFrame) -> list[Figure]:
    """Every figure whose rows are there, into <root>/cov_grpo/figures/cluster_*; what became of
    each. Fig. 3 is not drawn: a training on a cluster keeps no covariances of its tokens.

    cells: not used here; rows: the gathered ones.
    """
    made = [
        along(
            root,
            "cov_grpo",
            rows,
            name=name,
            model=model,
            colors={"GRPO": MAIN["GRPO"], OURS: MAIN["CW-GRPO"]},
            curves=CURVES,
            about=f"Fig. 1: entropy along training, {model}; the reward beside it is ours.",
        )
        for name, model in MODELS.items()
    ]
    kept_none = "a training on a cluster keeps no covariances of its tokens"
    return [*made, Figure(f"{PREFIX}fig3", left_out=kept_none)]
