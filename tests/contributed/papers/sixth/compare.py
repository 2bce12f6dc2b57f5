"""The toy of the sixth paper, and its result rows."""

from pathlib import Path

import numpy as np
import pandas as pd

from common.results.files import write_csv

START = np.log([0.3, 0.3, 0.4])  # two right answers and a wrong one
REWARDS = np.array([1.0, 1.0, 0.0])


def toy(root: Path, *, steps: int, seeds: int) -> None:
    """Write <root>/sixth/toy/rows.csv."""
    rows = [
        {"table": "toy", "method": method, "benchmark": "bandit", "metric": "moved", "seed": seed}
        | {"step": steps, "value": moved(shrink, seed, steps=steps), "unit": "percent"}
        for method, shrink in (("GRPO", 1.0), ("Shrunk", 0.5))
        for seed in range(1, seeds + 1)
    ]
    write_csv(root / "sixth" / "toy" / "rows.csv", pd.DataFrame(rows))


def moved(shrink: float, seed: int, *, steps: int, G: int = 8, lr: float = 0.5) -> float:
    """How far a softmax policy moves in the second half of `steps` plain policy gradient steps: the
    total variation distance, in percent."""
    import torch  # a comparison alone needs none

    from common.advantages.shrunk import shrunk

    generator, logits, path = np.random.default_rng(seed), START.copy(), []
    for _ in range(steps):
        pi = np.exp(logits) / np.exp(logits).sum()
        path.append(pi)
        drawn = generator.choice(3, G, p=pi)
        rewards = torch.tensor(REWARDS[drawn])[None]
        A = shrunk(rewards, correct=rewards == 1, shrink=shrink)[0].numpy()
        logits += lr * (A[:, None] * (np.eye(3)[drawn] - pi)).mean(0)
    return 50 * np.abs(path[-1] - path[steps // 2]).sum()


def own_rows(root: Path) -> list[pd.DataFrame]:
    path = root / "sixth" / "toy" / "rows.csv"
    return [pd.read_csv(path)] if path.exists() else []
