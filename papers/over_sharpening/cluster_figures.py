"""Fig. 6, drawn from the result rows of cluster runs by `rlvr compare paper=over_sharpening` and by
the last job of a cluster sweep."""

from pathlib import Path

import pandas as pd

from common.comparison.cluster_figures import Curve, Figure, along
from common.comparison.gather import Gathered
from common.palette import colors


def draw(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list[Figure]:
    """Draw Fig. 6 if its runs are there as <root>/over_sharpening/figures/cluster_fig6. Return its
    caption, or the reason why it was left out.

    cells: not used here; cluster: the gathered cluster runs.
    """
    entropy = along(
        root,
        "over_sharpening",
        cluster.rows,
        name="fig6",
        model="Qwen3-8B",
        colors=colors(["DAPO", "DAPO+IAC"]),
        curves=[Curve("entropy in training", column="entropy", ema=0.05)],
        about="Fig. 6: entropy of Qwen3-8B's policy along training, nats a token, of its rollouts "
        "(a moving average in which each step counts 5 %). Printed (App. I): DAPO falls to about "
        "0.08, DAPO+IAC fluctuates between 0.20 and 0.24.",
    )
    return [entropy]
