"""Figures 1a, 2, 3 and 5 of F-GRPO, checks of Eqs. 8 and 13 on random policies, and
Lemma B.1.

The paper does not print mu_pos and tau of Fig. 1a, rho of Fig. 2 or gamma of Fig. 3. The values
used here are our choice.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from common.plotting import COLORS, panels, save
from papers.f_grpo.theory import formulas
from papers.f_grpo.theory.tables import REWARDS, group_sizes


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
    """Draw Pr(B_tau) against N for three mu_pos: one curve for each rho = tau / mu_pos, with a star
    at its peak."""
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
    """Draw Pr(B_tau) of one non-anchor correct action of App. J, on a linear and on a logarithmic
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


def one_step(path: Path, steps: pd.DataFrame) -> None:
    """Draw two kinds of panels: on the left the error of Eqs. 8 and 13 against eta, then for each N
    the exact changes of Q_pos and of Q_u,pos at the smallest eta, one against the other."""
    figure, axes = panels(4, width=3.0, height=3.2)
    drawn = [draw_errors(axes[0, 0], steps)]
    smallest = steps[steps.eta == steps.eta.min()]
    for axis, (N, chosen) in zip(axes[0, 1:], smallest.groupby("N"), strict=True):
        drawn.append(draw_quadrants(axis, chosen, N))
    axes[0, 1].set_ylabel(r"$\Delta Q_{u,pos}\;/\;(\eta/N)$")
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=2)
    save(figure, path, pd.concat(drawn, ignore_index=True))


def draw_errors(axis, steps: pd.DataFrame) -> pd.DataFrame:
    """Draw the median over instances of |closed form - exact| / |exact|, one line for each equation
    and N. Return what was drawn."""
    rows = []
    for name, line in (("q_pos_eq8", "-"), ("q_u_pos_eq13", "--")):
        mass, _, equation = name.rpartition("_")
        exact = steps[f"delta_{mass}_exact"]
        # no relative error where the exact change is 0: every correct action was drawn or, with
        # rewards {0, 1}, none was
        error = ((steps[f"delta_{name}"] - exact) / exact).abs().where(exact != 0)
        medians = error.groupby([steps.N, steps.eta]).median().rename("error").reset_index()
        for (N, curve), color in zip(medians.groupby("N"), COLORS, strict=False):
            label = f"N = {N}" if line == "-" else None
            axis.loglog(curve.eta, curve.error, f"o{line}", color=color, markersize=3, label=label)
        axis.plot([], [], line, color="black", label=f"Eq. {equation[2:]}")
        rows.append(medians.assign(panel=equation))
    axis.set(xlabel=r"step size $\eta$", ylabel="median relative error")
    axis.set_ylim(bottom=medians.error.min() / 100)  # room for the legend
    axis.legend(loc="lower right", ncols=2, fontsize=7)
    return pd.concat(rows)


def draw_quadrants(axis, steps: pd.DataFrame, N: int) -> pd.DataFrame:
    """Draw dQ_u,pos against dQ_pos in units of eta/N. Return what was drawn.

    The title gives, for each pair of rewards, the share of points with dQ_pos > 0 > dQ_u,pos (the
    grey quadrant).
    """
    rows, shares = [], []
    for (name, (_, R_w)), color in zip(REWARDS.items(), COLORS, strict=False):
        chosen = steps[steps.R_w == R_w]
        x = chosen.delta_q_pos_exact * N / chosen.eta
        y = chosen.delta_q_u_pos_exact * N / chosen.eta
        shares.append(f"{((x > 0) & (y < 0)).mean():.0%}")
        axis.scatter(x, y, s=6, color=color, label=f"rewards {name}", linewidths=0)
        rows.append(pd.DataFrame({"panel": "quadrants", "N": N, "R_w": R_w, "x": x, "y": y}))
    axis.axhline(0, color="black", linewidth=0.6)
    axis.axvline(0, color="black", linewidth=0.6)
    axis.autoscale(False)
    axis.fill_between([0, 1], -1, 0, color=COLORS[7], alpha=0.15, linewidth=0, zorder=0)
    axis.set(xlabel=r"$\Delta Q_{pos}\;/\;(\eta/N)$")
    axis.set_title(f"N = {N}; in grey: {' and '.join(shares)}", fontsize=9)
    return pd.concat(rows)


def lemma_b1(path: Path, table: pd.DataFrame) -> None:
    """Draw Lemma B.1 and Corollary B.2."""
    figure, axes = panels(3)
    place = {name: i for i, name in enumerate(table.quantity.unique())}
    curves = table.groupby(["quantity", "rewards"], sort=False)
    for ((name, rewards), curve), color in zip(curves, COLORS, strict=False):
        axis = axes[0, place[name]]
        axis.plot(curve.k, curve.exact, color=color, marker="o", markersize=3, label=rewards)
        axis.set(xlabel="correct answers k of N = 16", ylabel=f"$E[{name}\\,|\\,X=k]$")
    axes[0, -1].legend()
    save(figure, path, table)


def group_axis(axis, largest: int, step: int = 2) -> None:
    """Put group sizes on a base-2 logarithmic x axis. The labels are plain numbers up to a largest
    size of 4096, else powers of 2."""
    exponents = np.arange(0, int(np.log2(largest)) + 1, step if largest <= 4096 else 3)
    names = [str(2**e) if largest <= 4096 else f"$2^{{{e}}}$" for e in exponents]
    axis.set_xscale("log", base=2)
    axis.set_xticks(2.0**exponents, names)
    axis.set_xlabel("group size N")
