"""Draw Figs 1 and 3 from cluster rows. `rlvr compare paper=cov_grpo` and the last job of a cluster
sweep run it. The paper does not say which model its Fig. 1 shows, so each model has one here."""

from pathlib import Path

import pandas as pd

from common.comparison.cluster_figures import PREFIX, Curve, Figure, along
from common.comparison.gather import Gathered
from common.comparison.spec import matches
from common.comparison.training import logs
from common.losses import contributions
from common.palette import look
from common.plotting import panels, save
from papers.cov_grpo.compare import SEC22, TRACKED

MODELS = {  # name of the figure: the model's name in Table 2
    "fig1_7b": "Qwen-2.5-Math-7B-Instruct",
    "fig1_15b": "DeepSeek-R1-Distill-Qwen-1.5B",
}
OURS = "GRPO + Gaussian Reweight (CW-GRPO)"  # its name in Table 2
CURVES = [
    Curve("policy entropy (nats a token)", column="entropy"),
    Curve("training reward", column="reward"),
]
HELD = ["model", "method", "seed", "share", "contribution", "low", "high", "steps", "last"]


def draw(root: Path, cells: pd.DataFrame, cluster: Gathered) -> list[Figure]:
    """Draw every figure whose rows exist into <root>/cov_grpo/figures/cluster_*.

    Return one Figure each: its caption, or the reason why it is left out. cells: not used here;
    cluster: the gathered cluster runs.
    """
    made = [
        along(
            root,
            "cov_grpo",
            cluster.rows,
            name=name,
            model=model,
            colors={"GRPO": look("GRPO").color, OURS: look("CW-GRPO").color},
            curves=CURVES,
            about=f"Fig. 1: entropy along training, {model}; the reward next to it is ours.",
        )
        for name, model in MODELS.items()
    ]
    return [*made, fig3(root, cluster.rows)]


def fig3(root: Path, rows: pd.DataFrame) -> Figure:
    """Draw Fig. 3: the part of all covariances that a few tokens hold.

    The line is the mean over the tracked steps, the band their range.
    """
    name = f"{PREFIX}fig3"
    mine = rows[matches(rows, SEC22)]
    parts = []
    for run, log in logs(root, "cov_grpo", mine):
        spread = held(log)
        parts += [spread.assign(**SEC22, seed=run["seed"])] if len(spread) else []
    if not parts:
        words = f"no {SEC22['method']} of {SEC22['model']} logged a step with covariances=true"
        return Figure(name, left_out=words)
    drawn = pd.concat(parts, ignore_index=True)[HELD]
    figure, axes = panels(1, width=4.2, height=3.0)
    axis, color = axes[0, 0], look(SEC22["method"]).color
    for _, seed in drawn.groupby("seed"):
        x = 100 * seed["share"]
        axis.fill_between(x, 100 * seed["low"], 100 * seed["high"], color=color, alpha=0.2, lw=0)
        axis.plot(x, 100 * seed["contribution"], color=color, marker="o", markersize=3)
    axis.plot(x, x, color="k", ls=":", lw=0.8, label="all tokens alike")
    axis.set(xscale="log", ylim=(0, 102))
    axis.set(xlabel="tokens of largest |covariance| (%)", ylabel="of the sum of |covariance| (%)")
    axis.legend(fontsize=7)
    save(figure, root / "cov_grpo" / "figures" / name, drawn)
    steps, last = (" or ".join(map(str, sorted(set(drawn[key])))) for key in ("steps", "last"))
    return Figure(
        name,
        f"Fig. 3: cumulative contribution of covariance values, {SEC22['method']} of "
        f"{SEC22['model']}, {drawn['seed'].nunique()} run(s): all tokens of a step, means over "
        f"them; line: mean over {steps} logged steps up to step {last}, band: smallest to largest. "
        "The paper prints no numbers of it.",
    )


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
