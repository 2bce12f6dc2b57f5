"""Figures 1 to 5 of over_sharpening (Sec. 2.4, App. G, H), drawn from the toy's tables.

rlvr figures paper=over_sharpening [results_dir=results]
"""

from pathlib import Path

import pandas as pd

from common.plotting import band, legend, panels, pyplot, save

TITLES = {"raw": "raw", "mean": "mean-shifted", "normalised": "normalised"}
OPTIMIZERS = {"sgd": "SGD", "momentum": "momentum", "adamw": "AdamW"}


def draw(root: Path) -> None:
    """Draw toy_fig1 to toy_fig5 in <root>/over_sharpening/figures/, if the toy's tables are there.
    Its curves and traces use the main learning rate."""
    toy, folder = (root / "over_sharpening" / name for name in ("toy", "figures"))
    if not (toy / "final.csv.gz").exists():
        return
    curves, traces = (pd.read_csv(toy / f"{name}.csv.gz") for name in ("curves", "traces"))
    three = [(estimator, "sgd") for estimator in TITLES]
    probabilities(curves, traces, three, folder / "toy_fig1")
    siamese(curves, folder / "toy_fig2")
    two = [("RLOO", "sgd"), ("Reinforce++", "sgd")]
    probabilities(curves, traces, two, folder / "toy_fig3")
    four = [(e, o) for e in ("raw", "normalised") for o in ("momentum", "adamw")]
    probabilities(curves, traces, four, folder / "toy_fig4")
    calibrated(curves, folder / "toy_fig5")


def chosen(rows: pd.DataFrame, **values) -> pd.DataFrame:
    """Return the rows with these values. Where alpha or mu is not given it is 0: no calibration."""
    for name, value in ({"alpha": 0, "mu": 0} | values).items():
        rows = rows[rows[name] == value]
    return rows


def group_color(G: int, sizes: list[int]):
    return pyplot().get_cmap("viridis")(0.88 * sizes.index(G) / max(1, len(sizes) - 1))


def probabilities(curves, traces, cells: list[tuple], path: Path) -> None:
    """Draw pi(. | Persian) of Cat (solid) and Persian (dotted) in single seeds (upper panels), and
    the probability of the likelier of them, as mean and 10 to 90 % quantiles over seeds (lower
    panels)."""
    sizes = sorted(curves["G"].unique())
    figure, axes = panels(len(cells), 2, width=2.8, height=2.2, sharex=True, sharey=True)
    for column, (estimator, optimizer) in enumerate(cells):
        above, below = axes[:, column]
        for G in sizes:
            color = group_color(G, sizes)
            runs = chosen(traces, estimator=estimator, optimizer=optimizer, G=G)
            for _, seed in runs.groupby("seed"):
                above.plot(seed["step"], seed["p_cat"], color=color, lw=0.8)
                above.plot(seed["step"], seed["p_persian"], ":", color=color, lw=0.8)
            line = chosen(curves, estimator=estimator, optimizer=optimizer, G=G, metric="p_winner")
            band(below, line["step"], line, color, alpha=0.12, label=f"G = {G}")
        title = TITLES.get(estimator, estimator)
        above.set(title=f"{title}, {OPTIMIZERS[optimizer]}", ylim=(-0.03, 1.03))
        below.set(xlabel="step")
    axes[0, 0].set(ylabel=r"$\pi$(label | Persian)")
    for label, line in (("Cat", "-"), ("Persian", ":")):
        axes[1, 0].plot([], [], line, color="k", lw=0.8, label=label)
    axes[1, 0].set(ylabel="likelier of Cat, Persian")
    legend(figure, axes[1, 0], 6 if len(cells) > 2 else 3)
    save(figure, path, None)


def siamese(curves: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 2: pi(Siamese | Siamese) while training on Persian only, with raw rewards, SGD."""
    sizes = sorted(curves["G"].unique())
    figure, axes = panels(3, width=2.8, height=2.6, sharey=True)
    for axis, name in zip(axes[0], ("high", "mid", "low"), strict=True):
        for G in sizes:
            line = chosen(curves, estimator="raw", optimizer="sgd", G=G, metric=f"siamese_{name}")
            band(axis, line["step"], line, group_color(G, sizes), alpha=0.12, label=f"G = {G}")
        axis.set(xlabel="step", title=f"{name} similarity", yscale="log")
    axes[0, 0].set(ylabel=r"$\pi$(Siamese | Siamese)")
    legend(figure, axes[0, 0], 4)
    save(figure, path, None)


def calibrated(curves: pd.DataFrame, path: Path) -> None:
    """Draw Fig. 5: the probability of the likelier correct label with IAC, and with IAC and the
    memory network (DLC). Grey lines are the same setting without either."""
    sizes = sorted(curves["G"].unique())
    rest = curves[(curves["alpha"] > 0) | (curves["mu"] > 0)]
    if rest.empty:
        return
    alpha, mu = rest["alpha"].max(), rest["mu"].max()
    estimators = [name for name in TITLES if name in set(rest["estimator"])]
    kinds = [(name, alpha, memory) for name in ("sgd", "adamw") for memory in (0, mu)]
    figure, axes = panels(4, len(estimators), width=2.5, height=2.2, sharex=True, sharey=True)
    for line, estimator in zip(axes, estimators, strict=True):
        for axis, (optimizer, alpha, mu) in zip(line, kinds, strict=True):
            for G in sizes:
                where = dict(estimator=estimator, optimizer=optimizer, G=G, metric="p_winner")
                plain = chosen(curves, **where)
                grey = dict(color="0.75", label="neither" if sizes[0] == G else None)
                axis.plot(plain["step"], plain["mean"], lw=1, **grey)
                curve = chosen(curves, **where, alpha=alpha, mu=mu)
                color = group_color(G, sizes)
                band(axis, curve["step"], curve, color, alpha=0.12, label=f"G = {G}")
            name = "IAC + DLC" if mu > 0 else "IAC"
            axis.set(title=f"{name}, {OPTIMIZERS[optimizer]}", ylim=(-0.03, 1.03))
        line[0].set(ylabel=f"{TITLES[estimator]}:\nlikelier of Cat, Persian")
    for axis in axes[-1]:
        axis.set(xlabel="step")
    legend(figure, axes[0, 0], 5)
    save(figure, path, None)
