"""Figures 1a, 2, 3 and 5 of F-GRPO. The paper does not print mu_pos and tau of Fig. 1a, rho of Fig.
2 or gamma of Fig. 3: these values are our choice."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.plotting import COLORS, panels, save
from papers.f_grpo.theory import formulas
from papers.f_grpo.theory.tables import group_sizes


def fig1a(path: Path) -> None:
    """Draw Pr(tail-miss), Pr(active) and Pr(no rare-correct) at our mu_pos = 0.5, tau = 0.05."""
    mu, tau, N = 0.5, 0.05, group_sizes(128, 12)
    drawn = pd.DataFrame({"mu": mu, "tau": tau, "N": N, "pr_active": formulas.pr_active(mu, N)})
    drawn["pr_no_rare"] = (1 - tau) ** N
    drawn["pr_tail_miss"] = formulas.pr_tail_miss(mu, tau, N)
    peak = formulas.peak_group_size(mu, tau)
    figure, axes = panels(1, width=4.4, height=3.2)
    axis = axes[0, 0]
    axis.plot(N, drawn.pr_active, "--", color=COLORS[2], label=r"active, $\Pr(\mathcal{A}_N)$")
    axis.plot(N, drawn.pr_no_rare, ":", color=COLORS[7], label=r"no rare-correct, $(1-\tau)^N$")
    axis.plot(N, drawn.pr_tail_miss, color=COLORS[1], label=r"tail-miss, $\Pr(\mathcal{B}_\tau)$")
    axis.plot(peak.N, peak.value, "*", color=COLORS[1], markersize=12, label=f"peak, N = {peak.N}")
    group_axis(axis, 128, step=1)
    axis.set(ylabel="probability", ylim=(0, 1.03))
    axis.set_title(rf"$\mu_{{pos}}$ = {mu}, $\tau$ = {tau}", fontsize=9)
    figure.legend(loc="outside lower center", ncols=2)
    save(figure, path, drawn.assign(is_peak=N == peak.N))


def fig2(path: Path) -> None:
    """Draw Pr(B_tau) against N for three mu_pos, with a curve for each rho = tau / mu_pos and a
    star at its peak."""
    N, rhos, rows = group_sizes(4096, 8), (0.3, 0.1, 0.03, 0.01, 0.001), []
    figure, axes = panels(3, sharey=True)
    for axis, mu in zip(axes[0], (0.8, 0.5, 0.2), strict=True):
        for rho, color in zip(rhos, COLORS, strict=False):
            tau = rho * mu
            peak = formulas.peak_group_size(mu, tau)
            sizes = np.union1d(N, peak.N)
            curve = formulas.pr_tail_miss(mu, tau, sizes)
            axis.plot(sizes, curve, color=color, label=rf"$\rho$ = {rho}" if mu == 0.8 else None)
            axis.plot(peak.N, peak.value, "*", color=color, markersize=10)
            row = {"mu": mu, "rho": rho, "tau": tau, "N": sizes, "pr_tail_miss": curve}
            rows.append(pd.DataFrame({**row, "is_peak": sizes == peak.N}))
        group_axis(axis, 4096)
        axis.set_title(rf"$\mu_{{pos}}$ = {mu}", fontsize=9)
    axes[0, 0].plot([], [], "*", color=COLORS[7], markersize=10, label="peak")
    axes[0, 0].set(ylabel=r"tail-miss probability $\Pr(\mathcal{B}_\tau)$", ylim=(0, 1.03))
    figure.legend(loc="outside lower center", ncols=len(rhos) + 1)
    save(figure, path, pd.concat(rows))


def fig3(path: Path) -> None:
    """Draw g |A| against the success probability for several gamma; solid correct, dashed wrong."""
    mu, rows = np.linspace(0.02, 0.98, 193), []
    figure, axes = panels(1, width=4.4, height=3.2)
    axis = axes[0, 0]
    for gamma, color in zip((0.0, 0.5, 1.0, 2.0), COLORS, strict=False):
        right, wrong = formulas.scaled_advantage(mu, gamma=gamma)
        axis.plot(mu, right, color=color, label=rf"$\gamma$ = {gamma:g}")
        axis.plot(mu, wrong, "--", color=color)
        rows.append(pd.DataFrame({"gamma": gamma, "mu": mu, "correct": right, "wrong": wrong}))
    axis.plot([], [], color="black", label="correct")
    axis.plot([], [], "--", color="black", label="wrong")
    axis.set(xlabel=r"success probability $\mu_{pos}$", ylabel=r"$g\,|A^{GRPO}|$")
    axis.set(xlim=(0, 1), ylim=(0, 7.2))
    axis.legend(loc="upper center", ncols=2)
    save(figure, path, pd.concat(rows))


def fig5(path: Path) -> None:
    """Draw Pr(B_tau) of one non-anchor correct action of App. J, with linear and logarithmic
    axis."""
    mu, tau, N = 0.64, 6.3e-5, group_sizes(2**18, 8)
    curve = formulas.pr_tail_miss(mu, tau, N)
    marked = np.isin(N, (2**15, 2**16, 2**17))
    figure, axes = panels(2, width=3.8, height=2.9)
    for axis in axes[0]:
        axis.plot(N[N > 1], curve[N > 1], color=COLORS[0])  # a log axis cannot show 0 (N = 1)
        axis.plot(N[marked], curve[marked], "o", color=COLORS[1], markersize=4)
        group_axis(axis, 2**18)
    axes[0, 0].set_ylabel(r"tail-miss probability $\Pr(\mathcal{B}_\tau)$")
    axes[0, 1].axhline(1e-3, color=COLORS[7], linestyle=":", label=r"$10^{-3}$ (App. J)")
    axes[0, 1].set(yscale="log", ylim=(1e-8, 3))
    axes[0, 1].legend(loc="lower left")
    for size, value in zip(N[marked], curve[marked], strict=True):
        text = rf"$2^{{{int(np.log2(size))}}}$: {value:.2g}"
        axes[0, 1].annotate(text + "   ", (size, value), ha="right", va="center", fontsize=8)
    figure.suptitle(rf"$\mu_{{pos}}$ = {mu}, $\tau$ = {tau:g}", fontsize=9)
    drawn = pd.DataFrame({"mu": mu, "tau": tau, "N": N, "pr_tail_miss": curve})
    save(figure, path, drawn[N > 1])


def group_axis(axis, largest: int, step: int = 2) -> None:
    """Put group sizes on a base-2 logarithmic x axis."""
    exponents = np.arange(0, int(np.log2(largest)) + 1, step if largest <= 4096 else 3)
    names = [str(2**e) if largest <= 4096 else f"$2^{{{e}}}$" for e in exponents]
    axis.set_xscale("log", base=2)
    axis.set_xticks(2.0**exponents, names)
    axis.set_xlabel("group size N")
