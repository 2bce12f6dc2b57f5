"""Tables of Eq. 11, of Eq. 13 on random policies with exact steps, and of Lemma B.1."""

import numpy as np
import pandas as pd

from papers.f_grpo.theory import formulas

REWARDS = {"{0, 1}": (1.0, 0.0), "{-1, 1}": (1.0, -1.0)}  # R_c, R_w: App. H.2 and App. J
MU_POS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.64, 0.7, 0.8, 0.9, 0.95)
TAU = (6.3e-5, 1e-4, 1e-3, 1e-2, 0.05)  # the first: one non-anchor correct action of App. J
BELOW = {"{-1, -0.5}": (-0.5, -1.0)}  # R_c < 0, which Corollary B.2 states and its proof excludes
DRAWS = 4000  # groups for each X = k in Lemma B.1's check
ACTIONS, CORRECT = 64, 16  # V and the number of correct actions of the random policies


def group_sizes(largest: int, per_octave: int) -> np.ndarray:
    """Return integers from 1 to `largest`, about `per_octave` of them each time N doubles."""
    octaves = np.arange(per_octave * np.log2(largest) + 1) / per_octave
    return np.unique(np.round(2**octaves).astype(int))


def tail_miss_table() -> pd.DataFrame:
    """Return Eq. 11 on MU_POS x TAU x N = 1, 2, 3, 4, 6, ..., 2^17, where tau < mu_pos."""
    powers = 2 ** np.arange(18)
    N = np.union1d(powers, 3 * powers[:-2])
    mu, tau, N = (axis.ravel() for axis in np.meshgrid(MU_POS, TAU, N, indexing="ij"))
    mu, tau, N = mu[tau < mu], tau[tau < mu], N[tau < mu]
    missed = formulas.pr_tail_miss(mu, tau, N)
    return pd.DataFrame({"mu": mu, "tau": tau, "N": N, "pr_tail_miss": missed})


def policies(seeds: int) -> np.ndarray:
    """Return (seeds, V) softmax policies of normal logits, plus 1 on the first CORRECT actions."""
    logits = np.stack([np.random.default_rng(seed).normal(size=ACTIONS) for seed in range(seeds)])
    logits[:, :CORRECT] += 1
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def sampled_mask(p: np.ndarray, N: int) -> np.ndarray:
    """Return (seeds, V) masks of the distinct actions among N draws from each row of p."""
    mask = np.zeros(p.shape, bool)
    for seed, row in enumerate(p):
        mask[seed, np.random.default_rng([seed, N]).choice(ACTIONS, size=N, p=row)] = True
    return mask


def one_step_table(seeds: int) -> pd.DataFrame:
    """Return Eq. 13 and the exact softmax step of Eq. 7 with eta = 0.01, on random policies and
    groups. coupling: Eq. 13's second term, -Q_u,pos sum_j p_j dz_j (Eq. 22)."""
    p, rows = policies(seeds), []
    correct = np.broadcast_to(np.arange(ACTIONS) < CORRECT, p.shape)
    for N in (2, 8, 32):
        sampled = sampled_mask(p, N)
        for R_c, R_w in REWARDS.values():
            step = {"R_c": R_c, "R_w": R_w, "eta": 0.01, "N": N}
            dz = formulas.logit_update(p, correct, sampled, **step)
            columns = {
                "S_R": formulas.batch_baseline(p, correct, sampled, R_c=R_c, R_w=R_w),
                "delta_q_pos_exact": formulas.exact_delta_mass(p, dz, correct),
                "delta_q_u_pos_eq13": formulas.delta_q_u_pos(p, correct, sampled, **step),
                "coupling": -(p * (correct & ~sampled)).sum(1) * (p * dz).sum(1),
                "delta_q_u_pos_exact": formulas.exact_delta_mass(p, dz, correct & ~sampled),
            }
            frame = pd.DataFrame({"seed": np.arange(seeds), "N": N})
            rows.append(frame.assign(R_c=R_c, R_w=R_w, **columns))
    return pd.concat(rows, ignore_index=True)


def lemma_b1_table(seeds: int) -> pd.DataFrame:
    """Return the expectations of Lemma B.1 (Eqs. 18, 19) and Corollary B.2 for X = k = 0, ..., 16
    correct answers among N = 16, of random policies. stderrs_off: how many standard errors the mean
    of DRAWS groups is away from Eqs. 18 and 19; NaN without a draw."""
    N, k, correct = 16, np.arange(17), np.arange(ACTIONS) < CORRECT
    parts = []
    for seed, p in enumerate(policies(seeds)):
        curves = {
            "P_pos": formulas.expected_p_pos(p, correct, k),
            "P_neg": formulas.expected_p_neg(p, correct, k, N=N),
        }
        for name, (R_c, R_w) in (REWARDS | BELOW).items():
            exact = formulas.expected_s_r(p, correct, k, N=N, R_c=R_c, R_w=R_w)
            curves[f"S_R, rewards {name}"] = exact
        drawn = {"P_pos": (p[correct], k), "P_neg": (p[~correct], N - k)}
        for quantity, exact in curves.items():
            row = {"seed": seed, "quantity": quantity, "k": k, "exact": exact}
            row["stderrs_off"] = np.nan
            if quantity in drawn:
                means, errors = drawn_masses(*drawn[quantity], seed)
                row["stderrs_off"] = abs(means - exact) / np.where(errors > 0, errors, np.nan)
            parts.append(pd.DataFrame(row))
    return pd.concat(parts)


def drawn_masses(p: np.ndarray, draws: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean, over DRAWS groups, of the mass of the distinct actions among `draws` draws
    in proportion to p, and its standard error, each in the shape of `draws`."""
    rng, found = np.random.default_rng([seed, len(p)]), []
    for size in draws:
        seen = np.zeros((DRAWS, len(p)), bool)
        chosen = rng.choice(len(p), size=(DRAWS, size), p=p / p.sum())
        seen[np.arange(DRAWS)[:, None], chosen] = True
        found.append(seen @ p)
    masses = np.array(found)
    return masses.mean(1), masses.std(1, ddof=1) / DRAWS**0.5
