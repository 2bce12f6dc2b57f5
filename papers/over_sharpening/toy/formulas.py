"""One step of the toy: advantages by number of successes, sampling, optimisers."""

import numpy as np

from papers.over_sharpening.toy.config import Cell, Toy

COLLAPSED = 0.99  # a label with this probability has collapsed


def weight_table(config: Toy, cell: Cell, G: int) -> np.ndarray:
    """Return (G + 1, 2): the advantage of a success and of a failure in a group with X successes; 0
    where X leaves no such response.

    IAC's factor (G - X)^alpha multiplies the positive advantages of every estimator; Algorithm 1
    has it for GRPO only.
    """
    import torch

    from common.methods.binding import all_groups, bind, group_weights

    bound = bind(config.methods[cell.estimator])
    weights = group_weights(bound, all_groups(G), config.reward, {}).to(torch.float64).numpy()
    table = np.stack([weights[:, 0], weights[:, -1]], axis=1)
    table[0, 0] = table[G, 1] = 0.0
    factor = (G - np.arange(G + 1.0))[:, None] ** cell.alpha
    return np.where(table > 0, factor * table, table)


def uniforms(seeds: list[int], steps: int, G: int) -> np.ndarray:
    """Return uniform numbers (steps, seeds, G) in [0, 1), which depend on seed and G only: every
    estimator, optimiser and learning rate gets the same numbers."""
    return np.stack([np.random.default_rng([s, G]).random((steps, G)) for s in seeds], axis=1)


def counts(p: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return how often each label is drawn by inverse CDF: p (..., 4), u (..., G) -> (..., 4)."""
    cdf = p.cumsum(-1)[..., :-1]
    below = (u[..., None] >= cdf[..., None, :]).sum(-2)  # draws past each of the first three
    edges = np.concatenate([np.full((*below.shape[:-1], 1), u.shape[-1]), below], axis=-1)
    return -np.diff(edges, axis=-1, append=0)


class Optimizer:
    """torch's SGD, SGD with momentum (no dampening) or AdamW, as gradient ascent on arrays."""

    def __init__(self, config: Toy, name: str, lr: np.ndarray, shape: tuple):
        self.config, self.name, self.lr = config, name, lr
        self.m, self.v, self.t = np.zeros(shape), np.zeros(shape), 0

    def step(self, W: np.ndarray, grad: np.ndarray) -> None:
        c = self.config
        if self.name == "sgd":
            W += self.lr * grad
            return
        if self.name == "momentum":
            self.m = c.momentum * self.m + grad
            W += self.lr * self.m
            return
        self.t += 1
        first, second = c.betas
        W *= 1 - self.lr * c.weight_decay
        self.m = first * self.m + (1 - first) * grad
        self.v = second * self.v + (1 - second) * grad**2
        mean, scale = self.m / (1 - first**self.t), self.v / (1 - second**self.t)
        W += self.lr * mean / (np.sqrt(scale) + c.eps)
