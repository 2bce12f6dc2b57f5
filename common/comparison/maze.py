"""The second laptop testbed (SCALE=laptop_maze). Its results are shown beside the results of
Subset-Countdown and never mixed with them.

Beside the gathered tables in <root>/<paper>/laptop_maze/ (gather.py) it writes training.csv (means
of ten steps), table.csv, differences.csv and table.md, which shows both; and the figures
<root>/<paper>/figures/laptop_maze_*. Where the run folders are not there, the stored gathered
tables and training.csv are kept.
"""

from pathlib import Path

import pandas as pd

from common.claims.gaps import MIN_SEEDS, combine
from common.claims.select import Missing, indexed, on_shared_seeds, select
from common.comparison import laptop_figures, training
from common.comparison.gather import MAZES, Gathered, read
from common.comparison.laptop_figures import Colors
from common.comparison.spec import Columns
from common.palette import look
from common.plotting import panels, save
from common.results.files import write, write_csv
from common.results.tables import markdown

# entropy: of the rollouts, exact, nats per token; alpha, delta: of FADE's controller, else empty
LOGGED = [
    "entropy",
    "reward",
    "solve_rate",
    "active_groups",
    "response_length",
    "rollout_batches",
    "alpha",
    "delta",
]
CURVES = ["method", "seed", "step", *LOGGED]
SHOWN: Columns = {
    "natural pass@1": ("natural", "pass@1"),
    "natural pass@64": ("natural", "pass@64"),
    "rare pass@1": ("rare", "pass@1"),
    "rare pass@64": ("rare", "pass@64"),
    "distinct right paths (natural)": ("natural", "distinct_correct"),
    "tokens (natural)": ("natural", "response_length"),
    "token entropy (natural)": ("natural", "token_entropy"),
    "active groups %": ("training", "active_groups"),
}
DIFFERENCES = ["method", "against", "column", "difference", "low", "high", "seeds"]
HEAD = """# {title}: mazes with loops

The second laptop testbed (configs/data/maze_laptop.yaml): mean ± standard error over the seeds that
finished, after the last step. Another model and another task than the paper's and than
Subset-Countdown: these rows stand beside those, never for them.

"""
AGAINST = """
Differences, with 95 % intervals over seeds and problems (the last four columns: over seeds alone);
none is corrected for how many there are, and no claim of the paper is decided on them.

"""


def measure(root: Path, paper: str, mazes: Gathered) -> None:
    """Write the training curves of every gathered run to training.csv."""
    curves = [
        training.blocks(log.reindex(columns=["step", *LOGGED]), LOGGED).assign(
            method=run["method"], seed=run["seed"]
        )
        for run, log in training.logs(root, paper, mazes.rows)
    ]
    training.keep(root / paper / MAZES / "training.csv", curves, CURVES)


def page(root: Path, paper: str) -> Path:
    """Return the path of table.md, which `draw` writes for readers."""
    return root / paper / MAZES / "table.md"


def draw(
    root: Path, paper: str, title: str, colors: Colors, against: dict[str, str] | None = None
) -> None:
    """Write tables and figures from the stored rows; write nothing where there are none. `colors`
    names the methods of the figures, in the order of the legend; `against` maps each method to the
    one it is compared with."""
    home, figures = root / paper / MAZES, root / paper / "figures"
    rows, counts = read(root, paper, MAZES)
    if rows.empty:
        return
    shown = table(rows)
    write_csv(home / "table.csv", shown)
    compared = differences(rows, counts, against or {})
    write_csv(home / "differences.csv", compared)
    text = HEAD.format(title=title) + as_text(shown)
    if len(compared):
        text += AGAINST + differences_as_text(compared)
    write(page(root, paper), text)
    laptop_figures.draw(rows, colors, figures, final=True)  # as in the table
    curves = training.kept(home / "training.csv", CURVES)
    logged(curves, colors, figures / f"{MAZES}_logged")


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return method, column (of SHOWN), mean, stderr and number of seeds after the last step, with
    the base model first."""
    last = laptop_figures.last(rows)
    titles = {key: column for column, key in SHOWN.items()}
    keys = zip(last["benchmark"], last["metric"], strict=True)
    kept = last.assign(column=[titles.get(key) for key in keys]).dropna(subset=["column"])
    grouped = kept.groupby(["method", "column"], sort=False)["value"]
    lines = grouped.agg(mean="mean", stderr="sem", seeds="size").reset_index()
    return lines.sort_values(
        "method", key=lambda names: names != "base", kind="stable", ignore_index=True
    )


def by_method(shown: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `table` as text, one row per method: method, seeds, SHOWN."""
    cells = {
        (line.method, line.column): f"{line.mean:.3g} ± {line.stderr:.2g}"
        if line.seeds > 1
        else f"{line.mean:.3g}"
        for line in shown.itertuples()
    }
    seeds = shown.groupby("method")["seeds"].max()
    lines = [
        [method, str(seeds[method]), *(cells.get((method, column), "") for column in SHOWN)]
        for method in shown["method"].unique()
    ]
    return pd.DataFrame(lines, columns=["method", "seeds", *SHOWN])


def as_text(shown: pd.DataFrame) -> str:
    lines = by_method(shown)
    return markdown(list(lines), lines.to_numpy().tolist(), "l" + "r" * (1 + len(SHOWN)))


def differences(rows: pd.DataFrame, counts: pd.DataFrame, against: dict[str, str]) -> pd.DataFrame:
    """Return DIFFERENCES: each method's value in a column of SHOWN minus the value of the method it
    is compared `against`, after the last step, on the seeds that both have. Differences with fewer
    than MIN_SEEDS such seeds are left out."""
    found, behind = [], indexed(counts)
    for method, other in against.items():
        for column, (benchmark, metric) in SHOWN.items():
            sides = []
            for name in (method, other):
                one = {"table": MAZES, "method": name, "benchmark": benchmark, "metric": metric}
                try:
                    sides.append(select(MAZES, one, rows, behind))
                except Missing:
                    break
            if len(sides) < 2 or len(set(sides[0].seeds) & set(sides[1].seeds)) < MIN_SEEDS:
                continue
            a, b = on_shared_seeds(sides, MIN_SEEDS)
            gap = combine([(1, a), (-1, b)])
            low, high = gap.interval.bounds()
            found.append([method, other, column, gap.interval.value, low, high, len(a.seeds)])
    return pd.DataFrame(found, columns=DIFFERENCES)


def differences_as_text(compared: pd.DataFrame) -> str:
    """Return the rows of `differences` as a markdown table, one line per pair."""
    cells = {
        (line.method, line.column): f"{line.difference:.3g} [{line.low:.3g}, {line.high:.3g}]"
        for line in compared.itertuples()
    }
    lines = [
        [f"{method} minus {other}", str(seeds), *(cells.get((method, x), "") for x in SHOWN)]
        for (method, other), seeds in compared.groupby(["method", "against"], sort=False)["seeds"]
        .max()
        .items()
    ]
    return markdown(["", "seeds", *SHOWN], lines, "l" + "r" * (1 + len(SHOWN)))


def logged(curves: pd.DataFrame, colors: Colors, path: Path) -> None:
    """Draw what training logged, by step: entropy, solve rate, response length and groups with
    mixed rewards. Thick lines are means over seeds, thin lines are seeds."""
    shown = laptop_figures.present(curves, colors)
    if not shown:
        return
    titles = {
        "entropy": "policy entropy (nats a token)",
        "solve_rate": "right answers (share)",
        "response_length": "tokens a response",
        "active_groups": "groups with mixed rewards (share)",
    }
    figure, axes = panels(2, 2, width=3.4, height=2.5)
    for axis, (column, title) in zip(axes.flat, titles.items(), strict=True):
        for method, color in shown.items():
            runs = curves[curves["method"] == method]
            for _, seed in runs.groupby("seed"):
                axis.plot(seed["step"], seed[column], color=color, lw=0.5, alpha=0.35)
            mean = runs.groupby("step")[column].mean()
            line = look(method).line
            axis.plot(mean.index, mean, color=color, linestyle=line, label=method)
        axis.set(xlabel="step", title=title)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    save(figure, path, curves[curves["method"].isin(list(shown))])
