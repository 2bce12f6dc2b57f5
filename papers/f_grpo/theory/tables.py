"""Tables of Eqs. 9 and 11 on a grid, of Eqs. 8 and 13 on random policies beside exact steps, and of
Lemma B.1."""

import numpy as np
import pandas as pd

from papers.f_grpo.theory import formulas

REWARDS = {"{0, 1}": (1.0, 0.0), "{-1, 1}": (1.0, -1.0)}  # R_c, R_w: App. H.2 and App. J
MU_POS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.64, 0.7, 0.8, 0.9, 0.95)
TAU = (6.3e-5, 1e-4, 1e-3, 1e-2, 0.05)  # the first: one non-anchor correct action of App. J
ACTIONS, CORRECT = 64, 16  # V and the number of correct actions of the random policies


def group_sizes(largest: int, per_octave: int) -> np.ndarray:
    """Return integers from 1 to `largest`, about `per_octave` of them each time N doubles."""
    octaves = np.arange(per_octave * np.log2(largest) + 1) / per_octave
    return np.unique(np.round(2**octaves).astype(int))


def tail_miss_table() -> pd.DataFrame:
    """Return Eqs. 9 and 11 on MU_POS x TAU x N = 1, 2, 3, 4, 6, ..., 2^17, where tau < mu_pos."""
    powers = 2 ** np.arange(18)
    N = np.union1d(powers, 3 * powers[:-2])
    mu, tau, N = (axis.ravel() for axis in np.meshgrid(MU_POS, TAU, N, indexing="ij"))
    mu, tau, N = mu[tau < mu], tau[tau < mu], N[tau < mu]
    active, missed = formulas.pr_active(mu, N), formulas.pr_tail_miss(mu, tau, N)
    return pd.DataFrame({"mu": mu, "tau": tau, "N": N, "pr_active": active, "pr_tail_miss": missed})


def policies(seeds: int) -> np.ndarray:
    """Return (seeds, V) softmax policies of standard normal logits, plus 1 on the first CORRECT
    actions."""
    logits = np.stack([np.random.default_rng(seed).normal(size=ACTIONS) for seed in range(seeds)])
    logits[:, :CORRECT] += 1
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def sampled_mask(p: np.ndarray, N: int) -> np.ndarray:
    """Return (seeds, V) masks of the distinct actions among N draws from each row i of p. The draws
    of row i are seeded by (i, N)."""
    mask = np.zeros(p.shape, bool)
    for seed, row in enumerate(p):
        mask[seed, np.random.default_rng([seed, N]).choice(ACTIONS, size=N, p=row)] = True
    return mask


def one_step_table(seeds: int) -> pd.DataFrame:
    """Return Eqs. 8 and 13 beside the exact softmax step of Eq. 7, on random policies and
    groups."""
    p, rows = policies(seeds), []
    correct = np.broadcast_to(np.arange(ACTIONS) < CORRECT, p.shape)
    for N in (2, 8, 32):
        sampled = sampled_mask(p, N)
        for R_c, R_w in REWARDS.values():
            for eta in (1e-2, 1e-1, 1.0, 10.0):
                step = {"R_c": R_c, "R_w": R_w, "eta": eta, "N": N}
                dz = formulas.logit_update(p, correct, sampled, **step)
                columns = {
                    "S_R": formulas.batch_baseline(p, correct, sampled, R_c=R_c, R_w=R_w),
                    "delta_q_pos_eq8": formulas.delta_q_pos(p, correct, sampled, **step),
                    "delta_q_pos_exact": formulas.exact_delta_mass(p, dz, correct),
                    "delta_q_u_pos_eq13": formulas.delta_q_u_pos(p, correct, sampled, **step),
                    "delta_q_u_pos_exact": formulas.exact_delta_mass(p, dz, correct & ~sampled),
                }
                frame = pd.DataFrame({"seed": np.arange(seeds), "N": N, "eta": eta})
                rows.append(frame.assign(R_c=R_c, R_w=R_w, **columns))
    return pd.concat(rows, ignore_index=True)


def lemma_b1_table() -> pd.DataFrame:
    """Return the expectations of Lemma B.1 and Corollary B.2 for k = 0, ..., 16 correct answers
    among N = 16, of one random policy."""
    p, N, k = policies(1)[0], 16, np.arange(17)
    correct = np.arange(ACTIONS) < CORRECT
    curves = {
        ("P_{pos}", ""): formulas.expected_p_pos(p, correct, k),
        ("P_{neg}", ""): formulas.expected_p_neg(p, correct, k, N=N),
    }
    for name, (R_c, R_w) in REWARDS.items():
        exact = formulas.expected_s_r(p, correct, k, N=N, R_c=R_c, R_w=R_w)
        curves["S_R", f"rewards {name}"] = exact
    parts = [
        pd.DataFrame({"quantity": quantity, "rewards": rewards, "k": k, "exact": exact})
        for (quantity, rewards), exact in curves.items()
    ]
    return pd.concat(parts)
