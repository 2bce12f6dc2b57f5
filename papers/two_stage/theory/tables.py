"""Checks of Theorem 1, Remark 2 and Proposition 1 on random policies and small networks."""

import numpy as np
import pandas as pd
import torch

from papers.two_stage.theory import formulas

GROUP_SIZES = (2, 3, 5, 10)  # Fig. 5
POLICIES, ACTIONS = 200, 4  # random policies of Theorem 1's check
SCALES = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0)  # standard deviation of the logits in Remark 2's check
VOCABULARY = 50
ETAS = (1e-3, 1e-2, 1e-1, 1.0)
INPUTS, OUTPUTS = 3, 5  # sizes of the tanh networks of Proposition 1's check
WIDTHS = (16, 256)
TRAINED = 0.98  # probability of the trained action at which the kernel is measured


def random_policies(seed: int, scale: float, V: int) -> np.ndarray:
    """Return POLICIES softmax policies of normal logits, (POLICIES, V)."""
    logits = np.random.default_rng(seed).normal(size=(POLICIES, V))
    return formulas.softmax(scale * logits)


def theorem1_table() -> pd.DataFrame:
    """Return the exact expected step of Algorithm 1 relative to Theorem 1's, by G.

    ratio: slope of the least-squares line through zero of the exact on the printed steps, over all
    policies and actions; it is 1 - 1/G if the corrected theorem is right. max_rises, min_falls: the
    percent of policies in which E[dz(a_max)] >= 0 and E[dz(a_min)] < 0 (App. C.4), up to rounding.
    """
    rows = []
    rewards = np.random.default_rng(1).uniform(size=(POLICIES, ACTIONS))
    policies = random_policies(0, 2.0, ACTIONS)
    printed = formulas.expected_logit_update(policies, rewards, eta=1.0)
    every, best, worst = np.arange(POLICIES), rewards.argmax(1), rewards.argmin(1)
    for G in GROUP_SIZES:
        how = {"eta": 1.0, "G": G, "negative_only": False}
        pairs = zip(policies, rewards, strict=True)
        exact = np.array([formulas.enumerated_group_update(p, r, **how) for p, r in pairs])
        rows.append(
            {
                "G": G,
                "ratio": (exact * printed).sum() / (printed**2).sum(),
                "max_rises": 100 * (exact[every, best] >= -1e-15).mean(),
                "min_falls": 100 * (exact[every, worst] < 0).mean(),
            }
        )
    return pd.DataFrame(rows)


def remark2_table() -> pd.DataFrame:
    """Return how often Remark 2's "decreasing pi(u) for all u != v" holds, by how peaked the policy
    is.

    fall: the share of (policy, v, u), weighted by the probability p_v that v is sampled, in which
    p_u falls when v gets A > 0; the same share rises for A < 0. all_fall: the share of samples v
    for which all p_u fall.
    """
    rows = []
    for scale in SCALES:
        policies = random_policies(0, scale, VOCABULARY)
        falls = np.stack([formulas.others_fall(policies, v) for v in range(VOCABULARY)], axis=1)
        weight = policies / POLICIES  # for each (policy, v)
        fall = (weight * falls.sum(2)).sum() / (VOCABULARY - 1)
        all_fall = (weight * (falls.sum(2) == VOCABULARY - 1)).sum()
        rows.append({"scale": scale, "fall": fall, "all_fall": all_fall})
    return pd.DataFrame(rows)


def network(width: int, seed: int):
    """Return the parameters theta of a one-layer tanh network with standard scaling, and the
    function logits(theta) at one input."""
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.normal(size=INPUTS) / INPUTS**0.5)
    theta = torch.from_numpy(rng.normal(size=width * (INPUTS + OUTPUTS)))

    def logits(theta):
        first, last = theta[: width * INPUTS], theta[width * INPUTS :]
        return last.view(OUTPUTS, width) @ torch.tanh(first.view(width, INPUTS) @ x) / width**0.5

    return theta, logits


def step(theta, logits, v: int, eta: float):
    """Take one exact step of the parameters after v was drawn with A = 1. Return (theta', Jacobian,
    p, dz)."""
    jacobian = torch.autograd.functional.jacobian(logits, theta).numpy()
    p = formulas.softmax(logits(theta).numpy())
    dz = formulas.logit_update(p, v, advantage=1.0, eta=eta)
    return theta + torch.from_numpy(jacobian.T @ dz), jacobian, p, dz


def proposition1_table() -> pd.DataFrame:
    """Return the largest error of Proposition 1 divided by the largest change of log pi, by eta,
    for 20 networks of width 16."""
    rows = []
    for eta in ETAS:
        for seed in range(20):
            theta, logits = network(16, seed)
            after, jacobian, p, dz = step(theta, logits, seed % OUTPUTS, eta)
            exact = np.log(formulas.softmax(logits(after).numpy())) - np.log(p)
            predicted = formulas.delta_log_prob(p, formulas.empirical_ntk(jacobian), dz)
            error = abs(predicted - exact).max() / abs(exact).max()
            rows.append({"eta": eta, "seed": seed, "relative_error": error})
    return pd.DataFrame(rows)


def kernel_table(*, steps: int, eta: float) -> pd.DataFrame:
    """Return how far the kernel moves while an action's probability is trained from its start to
    TRAINED, by width and network: ||K - K_0|| / ||K_0||. App. B.3 says that it "remains nearly
    constant"."""
    rows = []
    for width in WIDTHS:
        for seed in range(12):
            theta, logits = network(width, seed)
            first = None
            for _ in range(steps):
                theta, jacobian, p, _ = step(theta, logits, 0, eta)
                kernel = formulas.empirical_ntk(jacobian)
                first = kernel if first is None else first
                if p[0] > TRAINED:
                    break
            moved = np.linalg.norm(kernel - first) / np.linalg.norm(first)
            rows.append({"width": width, "seed": seed, "moved": moved})
    return pd.DataFrame(rows)
