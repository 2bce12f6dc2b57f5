"""Fig. 3 from the logs of cluster runs; compare.yaml states Fig. 1."""

from pathlib import Path

import pandas as pd

from common.comparison.cluster_figures import Drawn, LeftOut
from common.comparison.gather import Gathered
from common.comparison.spec import matches
from common.comparison.training import logs
from common.losses import contributions
from common.palette import look
from common.plotting import band, panels
from papers.cov_grpo.compare import SEC22, TRACKED

HELD = ["model", "method", "seed", "share", "contribution", "low", "high", "steps", "last"]


def fig3(root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw the part of all covariances that a few tokens hold. The line is the mean over the
    tracked steps, the band their range."""
    mine = cluster.rows[matches(cluster.rows, SEC22)]
    spreads = [
        held(log).assign(**SEC22, seed=run["seed"]) for run, log in logs(root, "cov_grpo", mine)
    ]
    parts = [spread for spread in spreads if len(spread)]
    if not parts:
        words = f"no {SEC22['method']} of {SEC22['model']} logged a step with covariances=true"
        raise LeftOut(words)
    drawn = pd.concat(parts, ignore_index=True)[HELD]
    figure, axes = panels(1, width=4.2, height=3.0)
    axis, color = axes[0, 0], look(SEC22["method"]).color
    for _, seed in drawn.groupby("seed"):
        x = 100 * seed["share"]
        part = 100 * seed[["contribution", "low", "high"]]
        band(axis, x, part, color, "contribution", marker="o", markersize=3)
    axis.plot(x, x, color="k", ls=":", lw=0.8, label="all tokens alike")
    axis.set(xscale="log", ylim=(0, 102))
    axis.set(xlabel="tokens of largest |covariance| (%)", ylabel="of the sum of |covariance| (%)")
    axis.legend(fontsize=7)
    steps, last = (" or ".join(map(str, sorted(set(drawn[key])))) for key in ("steps", "last"))
    caption = (
        f"Fig. 3: cumulative contribution of covariance values, {SEC22['method']} of "
        f"{SEC22['model']}, {drawn['seed'].nunique()} run(s): all tokens of a step, means over "
        f"them; line: mean over {steps} logged steps up to step {last}, band: smallest to largest. "
        "The paper prints no numbers of it."
    )
    return figure, drawn, caption


def held(log: pd.DataFrame) -> pd.DataFrame:
    """Return Fig. 3's curve of one run from its log; empty if no tracked step logged covariances.

    Columns: share (fraction of the tokens); contribution (fraction of sum |c|, averaged over the
    first TRACKED steps with equal weight); low and high, its range over these steps; steps, how
    many logged it; last, the last step that did.

    The laptop's curve pools the tokens of all steps instead (covariance/tables.py). For its own 50
    steps of GRPO the two curves differ by less than 0.8 points from a share of 0.2 % upward; below
    that, a single step has too few tokens for the share.
    """
    columns = [name for name in log if name.startswith(contributions.PREFIX)]
    tracked = log.loc[log["step"] <= TRACKED, ["step", *columns]].dropna()
    if not columns or tracked.empty:
        return pd.DataFrame()
    values = tracked[columns]
    spread = pd.DataFrame(
        {"contribution": values.mean(), "low": values.min(), "high": values.max()}
    ).reset_index(drop=True)
    spread["share"] = [float(name.removeprefix(contributions.PREFIX)) for name in columns]
    whole = pd.DataFrame([{"share": 1.0, "contribution": 1.0, "low": 1.0, "high": 1.0}])
    spread = pd.concat([spread.sort_values("share"), whole], ignore_index=True)
    return spread.assign(steps=len(tracked), last=tracked["step"].max())
