"""Figures 1 to 5 of over_sharpening (Sec. 2.4, App. G, H), drawn from the toy's tables, and two
figures that the paper does not have: collapse in all settings, and collapse by learning rate."""

from pathlib import Path

import pandas as pd

from common.plotting import COLORS, band, legend, panels, plt, save
from papers.over_sharpening.toy.formulas import COLLAPSED

KEY = ["optimizer", "G", "estimator", "alpha", "mu", "lr"]
TITLES = {"raw": "raw", "mean": "mean-shifted", "normalised": "normalised"}
OPTIMIZERS = {"sgd": "SGD", "momentum": "momentum", "adamw": "AdamW"}


def draw(toy: Path, folder: Path) -> None:
    """Draw toy_fig1 to toy_fig5, toy_collapse and toy_learning_rates from the tables
    <toy>/{final,curves,traces}.csv.gz. All but toy_learning_rates use the main learning rate."""
    final, curves, traces = (
        pd.read_csv(toy / f"{name}.csv.gz") for name in ("final", "curves", "traces")
    )
    main = traces["lr"].iloc[0]
    at_main = curves[curves["lr"] == main]
    three = [(estimator, "sgd") for estimator in TITLES]
    probabilities(at_main, traces, three, folder / "toy_fig1")
    siamese(at_main, folder / "toy_fig2")
    two = [("RLOO", "sgd"), ("Reinforce++", "sgd")]
    probabilities(at_main, traces, two, folder / "toy_fig3")
    four = [(e, o) for e in ("raw", "normalised") for o in ("momentum", "adamw")]
    probabilities(at_main, traces, four, folder / "toy_fig4")
    calibrated(at_main, folder / "toy_fig5")
    collapse(final[final["lr"] == main], folder / "toy_collapse")
    learning_rates(final, folder / "toy_learning_rates")


def chosen(rows: pd.DataFrame, **values) -> pd.DataFrame:
    """Return the rows with these values. Where alpha or mu is not given it is 0: no calibration."""
    for name, value in ({"alpha": 0, "mu": 0} | values).items():
        rows = rows[rows[name] == value]
    return rows


def group_color(G: int, sizes: list[int]):
    return plt.get_cmap("viridis")(0.88 * sizes.index(G) / max(1, len(sizes) - 1))


def probabilities(curves, traces, cells: list[tuple], path: Path) -> None:
    """Draw pi(Cat | Persian) of single seeds (upper panels) and the probability of the likelier
    correct label, as mean and 10 to 90 % quantiles over seeds (lower panels)."""
    sizes = sorted(curves["G"].unique())
    figure, axes = panels(len(cells), 2, width=2.8, height=2.2, sharex=True, sharey=True)
    for column, (estimator, optimizer) in enumerate(cells):
        above, below = axes[:, column]
        for G in sizes:
            color = group_color(G, sizes)
            runs = chosen(traces, estimator=estimator, optimizer=optimizer, G=G)
            for _, seed in runs.groupby("seed"):
                above.plot(seed["step"], seed["p_cat"], color=color, lw=0.6, alpha=0.8)
            line = chosen(curves, estimator=estimator, optimizer=optimizer, G=G, metric="p_winner")
            band(below, line["step"], line, color, alpha=0.12, label=f"G = {G}")
        title = TITLES.get(estimator, estimator)
        above.set(title=f"{title}, {OPTIMIZERS[optimizer]}", ylim=(-0.03, 1.03))
        below.set(xlabel="step")
    axes[0, 0].set(ylabel=r"$\pi$(Cat | Persian)")
    axes[1, 0].set(ylabel="likelier of Cat, Persian")
    legend(figure, axes[1, 0], 4)
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
    kinds = [
        ("sgd", alpha, 0),
        ("sgd", alpha, mu),
        ("adamw", alpha, 0),
        ("adamw", alpha, mu),
    ]
    figure, axes = panels(4, len(estimators), width=2.5, height=2.2, sharex=True, sharey=True)
    for line, estimator in zip(axes, estimators, strict=True):
        for axis, (optimizer, alpha, mu) in zip(line, kinds, strict=True):
            for G in sizes:
                where = dict(estimator=estimator, optimizer=optimizer, G=G, metric="p_winner")
                plain = chosen(curves, **where)
                axis.plot(plain["step"], plain["mean"], color="0.75", lw=1)
                curve = chosen(curves, **where, alpha=alpha, mu=mu)
                band(
                    axis, curve["step"], curve, group_color(G, sizes), alpha=0.12, label=f"G = {G}"
                )
            name = "IAC + DLC" if mu > 0 else "IAC"
            axis.set(title=f"{name}, {OPTIMIZERS[optimizer]}", ylim=(-0.03, 1.03))
        line[0].set(ylabel=f"{TITLES[estimator]}:\nlikelier of Cat, Persian")
    for axis in axes[-1]:
        axis.set(xlabel="step")
    legend(figure, axes[0, 0], 4)
    save(figure, path, None)


def shares(final: pd.DataFrame) -> pd.DataFrame:
    """Return for each setting the percent of seeds that collapsed onto one label, and of seeds that
    are frozen: both correct labels together have COLLAPSED but neither alone."""
    both = final[["p_cat", "p_persian"]]
    one = both.max(axis=1) >= COLLAPSED
    frozen = (both.sum(axis=1) >= COLLAPSED) & ~one
    frame = final.assign(collapsed=100.0 * one, frozen=100.0 * frozen)
    return frame.groupby(KEY, as_index=False, sort=False)[["collapsed", "frozen"]].mean()


def collapse(final: pd.DataFrame, path: Path) -> None:
    """Draw the percent of seeds that collapsed onto one label, for every setting in `final`."""
    table = shares(final)
    names = {(0, 0): "", (1, 0): " + IAC", (0, 1): " + DLC", (1, 1): " + IAC + DLC"}
    table["setting"] = [
        e + names[(int(a > 0), int(m > 0))]
        for e, a, m in table[["estimator", "alpha", "mu"]].values
    ]
    settings, sizes = list(table["setting"].unique()), sorted(table["G"].unique())
    optimizers = [name for name in OPTIMIZERS if name in set(table["optimizer"])]
    figure, axes = panels(
        len(optimizers), width=2.2, height=0.7 + 0.24 * len(settings), sharey=True
    )
    for axis, optimizer in zip(axes[0], optimizers, strict=True):
        part = table[table["optimizer"] == optimizer]
        cells = part.pivot(index="setting", columns="G", values="collapsed").loc[settings, sizes]
        axis.imshow(cells, cmap="Oranges", vmin=0, vmax=130, aspect="auto")
        for y in range(len(settings)):
            for x in range(len(sizes)):
                axis.text(x, y, f"{cells.iloc[y, x]:.0f}", ha="center", va="center", fontsize=7)
        axis.set_xticks(range(len(sizes)), [f"G={G}" for G in sizes], fontsize=7)
        axis.set_yticks(range(len(settings)), settings, fontsize=8)
        axis.grid(False)
        axis.set_title(OPTIMIZERS[optimizer])
    figure.suptitle(f"% of seeds with one label at {COLLAPSED:g} or more", fontsize=9)
    save(figure, path, table)


def learning_rates(final: pd.DataFrame, path: Path) -> None:
    """Draw the percent of seeds that collapsed (full lines) and froze (dashed) against the learning
    rate, as the mean over group sizes."""
    table = shares(final[(final["alpha"] == 0) & (final["mu"] == 0)])
    optimizers = [name for name in OPTIMIZERS if name in set(table["optimizer"])]
    figure, axes = panels(len(optimizers), width=3.0, height=2.7, sharey=True)
    for axis, optimizer in zip(axes[0], optimizers, strict=True):
        rows = table[table["optimizer"] == optimizer]
        for i, (estimator, group) in enumerate(rows.groupby("estimator", sort=False)):
            mean = group.groupby("lr")[["collapsed", "frozen"]].mean()
            style = {"color": COLORS[i], "lw": 5 - i}  # some lines coincide: widest first
            axis.plot(mean.index, mean["collapsed"], "o-", ms=7 - i, label=estimator, **style)
            style["lw"] = 2.5 - 0.4 * i
            axis.plot(mean.index, mean["frozen"], "--", **style)
        axis.set(xscale="log", xlabel="learning rate", title=OPTIMIZERS[optimizer])
    axes[0, 0].set(ylabel="% of seeds")
    figure.suptitle("full: collapsed onto one label; dashed: frozen with both", fontsize=9)
    legend(figure, axes[0, 0], 5)
    save(figure, path, table)
