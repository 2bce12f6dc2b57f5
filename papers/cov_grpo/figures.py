"""Figures of the covariance statistics and of the laptop runs, from result files alone.

python -m papers.cov_grpo.figures [results_dir=results]
"""

from pathlib import Path

import pandas as pd

from common.cli import guard, options
from common.comparison import laptop_figures
from common.comparison.gather import LAPTOP, read
from common.config.compose import ROOT
from common.plotting import COLORS, panels, save
from papers.cov_grpo import laptop
from papers.cov_grpo.statistics import agreement

MAIN = {
    "GRPO": COLORS[0],
    "CW-GRPO": COLORS[1],
    "Clip-Cov": COLORS[2],
    "CW-GRPO (by group)": COLORS[3],
    "CW-GRPO (repository)": COLORS[4],
}
CHECKPOINTS = (1, 1.5, 2)  # horizons, Table 3
LINES = {"token": "-", "sequence": "--"}


def draw(root: Path) -> None:
    """Every figure that the results below `root` allow, into <root>/cov_grpo/figures/."""
    folder, source = root / "cov_grpo" / "figures", root / "cov_grpo" / "covariance"
    if (source / "steps.csv").exists():
        spread(source, folder / "covariance")
        weights(source, folder / "weights")
        drift(source, folder / "entropy_drift")
    rows, _ = read(root, "cov_grpo", LAPTOP)
    laptop_figures.draw(rows, MAIN, folder)
    curves, measured = laptop.read(root, "training"), laptop.read(root, "stability")
    for table in rows["table"].unique():
        own = rows[(rows["table"] == table) | (rows["method"] == "base")]
        fig1(curves[curves["table"] == table], folder / f"{table}_fig1")
        table3(own, folder / f"{table}_table3")
        stability(measured[measured["table"] == table], folder / f"{table}_stability")


def spread(source: Path, path: Path) -> None:
    """Fig. 3 and Table 1: how much the tokens of largest |c| hold, and |c| at percentiles beside
    the printed ones."""
    held, at = (pd.read_csv(source / f"{name}.csv") for name in ("cumulative", "percentiles"))
    figure, axes = panels(3, width=3.3, height=2.9)
    for mean, style in LINES.items():
        for tokens, color in (("all", COLORS[0]), ("active", COLORS[1])):
            own = held[(held["mean"] == mean) & (held["tokens"] == tokens)]
            axes[0, 0].plot(
                100 * own["share"], 100 * own["contribution"], style, color=color, marker="o",
                markersize=3, label=f"{tokens} tokens, {mean} mean",
            )  # fmt: skip
    axes[0, 0].set(xscale="log", xlabel="tokens of largest |c| (%)", ylabel="of sum |c| (%)")
    axes[0, 0].set_title("Fig. 3: cumulative contribution", fontsize=9)
    axes[0, 0].legend(fontsize=7)
    printed = pd.read_csv(ROOT / "papers" / "cov_grpo" / "published" / "table1.csv")
    printed["share"] = printed["benchmark"].str.extract(r"([\d.]+)%")[0].astype(float) / 100
    printed = printed.assign(side=printed["metric"].str.removesuffix("_covariance"))
    for axis, side in zip(axes[0, 1:], ("positive", "negative"), strict=True):
        own = printed[printed["side"] == side]
        axis.plot(100 * own["share"], own["value"].abs(), "k*", label="printed (1.5B)")
        for reading, style in (("threshold", "-"), ("mean", "--")):
            for tokens, color in (("all", COLORS[0]), ("active", COLORS[1])):
                own = at[(at["side"] == side) & (at["tokens"] == tokens) & (at["mean"] == "token")]
                own = own[own["reading"] == reading]
                axis.plot(
                    100 * own["share"], own["value"].abs(), style, color=color,
                    label=f"{tokens} tokens, {reading}",
                )  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel=f"of {side} tokens (%)", ylabel="|c|")
        axis.set_title(f"Table 1: {side} covariance", fontsize=9)
    axes[0, 1].legend(fontsize=7)
    at = at.rename(columns={"value": "covariance"})
    shown = printed.rename(columns={"value": "covariance"})[["side", "share", "covariance"]]
    save(figure, path, pd.concat([held, at, shown.assign(reading="printed")]))


def weights(source: Path, path: Path) -> None:
    """The Gaussian weights of tokens with a gradient, by reading, and their mean along training."""
    bins, steps = (pd.read_csv(source / f"{name}.csv") for name in ("histogram", "weights"))
    figure, axes = panels(2, width=4.0, height=2.9)
    for color, reading in zip(COLORS, bins["reading"].unique(), strict=False):
        own, along = bins[bins["reading"] == reading], steps[steps["reading"] == reading]
        axes[0, 0].stairs(
            own["percent"], [*own["low"], own["high"].iloc[-1]], color=color, label=reading
        )
        axes[0, 1].plot(along["step"], along["mean_active"], color=color, label=reading)
    padded = steps[steps["reading"] == steps["reading"].iloc[0]]
    axes[0, 1].plot(
        padded["step"], padded["padded"], color=COLORS[7], ls="--",
        label="padded size / tokens (the repository's factor)",
    )  # fmt: skip
    axes[0, 1].axhline(1, color="k", lw=0.8)
    axes[0, 0].set(xlabel="normalised weight", ylabel="% of tokens with a gradient")
    axes[0, 1].set(xlabel="step", title="mean weight of tokens with a gradient", ylim=(0, None))
    for axis in axes[0]:
        axis.legend(fontsize=7)
    save(figure, path, pd.concat([bins, steps]))


def drift(source: Path, path: Path) -> None:
    """-eta Cov against the measured change of entropy, a point a step: a plain gradient step, and
    the AdamW step that training takes."""
    steps = pd.read_csv(source / "steps.csv")
    figure, axes = panels(2, width=3.6, height=3.0)
    titles = {"plain": "plain gradient step", "adamw": "AdamW step"}
    for axis, (kind, title) in zip(axes[0], titles.items(), strict=True):
        measured = steps[f"measured_{kind}"]
        fit = agreement(steps["predicted"], measured)
        axis.plot(steps["predicted"], measured, "o", markersize=3)
        axis.axhline(0, color="k", lw=0.6)
        axis.axvline(0, color="k", lw=0.6)
        correlation = "undefined" if fit["correlation"] is None else f"{fit['correlation']:.2f}"
        axis.set_title(
            f"{title}\ncorrelation {correlation}, same sign {fit['same_sign']:.0f} %", fontsize=9
        )
        axis.set(xlabel=r"$-\eta\,\mathrm{Cov}$, $\eta$ of the plain step (nats)")
        axis.set(ylabel="measured (nats)")
        axis.ticklabel_format(scilimits=(-2, 2))
    save(figure, path, steps)


def fig1(curves: pd.DataFrame, path: Path) -> None:
    """Fig. 1: entropy along training, thin lines seeds, thick their mean; training reward beside
    it."""
    shown = laptop_figures.present(curves, MAIN)
    if not shown:
        return
    figure, axes = panels(2, width=4.0, height=2.9)
    for axis, metric in zip(axes[0], ("entropy", "reward"), strict=True):
        for method, color in shown.items():
            own = curves[curves["method"] == method]
            for _, seed in own.groupby("seed"):
                axis.plot(seed["step"], seed[metric], color=color, lw=0.6, alpha=0.35)
            mean = own.groupby("step")[metric].mean()
            axis.plot(mean.index, mean, color=color, label=method)
        axis.set(xlabel="step", title={"entropy": "policy entropy (nats a token)"}.get(metric))
    axes[0, 1].set_title("training reward")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, path, curves[curves["method"].isin(list(shown))])


def table3(rows: pd.DataFrame, path: Path) -> None:
    """Table 3's shape: accuracy and test entropy at 1, 1.5 and 2 horizons; mean and standard error
    over seeds."""
    shown = laptop_figures.present(rows, MAIN)
    last = rows["step"].max()
    steps = [int(last * share / CHECKPOINTS[-1]) for share in CHECKPOINTS]
    if not shown or not set(steps) <= set(rows["step"]):
        return
    cells = {
        "natural pass@1 (%)": ("natural", "pass@1"),
        "rare pass@1 (%)": ("rare", "pass@1"),
        "token entropy, natural (nats)": ("natural", "token_entropy"),
    }
    figure, axes = panels(3, width=3.0, height=2.9)
    drawn = []
    for axis, (title, (benchmark, metric)) in zip(axes[0], cells.items(), strict=True):
        for method, color in shown.items():
            curve = laptop_figures.over_seeds(rows, method, benchmark, metric, "step")
            curve = curve[curve["step"].isin(steps)]
            axis.errorbar(
                curve["step"], curve["mean"], curve["sem"], color=color, marker="o", label=method
            )
            drawn.append(curve.assign(method=method, benchmark=benchmark, metric=metric))
        axis.set_xticks(steps)
        axis.set(xlabel="step", title=title)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, path, pd.concat(drawn))


def stability(measured: pd.DataFrame, path: Path) -> None:
    """How stable entropy was (laptop.stability), dots are seeds, lines means."""
    names = list(laptop_figures.present(measured, MAIN))
    if not names:
        return
    metrics = ("entropy_range", "entropy_swing", "entropy_drop", "entropy_jitter", "entropy_end")
    figure, axes = panels(len(metrics), width=2.2, height=2.7)
    own = measured[measured["method"].isin(names)]
    for axis, metric in zip(axes[0], metrics, strict=True):
        for x, method in enumerate(names):
            values = own[(own["method"] == method) & (own["metric"] == metric)]["value"]
            style = dict(color=MAIN[method], markersize=4, alpha=0.6, clip_on=False)
            axis.plot([x] * len(values), values, "o", **style)
            axis.hlines(values.mean(), x - 0.3, x + 0.3, color=MAIN[method])
        axis.set_xticks(range(len(names)), names, fontsize=7, rotation=30, ha="right")
        axis.set(title=metric.replace("_", " ") + " (nats)", ylim=(0, None))
        axis.title.set_fontsize(8)
    save(figure, path, own)


if __name__ == "__main__":
    guard(lambda: draw(Path(options(__doc__, {"results_dir": "results"})["results_dir"])))
