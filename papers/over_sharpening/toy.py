"""The softmax toy of over_sharpening Sec. 2.4, App. G and H: a linear classifier of four labels,
trained on one input (Persian) by policy gradients, over many seeds at once.

    f_theta(q, o) = W_o . e_q,   pi = softmax(f_theta)
    each step: G labels from pi, or with a memory network from softmax(f_theta - mu f_phi);
    reward 1 for Cat and Persian, else 0; advantages A; one step of the optimiser along
    (1/G) sum_s A_s grad log pi(o_s); then one cross-entropy step of f_phi on the labels drawn

    python -m papers.over_sharpening.toy [G=[4,8]] [lr=[0.1,1]] [seeds=20] [key=value ...]

Printed: embeddings, 500 steps, rewards, mu. Not printed, ours: learning rates, start, momentum, G
(the brief of this repository), no KL term, the memory network's shape (as the classifier, at its
learning rate and with its optimiser) and start (zeros). Advantages are those of the method files.
With one prompt a step the batch of Reinforce++ is its group, so it is GRPO with another epsilon.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from common.config.schema import Method, Reward
from common.errors import require
from common.results.files import config_hash, write_csv, write_json
from common.results.run import Run

LABELS = ("cat", "dog", "persian", "siamese")
CAT, PERSIAN, SIAMESE = 0, 2, 3
EMBEDDING = {
    "cat": (0.5, 0.5, 0.5, 0.1),
    "dog": (0.1, 0.1, 0.1, 0.9),
    "persian": (0.75, 0.5, 0.25, 0.1),
    "siamese": (0.25, 0.5, 0.75, 0.1),
}
SIMILARITY = {  # e_Siamese of Sec. 2.4
    "high": (0.25, 0.5, 0.75, 0.1),
    "mid": (0.1, 0.5, 0.9, 0.1),
    "low": (0.0, 0.5, 1.0, 0.1),
}
ESTIMATORS = {  # name in the figures -> method file whose advantage it is
    "raw": "reinforce",
    "mean": "mean_only",
    "normalised": "grpo",
    "RLOO": "rloo",
    "Reinforce++": "reinforce_pp_baseline",
}
COLLAPSED = 0.99  # of one label; of both correct ones together: "saturated"
KEYS = ["optimizer", "G", "estimator", "alpha", "mu", "lr"]
SHOWN = ["p_cat", "p_persian", "siamese_high", "siamese_mid", "siamese_low", "entropy"]


@dataclass(frozen=True)
class Cell:
    """One curve: an estimator, IAC's exponent (0: none), DLC's mu (0: none), a learning rate."""

    estimator: str
    alpha: float
    mu: float
    lr: float


@dataclass(frozen=True)
class Toy:
    methods: dict[str, Method]  # of ESTIMATORS, composed
    estimators: list[str]
    calibrated: list[str]  # estimators that also run with IAC, DLC and both
    optimizers: list[Literal["sgd", "momentum", "adamw"]]
    G: list[int]
    lr: list[float]
    main_lr: float  # of the figures and of the calibrated cells
    alpha: float
    mu: float
    importance_cap: float | None  # of pi_theta / pi_sample under DLC; None: no correction
    start: Literal["zeros", "embeddings"]
    seeds: int  # 0 .. seeds-1
    steps: int
    every: int  # steps between recorded points
    traces: int  # seeds whose own curves are kept
    momentum: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    results_dir: str
    reward: Reward
    sampling: dict
    optim: dict

    def __post_init__(self):
        for name in (*self.estimators, *self.calibrated):
            require(name in ESTIMATORS, "estimators", name, f"use {', '.join(ESTIMATORS)}")
        for G in self.G:
            require(G >= 2, "G", G, "a group needs at least 2")
        for lr in self.lr:
            require(lr > 0, "lr", lr, "must be above 0")
        for key in ("seeds", "steps", "every", "traces"):
            require(getattr(self, key) >= 1, key, getattr(self, key), "must be at least 1")
        require(self.main_lr in self.lr, "main_lr", self.main_lr, "must be one of lr")
        require(self.alpha >= 0, "alpha", self.alpha, "must be >= 0")
        require(self.mu >= 0, "mu", self.mu, "must be >= 0")

    @property
    def cells(self) -> list[Cell]:
        plain = [Cell(e, 0.0, 0.0, lr) for e in self.estimators for lr in self.lr]
        pairs = [(self.alpha, 0.0), (0.0, self.mu), (self.alpha, self.mu)]
        return plain + [
            Cell(e, alpha, mu, self.main_lr) for e in self.calibrated for alpha, mu in pairs
        ]


def weight_table(config: Toy, cell: Cell, G: int) -> np.ndarray:
    """(G + 1, 2): the advantage of a success and of a failure in a group with X successes.

    IAC's factor (G - X)^alpha is on positive advantages of any estimator; Algorithm 1 has it on
    GRPO's. A side without responses holds 0.
    """
    import torch

    from common.methods.binding import all_groups, bind, group_weights

    bound = bind(config.methods[cell.estimator])
    weights = group_weights(bound, all_groups(G, config.reward), {}).to(torch.float64).numpy()
    table = np.stack([weights[:, 0], weights[:, -1]], axis=1)
    table[0, 0] = table[G, 1] = 0.0
    factor = (G - np.arange(G + 1.0))[:, None] ** cell.alpha
    return np.where(table > 0, factor * table, table)


def uniforms(seeds: list[int], steps: int, G: int) -> np.ndarray:
    """(steps, seeds, G) in [0, 1): the same for every estimator, optimiser and learning rate."""
    return np.stack([np.random.default_rng([s, G]).random((steps, G)) for s in seeds], axis=1)


def softmax(z: np.ndarray) -> np.ndarray:
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def counts(p: np.ndarray, u: np.ndarray) -> np.ndarray:
    """How often each label is drawn by inverse CDF, p (..., 4), u (..., G) -> (..., 4)."""
    cdf = p.cumsum(-1)[..., :-1]
    below = (u[..., None] >= cdf[..., None, :]).sum(-2)  # draws beyond each of the first three
    edges = np.concatenate([np.full((*below.shape[:-1], 1), u.shape[-1]), below], axis=-1)
    return -np.diff(edges, axis=-1, append=0)


class Optimizer:
    """torch's SGD, SGD with momentum (no dampening) or AdamW, as ascent, on arrays of one shape."""

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


def simulate(config: Toy, optimizer: str, G: int, cells: list[Cell], u: np.ndarray) -> dict:
    """All cells and seeds side by side; u (steps, seeds, G) are the numbers to draw labels with.

    Returns arrays (points, cells, seeds) of SHOWN at steps 0, every, ..., the last, and for each
    (cell, seed) the first step at which one label, and both correct ones, had COLLAPSED; NaN for
    never.
    """
    steps, seeds, _ = u.shape
    shape = (len(cells), seeds, 4, 4)  # cell, seed, label, dimension
    W = np.zeros(shape)
    if config.start == "embeddings":
        W += np.array([EMBEDDING[name] for name in LABELS])
    V = np.zeros(shape)
    e = np.array(EMBEDDING["persian"])
    lr = np.array([cell.lr for cell in cells])[:, None, None, None]
    mu = np.array([cell.mu for cell in cells])[:, None, None]
    table = np.stack([weight_table(config, cell, G) for cell in cells])
    correct = np.array([name in ("cat", "persian") for name in LABELS])
    step, learn = Optimizer(config, optimizer, lr, shape), Optimizer(config, optimizer, lr, shape)
    readout = np.array([EMBEDDING["persian"], *SIMILARITY.values()]).T
    points, times = [], {name: np.full((len(cells), seeds), np.nan) for name in ("one", "both")}
    which = np.arange(len(cells))[:, None]
    for t in range(steps + 1):
        pi = softmax(W @ e)
        masses = {"one": pi.max(-1), "both": pi[..., correct].sum(-1)}
        for name, mass in masses.items():
            new = np.isnan(times[name]) & (mass >= COLLAPSED)
            times[name][new] = t
        if t % config.every == 0 or t == steps:
            q = softmax((W @ readout).swapaxes(-1, -2))
            entropy = -(pi * np.log(np.maximum(pi, 1e-300))).sum(-1)
            siamese = [q[:, :, i, SIAMESE] for i in (1, 2, 3)]
            points.append([pi[..., CAT], pi[..., PERSIAN], *siamese, entropy])
        if t == steps:
            break
        memory = V @ e
        drawn_from = softmax(W @ e - mu * memory)
        N = counts(drawn_from, u[t])
        X = N[..., correct].sum(-1)
        A = np.where(correct, table[which, X, 0][..., None], table[which, X, 1][..., None])
        weight = N * A / G
        if config.importance_cap is not None:
            share = pi / np.maximum(drawn_from, 1e-300)
            weight = weight * np.minimum(share, config.importance_cap)
        grad = weight - pi * weight.sum(-1, keepdims=True)
        step.step(W, grad[..., None] * e)
        if mu.any():
            learn.step(V, (N / G - softmax(memory))[..., None] * e)
    arrays = dict(zip(SHOWN, np.moveaxis(np.array(points), 1, 0), strict=True))
    return {"curves": arrays, "one": times["one"], "both": times["both"]}


def recorded(config: Toy) -> list[int]:
    return sorted({*range(0, config.steps + 1, config.every), config.steps})


def run(config: Toy) -> Path:
    """Run what is not stored; returns the folder of final.csv, curves.csv and traces.csv.

    final: one row a (cell, seed) after the last step. curves: mean, 10 % and 90 % quantile over
    seeds by step. traces: single seeds by step, at main_lr. A run is found by its configuration.
    """
    import pandas as pd

    shared = asdict(config)
    del shared["results_dir"]
    root = Path(config.results_dir)
    store = Run(root, "over_sharpening", f"toy-{config_hash(shared)}", shared)
    folder = root / "over_sharpening" / "toy"
    try:
        if not store.done:
            frames = {"final": [], "curves": [], "traces": []}
            for G in config.G:
                u = uniforms(list(range(config.seeds)), config.steps, G)
                for optimizer in config.optimizers:
                    for name, frame in tables(config, optimizer, G, u).items():
                        frames[name].append(frame)
            for name, parts in frames.items():
                write_csv(store.path / f"{name}.csv", pd.concat(parts))
            store.finish()
        for name in ("final", "curves", "traces"):
            write_csv(folder / f"{name}.csv", pd.read_csv(store.path / f"{name}.csv"))
        write_json(folder / "settings.json", {"run_id": store.run_id} | shared)
    finally:
        store.close()
    return folder


def tables(config: Toy, optimizer: str, G: int, u: np.ndarray) -> dict:
    """The rows of one (optimizer, G), by file name."""
    import pandas as pd

    final, curves, traces = [], [], []
    for remembered in (False, True):  # cells without a memory network need not train one
        cells = [cell for cell in config.cells if (cell.mu > 0) == remembered]
        if not cells:
            continue
        found = simulate(config, optimizer, G, cells, u)
        for i, cell in enumerate(cells):
            key = {"optimizer": optimizer, "G": G} | asdict(cell)
            own = {name: values[:, i] for name, values in found["curves"].items()}
            last = {name: values[-1] for name, values in own.items()}
            times = {"step_one": found["one"][i], "step_both": found["both"][i]}
            start = {f"start_{name}": own[name][0] for name in ("p_cat", "p_persian")}
            seed = {"seed": np.arange(u.shape[1])}
            final.append(pd.DataFrame(key | seed | last | times | start))
            own["p_winner"] = np.maximum(own["p_cat"], own["p_persian"])
            for name, values in own.items():
                low, high = np.quantile(values, [0.1, 0.9], axis=1)
                stats = {"mean": values.mean(1), "low": low, "high": high}
                curves.append(
                    pd.DataFrame(key | {"metric": name, "step": recorded(config)} | stats)
                )
            if cell.lr == config.main_lr:
                for s in range(min(config.traces, u.shape[1])):
                    seen = {name: own[name][:, s] for name in ("p_cat", "p_persian")}
                    traces.append(pd.DataFrame(key | {"seed": s, "step": recorded(config)} | seen))
    return {"final": pd.concat(final), "curves": pd.concat(curves), "traces": pd.concat(traces)}


if __name__ == "__main__":
    from common.cli import main

    main(run, Toy, "over_sharpening", "toy")
