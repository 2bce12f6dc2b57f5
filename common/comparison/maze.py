"""The second laptop testbed (SCALE=laptop_maze): what its runs show, beside Subset-Countdown's and
never among them.

From the finished runs of scope `laptop_maze` it writes <root>/<paper>/laptop_maze/: metrics.csv,
counts.csv.gz and runs.csv (gather.py), training.csv (means of ten steps), table.csv and table.md;
and the figures <root>/<paper>/figures/laptop_maze_*. Where the run folders are not there, tables
that came without them are kept.
"""

from pathlib import Path

import pandas as pd

from common.comparison import gather as gather_module
from common.comparison import laptop_figures, training
from common.comparison.laptop_figures import Colors
from common.comparison.spec import Columns
from common.palette import look
from common.plotting import panels, save
from common.results.files import write, write_csv
from common.results.tables import markdown

SCOPE = "laptop_maze"
# entropy: nats a token, exact, of the rollouts; alpha, delta: of FADE's controller, else empty
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
HEAD = """# {title}: mazes with loops

The second laptop testbed (configs/data/maze_laptop.yaml): mean ± standard error over the seeds that
finished, after the last step. Another model and another task than the paper's and than
Subset-Countdown: these rows stand beside those, never for them.

"""


def gather(root: Path, paper: str) -> None:
    """The rows, counts, provenance and training curves of every finished run."""
    gather_module.gather(root, paper, SCOPE)
    rows, _ = gather_module.read(root, paper, SCOPE)
    curves = [
        training.blocks(log.reindex(columns=["step", *LOGGED]), LOGGED).assign(
            method=run["method"], seed=run["seed"]
        )
        for run, log in training.logs(root, paper, rows)
    ]
    training.keep(root / paper / SCOPE / "training.csv", curves, CURVES)


def draw(root: Path, paper: str, title: str, colors: Colors) -> str:
    """Tables and figures from what was gathered; the table as markdown, "" where there is none.
    `colors` names the methods of the figures, in the order of the legend."""
    home, figures = root / paper / SCOPE, root / paper / "figures"
    rows, _ = gather_module.read(root, paper, SCOPE)
    if rows.empty:
        return ""
    shown = table(rows)
    write_csv(home / "table.csv", shown)
    text = HEAD.format(title=title) + as_text(shown)
    write(home / "table.md", text)
    laptop_figures.draw(rows, colors, figures)
    curves = training.kept(home / "training.csv", CURVES)
    logged(curves, colors, figures / f"{SCOPE}_logged")
    return text


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """method, column (of SHOWN), mean, stderr, seeds after the last step, the base model first."""
    last = laptop_figures.last(rows)
    titles = {key: column for column, key in SHOWN.items()}
    keys = zip(last["benchmark"], last["metric"], strict=True)
    kept = last.assign(column=[titles.get(key) for key in keys]).dropna(subset=["column"])
    grouped = kept.groupby(["method", "column"], sort=False)["value"]
    lines = grouped.agg(mean="mean", stderr="sem", seeds="size").reset_index()
    return lines.sort_values(
        "method", key=lambda names: names != "base", kind="stable", ignore_index=True
    )


def as_text(shown: pd.DataFrame) -> str:
    """The same, one line a method."""
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
    return markdown(["method", "seeds", *SHOWN], lines, "l" + "r" * (1 + len(SHOWN)))


def logged(curves: pd.DataFrame, colors: Colors, path: Path) -> None:
    """What training logged, by step: entropy, solve rate, length and groups with mixed rewards;
    thick lines are means over seeds, thin ones seeds."""
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
