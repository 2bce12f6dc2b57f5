"""Figures of theory.py's tables on entropy, pass@k scaling and retries."""

from pathlib import Path

import pandas as pd

from common.plotting import COLORS, panels, save


def entropy(table: pd.DataFrame, path: Path) -> None:
    """Theorem 13.1: the exact change by the natural step against Eq. 7 and against -Cov alone, and
    by delta the plain and the natural step against the same policy at delta = 1."""
    figure, axes = panels(3, width=3.2, height=3.3)
    for axis, column, title in (
        (axes[0, 0], "eq_7", "Eq. 7"),
        (axes[0, 1], "minus_cov", "$-$Cov(A, log $\\pi$) alone"),
    ):
        for (delta, own), color in zip(table.groupby("delta"), COLORS, strict=False):
            shown = own.iloc[::2]
            label = rf"$\delta$={delta:g}"
            axis.plot(shown["natural"], shown[column], ".", ms=3, color=color, label=label)
        reach = table["natural"].abs().max()
        axis.plot([-reach, reach], [-reach, reach], color="0.6", lw=0.8)
        axis.set(xlabel=r"exact $\Delta H / \eta$, natural step", ylabel=title, title=title)
    axes[0, 0].legend(fontsize=6.5)
    axis, rows = axes[0, 2], []
    one = table[table["delta"] == 1].set_index("instance")
    falls = one.index[one["natural"] < 0]
    for column, color in (("natural", COLORS[0]), ("plain", COLORS[1]), ("eq_7", COLORS[3])):
        for group, style in ((falls, "-"), (one.index.difference(falls), ":")):
            own = table[table["instance"].isin(group)]
            mean = own.groupby("delta")[column].mean()
            name = "falls" if group is falls else "rises"
            axis.plot(mean.index, mean, style, marker="o", ms=3, color=color, label=column)
            rows.append(
                pd.DataFrame({"panel": name, "which": column, "delta": mean.index, "mean": mean})
            )
    axis.axhline(0, color="0.4", lw=0.8)
    axis.set(
        xlabel=r"$\delta$",
        ylabel=r"mean $\Delta H / \eta$",
        title="solid: entropy falls at $\\delta$=1",
    )
    handles, labels = axis.get_legend_handles_labels()
    axis.legend(handles[::2], labels[::2], fontsize=6.5)
    save(figure, path, pd.concat([table.drop(columns=["H", "p"]), *rows], ignore_index=True))


def scaling(table: pd.DataFrame, path: Path) -> None:
    """Theorem 12.1: 1 - pass@k by k with the asymptote, and its slope in log-log."""
    figure, axes = panels(2, width=3.6, height=3.3)
    for (density, own), color in zip(table.groupby("density", sort=False), COLORS, strict=False):
        shown = own[own["miss"] > 1e-14]
        axes[0, 0].loglog(shown["k"], shown["miss"], color=color, label=density)
        axes[0, 0].loglog(shown["k"], shown["asymptote"], ":", color=color)
        axes[0, 1].semilogx(own["k"], own["slope"].clip(upper=5), color=color, label=density)
        if own["b"].notna().any():
            axes[0, 1].axhline(own["b"].iloc[0], color=color, lw=0.6, ls=":")
    axes[0, 0].set(
        xlabel="k", ylabel="1 - pass@k", title=r"dotted: $C\,\Gamma(b)\,k^{-b}$", ylim=(1e-14, 3)
    )
    axes[0, 1].set(xlabel="k", title="slope in log-log (cut at 5); dotted: b")
    axes[0, 0].legend(fontsize=6.5)
    save(figure, path, table)


def multi_turn(table: pd.DataFrame, path: Path) -> None:
    """Masses of the second turn against the solve rate: simulated, and Power alpha = 2."""
    figure, axes = panels(2, width=3.5, height=3.2, sharey=True)
    titles = {
        "a response": "retried when a drawn response failed",
        "all": "retried when all 8 responses failed",
    }
    for axis, (reading, title) in zip(axes[0], titles.items(), strict=True):
        own = table[table["reading"] == reading]
        axis.plot(own["p"], own["m_1"], color="0.7", label="turn 1, simulated")
        error = 2 * own["stderr_2"]
        axis.errorbar(own["p"], own["m_2"], error, fmt="o", ms=3, label="turn 2, simulated")
        axis.plot(own["p"], own["retry"], color=COLORS[0], label="turn 2, exact")
        axis.plot(own["p"], own["power_2"], ":", color=COLORS[1], label=r"$p q^2$")
        axis.plot(own["p"], own["power_2_exact"], color=COLORS[1], label="Power alpha=2, G = 8")
        axis.set(xlabel="solve rate p", title=title)
    axes[0, 0].set(ylabel="mass")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, path, table)
