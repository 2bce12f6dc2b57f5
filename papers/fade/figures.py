"""Figures of the hidden states and of Prop. 15.1 on synthetic data (FADE Fig. 3, Tables 10, 11):
`rlvr figures paper=fade`. `python -m papers.fade.theory` draws the figures of the theory."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.plotting import COLORS, panels, save


def draw(root: Path) -> None:
    """Draw every figure for which `root` has the table."""
    for table, figure, name in (
        ("residuals", fig3, "fig3_residuals"),
        ("proposition", proposition, "prop15_1"),
    ):
        path = root / "fade" / "hidden_states" / f"{table}.csv"
        if path.exists():
            figure(pd.read_csv(path), root / "fade" / "figures" / name)


def fig3(rows: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 3 left, and Table 11: rho_perp of right and wrong tokens by the checkpoint's step,
    and the ratio of their residual norms next to its baseline.

    The direction is that of the batch gradient.
    """
    drawn = rows[rows.direction == "gradient"].sort_values("step")
    figure, axes = panels(2, width=3.4, height=3.2)
    shown = (
        {"rho_S": "right", "rho_F": "wrong"},
        {
            "norm_ratio": "measured",
            "clt_ratio": "independent tokens (CLT)",
            "norm_ratio_equal_n": "as many of each",
        },
    )
    titles = ("rho_perp, mean cosine of two tokens", "||R_F|| / ||R_S||")
    for axis, names, title in zip(axes[0], shown, titles, strict=True):
        for (column, name), color in zip(names.items(), COLORS, strict=False):
            axis.plot(drawn.step, drawn[column], "o-", ms=4, color=color, label=name)
        axis.set(xlabel="step", title=title)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=7)
    save(figure, path, drawn)


def proposition(rows: pd.DataFrame, path: Path) -> None:
    """Draw Prop. 15.1 on synthetic tokens: r_1 against N, its limit and ||R_F|| against K.

    r_1 is drawn with its limit, ||R_F|| with 1/sqrt(K). The upper row is for wrong modes that are
    not orthogonal, the lower row for orthogonal ones.
    """
    kinds = list(dict.fromkeys(rows.modes))
    figure, axes = panels(3, len(kinds))
    many, few = rows.K.max(), rows.K.min()
    deltas, K = sorted(rows.delta.unique()), np.sort(rows.K.unique())
    for line, kind in zip(axes, kinds, strict=True):
        made = rows[rows.modes.eq(kind)]
        for i, delta in enumerate(deltas):
            part = made[made.delta.eq(delta) & made.K.eq(many)].sort_values("N")
            line[0].plot(
                part.N, part.r1, color=COLORS[i], marker="o", ms=3, label=f"delta={delta:g}"
            )
            line[0].axhline(part.limit.iloc[0], color=COLORS[i], lw=0.8, ls="--")
            ends = made[made.delta.eq(delta)].drop_duplicates("K").sort_values("K")
            line[1].plot(ends.K, ends.limit, color=COLORS[i], marker="o", ms=3)
            line[2].plot(ends.K, ends.norm_R_F, color=COLORS[i], marker="o", ms=3)
        start = made[made.K.eq(few) & made.delta.eq(deltas[0])].norm_R_F.iloc[0]
        line[2].plot(K, start * (few / K) ** 0.5, color="black", lw=0.8, ls=":", label="1/sqrt(K)")
        r1 = (made.r1.min() - 0.02, 1)
        line[0].set(xscale="log", xlabel="tokens N", ylabel=f"r1, {many} wrong modes", ylim=r1)
        line[1].set(xscale="log", xlabel="wrong modes K", ylabel="limit of r1 (Eq. 33)", ylim=r1)
        line[2].set(xscale="log", yscale="log", xlabel="wrong modes K", ylabel="||R_F||")
        line[1].set_title(f"wrong modes {kind}")
        line[0].legend(fontsize=7)
        line[2].legend(fontsize=7)
    save(figure, path, rows)
