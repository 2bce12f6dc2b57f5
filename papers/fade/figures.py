"""The figure of the hidden states (FADE Fig. 3 left, Table 11): `rlvr figures paper=fade`.
`python -m papers.fade.theory` draws the figures of the theory."""

from pathlib import Path

import pandas as pd

from common.plotting import COLORS, panels, save

SHOWN = {  # title -> column -> name
    "rho_perp, mean cosine of two tokens": {"rho_S": "right", "rho_F": "wrong"},
    "||R_F|| / ||R_S||": {
        "norm_ratio": "measured",
        "clt_ratio": "independent tokens (CLT)",
        "norm_ratio_equal_n": "as many of each",
    },
}


def draw(root: Path) -> None:
    """Draw Fig. 3 left, and Table 11, if `root` has their table: rho_perp of right and wrong tokens
    by the checkpoint's step, and the ratio of their residual norms next to its baseline."""
    path = root / "fade" / "hidden_states" / "residuals.csv"
    if not path.exists():
        return
    drawn = pd.read_csv(path).sort_values("step")
    figure, axes = panels(2, width=3.4, height=3.2)
    for axis, (title, names) in zip(axes[0], SHOWN.items(), strict=True):
        for (column, name), color in zip(names.items(), COLORS, strict=False):
            axis.plot(drawn.step, drawn[column], "o-", ms=4, color=color, label=name)
        axis.set(xlabel="step", title=title)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=7)
    save(figure, root / "fade" / "figures" / "fig3_residuals", drawn)
