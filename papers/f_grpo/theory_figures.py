"""Figures 1a, 2, 3 and 5 of F-GRPO, and checks of Eq. 8, Eq. 13 and Lemma B.1 on random policies.

`python -m papers.f_grpo.theory_figures [results_dir=FOLDER]` writes
f_grpo/figures/<figure>.{pdf,png,csv} and f_grpo/theory/{tail_miss,one_step}.csv below the folder.
The paper does not print mu_pos and tau of Fig. 1a, rho of Fig. 2 or gamma of Fig. 3: those here
are ours. Fig. 1b,c need trained models (Table 3) and Fig. 4 is the simulation of App. J; neither
is drawn here.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from common.cli import guard
from common.errors import UserError
from common.plotting import COLORS, panels, save
from common.results.files import write_csv
from papers.f_grpo import theory

REWARDS = {"{0, 1}": (1.0, 0.0), "{-1, 1}": (1.0, -1.0)}  # R_c, R_w: App. H.2 and App. J
MU_POS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.64, 0.7, 0.8, 0.9, 0.95)
TAU = (6.3e-5, 1e-4, 1e-3, 1e-2, 0.05)  # the first is a leaf of App. J
ACTIONS, CORRECT = 64, 16  # V and |P| of the random policies


def run(results_dir: Path) -> None:
    """Write every figure and table; equal inputs give equal bytes. About 5 s on one core."""
    folder = results_dir / "f_grpo"
    write_csv(folder / "theory" / "tail_miss.csv", tail_miss_table())
    steps = one_step_table(seeds=200)
    write_csv(folder / "theory" / "one_step.csv", steps)
    fig1a(folder / "figures" / "fig1a")
    fig2(folder / "figures" / "fig2")
    fig3(folder / "figures" / "fig3")
    fig5(folder / "figures" / "fig5")
    one_step(folder / "figures" / "one_step", steps)
    lemma_b1(folder / "figures" / "lemma_b1", draws=2000)


def group_sizes(largest: int, per_octave: int) -> np.ndarray:
    """Integers from 1 to `largest`, about `per_octave` of them each time N doubles."""
    octaves = np.arange(per_octave * np.log2(largest) + 1) / per_octave
    return np.unique(np.round(2**octaves).astype(int))


def tail_miss_table() -> pd.DataFrame:
    """Eq. 9 and Eq. 11 on MU_POS x TAU x N = 1, 2, 3, 4, 6, ..., 2^17 with tau < mu_pos."""
    powers = 2 ** np.arange(18)
    N = np.union1d(powers, 3 * powers[:-2])
    mu, tau, N = (axis.ravel() for axis in np.meshgrid(MU_POS, TAU, N, indexing="ij"))
    mu, tau, N = mu[tau < mu], tau[tau < mu], N[tau < mu]
    active, missed = theory.pr_active(mu, N), theory.pr_tail_miss(mu, tau, N)
    return pd.DataFrame({"mu": mu, "tau": tau, "N": N, "pr_active": active, "pr_tail_miss": missed})


def fig1a(path: Path) -> None:
    """Tail-miss probability and its two factors, mu_pos = 0.5 and tau = 0.05 (ours)."""
    mu, tau, N = 0.5, 0.05, group_sizes(128, 12)
    drawn = pd.DataFrame({"mu": mu, "tau": tau, "N": N, "pr_active": theory.pr_active(mu, N)})
    drawn["pr_no_rare"] = (1 - tau) ** N
    drawn["pr_tail_miss"] = theory.pr_tail_miss(mu, tau, N)
    peak = theory.peak_group_size(mu, tau)
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
    """Pr(B_tau) against N for three mu_pos; curves vary rho = tau / mu_pos, stars mark peaks."""
    N, rhos, rows = group_sizes(4096, 8), (0.3, 0.1, 0.03, 0.01, 0.001), []
    figure, axes = panels(3, sharey=True)
    for axis, mu in zip(axes[0], (0.8, 0.5, 0.2), strict=True):
        for rho, color in zip(rhos, COLORS, strict=False):
            tau = rho * mu
            peak = theory.peak_group_size(mu, tau)
            sizes = np.union1d(N, peak.N)
            curve = theory.pr_tail_miss(mu, tau, sizes)
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
    """g |A| against the success probability for several gamma; solid correct, dashed wrong."""
    mu, rows = np.linspace(0.02, 0.98, 193), []
    figure, axes = panels(1, width=4.4, height=3.2)
    axis = axes[0, 0]
    for gamma, color in zip((0.0, 0.5, 1.0, 2.0), COLORS, strict=False):
        right, wrong = theory.scaled_advantage(mu, gamma=gamma)
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
    """Pr(B_tau) of one non-anchor correct action of App. J, on a linear and a logarithmic axis."""
    mu, tau, N = 0.64, 6.3e-5, group_sizes(2**18, 8)
    curve = theory.pr_tail_miss(mu, tau, N)
    marked = np.isin(N, (2**15, 2**16, 2**17))
    figure, axes = panels(2, width=3.8, height=2.9)
    for axis in axes[0]:
        axis.plot(N[N > 1], curve[N > 1], color=COLORS[0])  # 0 at N = 1 has no place on a log axis
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


def policies(seeds: int) -> np.ndarray:
    """(seeds, V) softmax policies: standard normal logits, plus 1 on the first CORRECT actions."""
    logits = np.stack([np.random.default_rng(seed).normal(size=ACTIONS) for seed in range(seeds)])
    logits[:, :CORRECT] += 1
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def sampled_mask(p: np.ndarray, N: int) -> np.ndarray:
    """(seeds, V) masks of the distinct among N draws from each row i of p, seeded by (i, N)."""
    mask = np.zeros(p.shape, bool)
    for seed, row in enumerate(p):
        mask[seed, np.random.default_rng([seed, N]).choice(ACTIONS, size=N, p=row)] = True
    return mask


def one_step_table(seeds: int) -> pd.DataFrame:
    """Eq. 8 and Eq. 13 beside the exact softmax step of Eq. 7, on random policies and groups."""
    p, rows = policies(seeds), []
    correct = np.broadcast_to(np.arange(ACTIONS) < CORRECT, p.shape)
    for N in (2, 8, 32):
        sampled = sampled_mask(p, N)
        for R_c, R_w in REWARDS.values():
            for eta in (1e-2, 1e-1, 1.0, 10.0):
                step = {"R_c": R_c, "R_w": R_w, "eta": eta, "N": N}
                dz = theory.logit_update(p, correct, sampled, **step)
                columns = {
                    "S_R": theory.batch_baseline(p, correct, sampled, R_c=R_c, R_w=R_w),
                    "delta_q_pos_eq8": theory.delta_q_pos(p, correct, sampled, **step),
                    "delta_q_pos_exact": theory.exact_delta_mass(p, dz, correct),
                    "delta_q_u_pos_eq13": theory.delta_q_u_pos(p, correct, sampled, **step),
                    "delta_q_u_pos_exact": theory.exact_delta_mass(p, dz, correct & ~sampled),
                }
                frame = pd.DataFrame({"seed": np.arange(seeds), "N": N, "eta": eta})
                rows.append(frame.assign(R_c=R_c, R_w=R_w, **columns))
    return pd.concat(rows, ignore_index=True)


def one_step(path: Path, steps: pd.DataFrame) -> None:
    """Left: error of Eq. 8 and 13 against eta. Others: both changes of the smallest exact step."""
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
    """Median over instances of |closed form - exact| / |exact|, a line for each equation and N."""
    rows = []
    for name, line in (("q_pos_eq8", "-"), ("q_u_pos_eq13", "--")):
        mass, _, equation = name.rpartition("_")
        exact = steps[f"delta_{mass}_exact"]
        # an exact 0 (all or, at rewards {0, 1}, nothing correct drawn) has no relative error
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
    """Scatter in units of eta/N; the title gives the shares with dQ_pos > 0 > dQ_upos (grey)."""
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


def lemma_b1(path: Path, draws: int) -> None:
    """Lemma B.1 and Corollary B.2 as lines, Monte Carlo means with 2 standard errors as points."""
    p, N, k = policies(1)[0], 16, np.arange(17)
    correct = np.arange(ACTIONS) < CORRECT
    P_pos = sampled_mass(p, correct, draws=k, repeats=draws, seed=1)  # (17, draws)
    P_neg = sampled_mass(p, ~correct, draws=N - k, repeats=draws, seed=2)
    E_pos, E_neg = theory.expected_p_pos(p, correct, k), theory.expected_p_neg(p, correct, k, N=N)
    curves = [(0, "P_{pos}", "", E_pos, P_pos), (1, "P_{neg}", "", E_neg, P_neg)]
    for name, (R_c, R_w) in REWARDS.items():
        exact = theory.expected_s_r(p, correct, k, N=N, R_c=R_c, R_w=R_w)
        curves.append((2, "S_R", f"rewards {name}", exact, R_c * P_pos + R_w * P_neg))
    figure, axes = panels(3)
    rows = []
    for (panel, name, rewards, exact, samples), color in zip(curves, COLORS, strict=False):
        mean, error = samples.mean(axis=1), samples.std(axis=1, ddof=1) / np.sqrt(draws)
        axes[0, panel].plot(k, exact, color=color, label=rewards or "exact")
        axes[0, panel].errorbar(
            k,
            mean,
            2 * error,
            fmt="o",
            color=color,
            markersize=3,
            label="" if rewards else "simulated, 2 s.e.",
        )
        axes[0, panel].set(xlabel=f"correct answers k of N = {N}", ylabel=f"$E[{name}\\,|\\,X=k]$")
        axes[0, panel].legend()
        row = {"quantity": name, "rewards": rewards, "k": k, "exact": exact}
        rows.append(pd.DataFrame({**row, "mean": mean, "stderr": error}))
    save(figure, path, pd.concat(rows))


def sampled_mass(p: np.ndarray, kind: np.ndarray, *, draws: np.ndarray, repeats: int, seed: int):
    """(len(draws), repeats) masses of distinct actions among draws[i] draws from p given kind."""
    generator, p = np.random.default_rng(seed), p[kind]
    masses = np.zeros((len(draws), repeats))
    for row, count in enumerate(draws):
        drawn = generator.choice(len(p), size=(repeats, count), p=p / p.sum())
        mask = np.zeros((repeats, len(p)), bool)
        np.put_along_axis(mask, drawn, True, axis=1)
        masses[row] = mask @ p
    return masses


def group_axis(axis, largest: int, step: int = 2) -> None:
    """Group sizes on a base-2 logarithmic axis; plain numbers, or powers where those get long."""
    exponents = np.arange(0, int(np.log2(largest)) + 1, step if largest <= 4096 else 3)
    names = [str(2**e) if largest <= 4096 else f"$2^{{{e}}}$" for e in exponents]
    axis.set_xscale("log", base=2)
    axis.set_xticks(2.0**exponents, names)
    axis.set_xlabel("group size N")


def results_folder(arguments: list[str]) -> Path:
    """The folder of `results_dir=FOLDER`, else `results`. Raises UserError for other arguments."""
    key, _, value = "".join(arguments[:1]).partition("=")
    if not arguments:
        return Path("results")
    if len(arguments) > 1 or key != "results_dir" or not value:
        raise UserError(f"unknown arguments {arguments}; the only one is results_dir=FOLDER")
    return Path(value)


if __name__ == "__main__":
    guard(lambda: run(results_folder(sys.argv[1:])))
