"""Theorem 13.1 against the exact entropy change of a tabular softmax policy (FADE Eq. 7, Fig. 4).

A policy has K actions, some of them right. The weights are AsymGRPO's for groups of G, so that
delta changes only the sign balance. The updates are exact expectations, from
common/methods/exact.py; only the policies themselves are sampled.
"""

import numpy as np
import pandas as pd
import torch

from common.advantages.sign import asym_grpo
from common.methods.binding import all_groups
from common.methods.exact import entropy, expected_update, masses

DELTAS = (0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
G = 8
ETA = 1e-4  # small enough that the change is first order: halving it moves the third digit


def checks(instances: int = 300, seed: int = 0) -> pd.DataFrame:
    """Return one row for each policy and delta; entropy changes are divided by eta, in nats.

    Columns: instance, delta, plain and natural (exact changes by these steps), eq_7, minus_cov =
    -Cov(A, log pi), and cosine, between the plain update and the update at delta = 1.
    """
    rng, rows = np.random.default_rng(seed), []
    rewards = all_groups(G).double()
    by_delta = {delta: asym_grpo(rewards, delta=delta) for delta in DELTAS}
    for instance in range(instances):
        policy, correct = a_policy(rng)
        reference = expected_update(by_delta[1.0], policy, correct)
        for delta, weights in by_delta.items():
            changes = one_step(weights, policy, correct)
            update = expected_update(weights, policy, correct)
            cosine = torch.nn.functional.cosine_similarity(update, reference, dim=0).item()
            row = {"instance": instance, "delta": delta}
            rows.append(row | changes | {"cosine": cosine})
    return pd.DataFrame(rows)


def a_policy(rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a softmax policy over 4, 10 or 40 actions with normal logits of random spread, and which
    of them are right: neither all nor none, with one random chance."""
    K = int(rng.choice([4, 10, 40]))
    policy = torch.softmax(torch.tensor(rng.normal(size=K) * rng.uniform(0.3, 2.5)), 0)
    share = rng.uniform(0.1, 0.9)
    while True:
        correct = torch.tensor(rng.random(K) < share)
        if correct.any() and not correct.all():
            return policy, correct


def one_step(weights: torch.Tensor, policy: torch.Tensor, correct: torch.Tensor) -> dict:
    """Return the exact entropy change by one plain and by one natural step, and Eq. 7.

    plain:   z <- z + eta E[A grad log pi]
    natural: z <- z + eta F^+ E[A grad log pi] = z + eta (A - E[A])       (tabular softmax)
    Eq. 7:   (m_S - m_F) H - Cov(A, log pi), with A(a) = m_S / p on right, -m_F / q on wrong actions
    """
    p = policy[correct].sum().item()
    mass = masses(weights, p)
    A = torch.where(correct, mass["m_S"] / p, -mass["m_F"] / (1 - p))
    mean, H, log_policy = (policy * A).sum(), entropy(policy), policy.log()
    covariance = (policy * (A - mean) * log_policy).sum().item()

    def change(update: torch.Tensor) -> float:
        return (entropy(torch.softmax(log_policy + ETA * update, 0)) - H) / ETA

    return {
        "plain": change(expected_update(weights, policy, correct)),
        "natural": change(A - mean),
        "eq_7": (mass["m_S"] - mass["m_F"]) * H - covariance,
        "minus_cov": -covariance,
    }


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each delta, with percentages of the policies.

    eq_7_exact, minus_cov_exact: Eq. 7, or only -Cov, gives the change by the natural step to 1 %.
    eq_7_sign: Eq. 7 has the sign of the natural step's change. same_direction: the plain update
    points in the direction of the update at delta = 1. keeps_more: the natural step keeps more
    entropy than at delta = 1.
    """
    one = table[table["delta"] == 1].set_index("instance")["natural"]
    rows = []
    for delta, group in table.groupby("delta"):
        group = group.set_index("instance")
        share = {
            "eq_7_exact": close(group["eq_7"], group["natural"]),
            "minus_cov_exact": close(group["minus_cov"], group["natural"]),
            "eq_7_sign": group["eq_7"] * group["natural"] > 0,
            "same_direction": group["cosine"] > 1 - 1e-9,
            "keeps_more": group["natural"] > one,
        }
        rows.append({"delta": delta, **{k: 100 * v.mean() for k, v in share.items()}})
    return pd.DataFrame(rows)


def close(value: pd.Series, exact: pd.Series) -> pd.Series:
    return (value - exact).abs() <= 0.01 * exact.abs() + 1e-6
