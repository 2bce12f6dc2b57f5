"""Milliseconds per step of F-GRPO's categorical simulation with one seed, compared with plain
numpy."""

from dataclasses import replace
from statistics import median

import numpy as np

from bench import alternate, row

SIZES = (2, 256, 4096, 32768, 131072)


def run(
    steps: int = 40, rounds: int = 5, device: str = "cpu", sizes: tuple[int, ...] = SIZES
) -> list[dict]:
    """Return one row per group size. The peer is the same update as one would write it first."""
    from common.config.compose import compose
    from common.config.strict import strict
    from papers.f_grpo.simulation.config import Simulation
    from papers.f_grpo.simulation.tables import simulate

    overrides = [f"device={device}", f"steps={steps}", f"every={steps}"]
    config = strict(Simulation, compose("f_grpo", overrides, "simulation"))
    simulate(replace(config, steps=2), N=2, gamma=0, seeds=[0])  # first call loads kernels
    rows = []
    for N in sizes:
        ours, peer = alternate(
            lambda N=N: simulate(config, N=N, gamma=0, seeds=[0]),
            lambda N=N: plain(config, N, steps, 0),
            rounds,
        )
        per_step = 1e3 / steps
        name = f"simulation step, N={N}"
        ours, peer = median(ours) * per_step, median(peer) * per_step
        rows.append(row(name, ours, peer, "ms", "peer: plain numpy"))
    return rows


def plain(config, N: int, steps: int, seed: int) -> float:
    """Run the `score_adam` reading of the paper as one would write it first: float64, dense,
    `Generator.choice`. Return the final probability of the correct actions."""
    rng = np.random.default_rng(seed)
    z = np.full(config.actions, config.incorrect_logit)
    z[: config.correct] = config.correct_logit
    z[0] = config.anchor_logit
    R = np.where(np.arange(config.actions) < config.correct, config.R_c, config.R_w)
    m, v = np.zeros_like(z), np.zeros_like(z)
    beta1, beta2 = config.betas
    for step in range(1, steps + 1):
        p = np.exp(z - z.max())
        p /= p.sum()
        actions = rng.choice(config.actions, size=N, p=p)
        r = R[actions] - R[actions].mean()
        grad = (np.bincount(actions, weights=r, minlength=config.actions) - p * r.sum()) / N
        m = beta1 * m + (1 - beta1) * grad
        v = beta2 * v + (1 - beta2) * grad**2
        z = z + config.lr * (m / (1 - beta1**step)) / (np.sqrt(v / (1 - beta2**step)) + config.eps)
    return float(np.exp(z - z.max())[: config.correct].sum() / np.exp(z - z.max()).sum())
