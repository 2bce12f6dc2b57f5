"""App. H.3's choice of gamma, repeated on cluster runs: the paper takes the gamma with the highest
"average in-domain math pass@1 at the best checkpoint".

Chosen exponents are rows of Table 1; others belong to the scales `cluster_v2` (Table 6) and
`cluster_sweeps`. A run's exponent is read from its configuration.
"""

from pathlib import Path

import pandas as pd

from common.comparison.cluster_figures import Drawn, LeftOut
from common.comparison.gather import Gathered
from common.config.files import ROOT
from common.evaluation.checkpoints import best_step
from common.palette import look
from common.plotting import panels
from common.results.collect import config_of

# the math sets, as the training curves name them
SETS = ["aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench"]
SWEPT = (0.5, 1.0, 2.0)
GROUP = ["model", "method"]
KEPT = [*GROUP, "gamma", "seed", "step", "value", "best", "chosen", "printed_gamma"]


def curves(root: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Return every math pass@1 along the training of the focal runs whose folders are there: model,
    method (without its exponent), gamma, seed, benchmark, metric, step, value."""
    mine = rows[rows["benchmark"].isin(SETS) & (rows["metric"] == "pass@1")]
    mine = mine[mine["method"].str.startswith("F-")]
    known = {}
    for run_id in mine["run_id"].unique():
        method = config_of(root / "f_grpo" / run_id).get("method") or {}
        known[run_id] = (method.get("advantage") or {}).get("gamma")
    mine = mine.assign(gamma=mine["run_id"].map(known).astype(float))
    mine["method"] = mine["method"].str.replace(r" \(.*\)$", "", regex=True)
    columns = [*GROUP, "gamma", "seed", "benchmark", "metric", "step", "value"]
    return mine.dropna(subset=["gamma"])[columns].drop_duplicates()


def choice(found: pd.DataFrame) -> pd.DataFrame:
    """Return the columns KEPT without `printed_gamma`, for one model and method.

    `value` is the mean over the math sets at each step, `best` marks the best step of each run, and
    `chosen` the gamma whose value there, averaged over seeds, is highest (the smallest of a tie).
    The best step is searched up to the end of the shortest run.
    """
    runs = found.groupby(["gamma", "seed"])
    shortest = int(runs["step"].max().min())
    parts = []
    for (gamma, seed), run in runs:
        at = best_step(run, shortest)
        wide = run.pivot_table(index="step", columns="benchmark", values="value").dropna()
        curve = wide.mean(axis=1).rename("value").reset_index()
        parts.append(curve.assign(gamma=gamma, seed=seed, best=curve["step"] == at))
    table = pd.concat(parts, ignore_index=True)
    means = table[table["best"]].groupby("gamma")["value"].mean()
    first = found.iloc[0]
    return table.assign(**first[GROUP], chosen=table["gamma"] == means.idxmax())


def printed() -> dict[tuple[str, str], float]:
    """Return the printed exponent of each (model, method), from v2's Tables 6 and 7."""
    table = pd.read_csv(ROOT / "papers" / "f_grpo" / "published" / "hyperparameters.csv", dtype=str)
    rows = table[(table["scope"] == "gamma") & table["parameter"].str.contains(" F-")]
    named = rows.set_index("parameter")["value"].astype(float)
    return {(*name.rsplit(" ", 1),): value for name, value in named.items()}


def draw(root: Path, cells: pd.DataFrame, cluster: Gathered) -> Drawn:
    """Draw the curves of every model and method that was trained with all swept exponents. The
    caption says which exponent each of them chooses."""
    known = printed()
    groups = {key: part for key, part in curves(root, cluster.rows).groupby(GROUP, sort=False)}
    whole = {key: part for key, part in groups.items() if {*SWEPT} <= {*part["gamma"]}}
    lacking = [f"{method} of {model}" for model, method in known if (model, method) not in whole]
    waits = f"no curve of gamma 0.5, 1 and 2 of {', '.join(lacking)}" if lacking else ""
    if not whole:
        raise LeftOut(waits)
    tables = [choice(part).assign(printed_gamma=known.get(key)) for key, part in whole.items()]
    across = min(3, len(tables))
    figure, axes = panels(across, -(-len(tables) // across), width=2.9, height=2.5)
    for axis in axes.flatten()[len(tables) :]:
        axis.axis("off")
    for axis, table in zip(axes.flatten(), tables, strict=False):
        for gamma, part in table.groupby("gamma"):
            mean = part.groupby("step")["value"].mean()
            color = look(f"F-GRPO (N=8, gamma={gamma:g})").color
            axis.plot(mean.index, mean, color=color, label=f"gamma = {gamma:g}")
        axis.set(title=" ".join(table.iloc[0][GROUP]), xlabel="step")
    axes[0, 0].set_ylabel("math pass@1 (%)")
    axes[0, 0].legend()
    said = "; ".join(map(_said, tables))
    caption = f"App. H.3, gamma by the mean math pass@1 of the best checkpoint: {said}."
    caption += f" Not here: {waits}." if waits else ""
    return figure, pd.concat(tables)[KEPT], caption


def _said(table: pd.DataFrame) -> str:
    best = table[table["best"]].groupby("gamma")["value"].mean()
    model, method = table.iloc[0][GROUP]
    values = ", ".join(f"{gamma:g}: {value:.1f}" for gamma, value in best.items())
    chosen = table.loc[table["chosen"], "gamma"].iloc[0]
    return f"{model} {method} {chosen:g} ({values}), printed {table['printed_gamma'].iloc[0]:g}"
