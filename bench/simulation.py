"""Milliseconds a step of the categorical simulation, one seed, one thread, beside plain numpy."""

import statistics
import time
from dataclasses import replace

import numpy as np

SIZES = (2, 256, 4096, 32768, 131072)


def plain(config, N: int, steps: int, seed: int) -> float:
    """The `score_adam` reading as one would write it first: float64, dense, `Generator.choice`."""
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


def run(steps: int = 40, repeats: int = 5) -> list[dict]:
    """Rows `name, ours_ms, peer_ms, ratio` (peer over ours); medians of alternating runs."""
    import torch

    from common.cli import compose
    from common.experiment import strict
    from papers.f_grpo.simulation import Simulation, simulate

    torch.set_num_threads(1)
    overrides = ["device=cpu", f"steps={steps}", f"every={steps}"]
    config = strict(Simulation, compose("f_grpo", overrides, "simulation"))
    simulate(replace(config, steps=2), N=2, gamma=0, seeds=[0])  # first call loads kernels
    rows = []
    for N in SIZES:
        times = {"ours": [], "peer": []}
        for seed in range(repeats):
            start = time.perf_counter()
            simulate(config, N=N, gamma=0, seeds=[seed])
            middle = time.perf_counter()
            plain(config, N, steps, seed)
            times["ours"].append((middle - start) / steps * 1e3)
            times["peer"].append((time.perf_counter() - middle) / steps * 1e3)
        ours, peer = statistics.median(times["ours"]), statistics.median(times["peer"])
        name = f"simulation step, N={N}"
        rows.append({"name": name, "ours_ms": ours, "peer_ms": peer, "ratio": peer / ours})
        print(f"{name:28s} ours {ours:7.2f} ms   numpy {peer:7.2f} ms   {peer / ours:5.1f} x")
    return rows


if __name__ == "__main__":
    run()
