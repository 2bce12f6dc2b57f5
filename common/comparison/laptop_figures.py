"""The figures of a paper's laptop runs, toys and simulations, from its result tables alone.

    rlvr figures paper=NAME [results_dir=results]

Writes <results_dir>/NAME/figures/ by papers/NAME/figures.py. The figures that every paper has are
drawn here: `colors` names the main methods, which are compared, in the order of the legend.
`python -m papers.NAME.theory` draws the figures of the theory.
"""

from pathlib import Path

import pandas as pd

from common.claims.judge import LAST
from common.comparison.matched import curves
from common.config.files import ROOT, papers, studies
from common.config.resolve import named
from common.config.words import options
from common.errors import one_of, require
from common.palette import look
from common.plotting import COLORS, legend, panels, save

Colors = dict[str, str]  # method -> color
Shown = dict[str, tuple[str, str]]  # title -> (benchmark, metric)


def main(words: list[str]) -> None:
    given = options(words, {"paper": "", "results_dir": "results"})
    paper, root = given["paper"], Path(given["results_dir"])
    one_of("paper", paper, studies())
    remedy = f"has no {paper}/; run `rlvr reproduce paper={paper}` first"
    require((root / paper).is_dir() or paper not in papers(), "results_dir", root, remedy)
    draw_paper(paper, root)
    folder = root / paper / "figures"
    print(f"figures: {len(list(folder.glob('*.png')))} in {folder}")


def draw_paper(paper: str, root: Path) -> None:
    """Draw every figure that the results below `root` allow into <root>/<paper>/figures/."""
    if (ROOT / "papers" / paper / "figures.py").exists():  # a paper may have none
        named({"_target_": f"papers.{paper}.figures.draw"}, "figures")(root)


def draw(rows: pd.DataFrame, colors: Colors, folder: Path) -> None:
    """Draw the figures `training`, `matched`, `passk` and `methods` of every table, as
    <folder>/<table>_<figure>."""
    for table in tables(rows, colors):
        shown = rows[(rows["table"] == table) | (rows["method"] == "base")]
        training(shown, colors, folder / f"{table}_training")
        at_matched(shown, table, colors, folder / f"{table}_matched")
        pass_at_k(shown, colors, folder / f"{table}_passk")
        methods(late(shown), folder / f"{table}_methods")


def tables(rows: pd.DataFrame, colors: Colors) -> list[str]:
    """Return the tables with a run of a main method."""
    main = rows["method"].isin(colors) & (rows["method"] != "base")
    return rows.loc[main, "table"].unique().tolist()


def present(rows: pd.DataFrame, colors: Colors) -> Colors:
    """Return the main methods that have rows."""
    return {method: color for method, color in colors.items() if method in set(rows["method"])}


def style(method: str) -> dict[str, str]:
    """Return the line style and marker of a method."""
    return {"linestyle": look(method).line, "marker": look(method).marker}


def training(rows: pd.DataFrame, colors: Colors, path: Path) -> None:
    """Draw what was measured along training: mean and standard error over seeds."""
    shown = {
        "natural pass@1 (%)": ("natural", "pass@1"),
        "rare pass@64 (%)": ("rare", "pass@64"),
        "token entropy, natural (nats)": ("natural", "token_entropy"),
        "Delta NLL, base-rare correct (nats)": ("rare-correct set", "delta_NLL_rare"),
    }
    shown = {title: key for title, key in shown.items() if key[1] in set(rows["metric"])}
    figure, axes = panels(len(shown), width=3.0, height=2.9)
    drawn = along(axes[0], rows, colors, shown)
    legend(figure, axes[0, 0], 4)
    save(figure, path, drawn)


def along(
    axes, rows: pd.DataFrame, colors: Colors, shown: Shown, steps: list[int] | None = None
) -> pd.DataFrame:
    """Draw a panel for each of `shown` along training (at these `steps`): mean and standard error
    over seeds. Return what was drawn."""
    drawn = []
    for axis, (title, (benchmark, metric)) in zip(axes, shown.items(), strict=False):
        for method, color in present(rows, colors).items():
            curve = over_seeds(rows, method, benchmark, metric, "step")
            curve = curve if steps is None else curve[curve["step"].isin(steps)]
            drawn_as = {"color": color, "markersize": 3, "label": method} | style(method)
            axis.errorbar(curve["step"], curve["mean"], curve["sem"], **drawn_as)
            drawn.append(curve.assign(method=method, benchmark=benchmark, metric=metric))
        axis.set(xlabel="step", title=title)
    return pd.concat(drawn)


def at_matched(rows: pd.DataFrame, table: str, colors: Colors, path: Path) -> None:
    """Draw diversity against accuracy along training: thin lines are seeds, thick lines their mean
    at each step."""
    points = curves(rows, table)
    figure, axes = panels(1, width=5.2, height=3.6)
    axis = axes[0, 0]
    for method, color in present(points, colors).items():
        seeds = points[points["method"] == method]
        for _, curve in seeds.groupby("seed"):
            axis.plot(curve["accuracy"], curve["diversity"], color=color, alpha=0.25, linewidth=0.8)
        mean = seeds.groupby("step")[["accuracy", "diversity"]].mean()
        axis.plot(mean["accuracy"], mean["diversity"], color=color, label=method, **style(method))
    axis.set(
        xlabel="natural pass@1 (%)",
        ylabel="rare pass@64 (%)",
        title="by checkpoint; thin lines are seeds",
    )
    axis.legend()
    save(figure, path, points)


def pass_at_k(
    rows: pd.DataFrame, colors: Colors, path: Path, benchmarks: tuple = ("natural", "rare")
) -> None:
    """Draw pass@k against k after the last step, on prompts of each kind: mean and standard error
    over seeds."""
    figure, axes = panels(len(benchmarks), width=3.6)
    ends, drawn = last(rows[rows["metric"].str.startswith("pass@")]), []
    for axis, benchmark in zip(axes[0], benchmarks, strict=True):
        for method, color in ({"base": COLORS[7]} | present(rows, colors)).items():
            curve = over_seeds(ends, method, benchmark, None, "k")
            line = "--" if method == "base" else look(method).line
            drawn_as = {"color": color, "linestyle": line, "label": method}
            axis.errorbar(curve["k"], curve["mean"], curve["sem"], **drawn_as)
            drawn.append(curve.assign(method=method, benchmark=benchmark))
        axis.set_xscale("log", base=2)
        axis.set(xlabel="k", ylabel="pass@k (%)", title=f"{benchmark} prompts")
    legend(figure, axes[0, 0], 3)
    save(figure, path, pd.concat(drawn))


def methods(ends: pd.DataFrame, path: Path) -> None:
    """Draw accuracy and diversity of every method from its `late` rows: mean and standard error
    over seeds, the base model first, then by name."""
    shown = [("natural", "pass@1"), ("rare", "pass@64"), ("natural", "distinct_correct")]
    names = sorted(ends["method"].unique(), key=lambda name: (name != "base", name))[::-1]
    figure, axes = panels(len(shown), width=2.6, height=0.9 + 0.22 * len(names), sharey=True)
    drawn = []
    for axis, (benchmark, metric) in zip(axes[0], shown, strict=True):
        for y, method in enumerate(names):
            point = over_seeds(ends, method, benchmark, metric, "method")
            color = look(method).color
            axis.errorbar(point["mean"], [y] * len(point), xerr=point["sem"], fmt="o", color=color)
            drawn.append(point.assign(benchmark=benchmark, metric=metric))
        title = metric.replace("_", " ") + ("" if metric == "distinct_correct" else " (%)")
        axis.set(xlabel=f"{benchmark} {title}")
        axis.set_yticks(range(len(names)), names)
    save(figure, path, pd.concat(drawn))


def late(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run and measure: the mean of its last LAST checkpoints, which is what
    claims read (docs/evidence.md). `distinct_correct` depends on the number of samples, so it is
    read only at checkpoints with as many samples as the last one."""
    runs = rows.groupby("run_id")
    ends = rows[rows["step"] == runs["step"].transform("max")]
    sizes = ends.groupby(["run_id", "benchmark"])["n_samples"].first().rename("final").reset_index()
    alike = rows["n_samples"].eq(
        rows[["run_id", "benchmark"]].merge(sizes, how="left").set_index(rows.index)["final"]
    )
    read = alike | (rows["metric"] != "distinct_correct")
    recent = runs["step"].rank(method="dense", ascending=False) <= LAST
    by = ["table", "method", "seed", "run_id", "benchmark", "metric"]
    return rows[read & recent].groupby(by, sort=False, as_index=False)["value"].mean()


def last(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["step"] == rows.groupby("run_id")["step"].transform("max")]


def over_seeds(rows, method: str, benchmark: str, metric: str | None, by: str) -> pd.DataFrame:
    """Return mean and standard error over seeds of one method's values, by step, k or method. By
    step, step 0 is the base model: for the method's own seeds where it was measured for them, else
    for all seeds."""
    values = rows[(rows["method"] == method) & (rows["benchmark"] == benchmark)]
    values = values if metric is None else values[values["metric"] == metric]
    grouped = values.groupby(by)["value"].agg(["mean", "sem", "size"]).reset_index()
    if by == "step" and metric is not None:
        base = rows[(rows["method"] == "base") & (rows["benchmark"] == benchmark)]
        base = base[base["metric"] == metric]
        own = base[base["seed"].isin(values["seed"])]
        base = own if len(own) else base
        start = base.groupby("step")["value"].agg(["mean", "sem", "size"]).reset_index()
        grouped = pd.concat([start, grouped], ignore_index=True)
    return grouped.rename(columns={"size": "n_seeds"})
