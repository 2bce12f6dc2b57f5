"""The one figure of the theory, which the paper does not have."""

from pathlib import Path

import pandas as pd

from common.plotting import COLORS, panels, save
from papers.two_stage.theory.tables import TRAINED


def draw(tables: dict[str, pd.DataFrame], path: Path) -> None:
    """Draw Theorem 1's factor, Remark 2's shares, the error of Proposition 1 and how far the kernel
    moves, one panel each."""
    figure, axes = panels(4, width=2.9)
    one, two, three, four = axes[0]
    full = tables["theorem1"].query("method == 'full'")
    one.plot(full["G"], full["predicted"], color=COLORS[7], label="1 - 1/G")
    one.plot(full["G"], full["ratio"], "o", color=COLORS[0], label="exact step")
    one.axhline(1, color=COLORS[1], ls="--", label="Theorem 1 as printed")
    one.set(xlabel="group size G", ylabel="expected step / Theorem 1", ylim=(0, 1.1))
    one.legend(fontsize=7)
    remark = tables["remark2"]
    two.plot(
        remark["largest_p"], 100 * remark["fall"], "o-", color=COLORS[0], label="of the others"
    )
    two.plot(
        remark["largest_p"], 100 * remark["all_fall"], "s-", color=COLORS[1], label="all others"
    )
    two.axhline(100, color=COLORS[7], ls="--", label="Remark 2")
    two.set(xlabel="mean largest probability", ylabel="fall when v gains (%)", ylim=(0, 105))
    two.legend(fontsize=7)
    error = tables["proposition1"].groupby("eta")["relative_error"].median().reset_index()
    three.loglog(error["eta"], error["relative_error"], "o-", color=COLORS[0])
    three.set(xlabel=r"$\eta$", ylabel="relative error of Prop. 1")
    moved = tables["kernel"].groupby("width")["moved"].mean().reset_index()
    four.loglog(moved["width"], moved["moved"], "o-", color=COLORS[0])
    four.set(xlabel="width", ylabel=rf"$\|K - K_0\| / \|K_0\|$ at $\pi$ = {TRAINED}")
    drawn = [
        full.assign(panel="theorem1"),
        remark.assign(panel="remark2"),
        error.assign(panel="proposition1"),
        moved.assign(panel="kernel"),
    ]
    save(figure, path, pd.concat(drawn, ignore_index=True))
