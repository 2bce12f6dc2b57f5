"""The softmax toy of over_sharpening Sec. 2.4, App. G and H: a linear classifier of four labels,
trained on one input (Persian) by policy gradients, over many seeds at once.

    f_theta(q, o) = W_o . e_q,   pi = softmax(f_theta)
    each step: draw G labels from pi, or with a memory network from softmax(f_theta - mu f_phi);
    reward 1 for Cat and Persian, else 0; advantages A; one step of the optimiser along
    (1/G) sum_s A_s grad log pi(o_s); then one cross-entropy step of f_phi on the drawn labels

The paper prints the embeddings, 500 steps, the rewards and mu. It does not print the learning
rates, the start, the momentum, G, whether there is a KL term, or the memory network. Our choices:
the values in configs/toy.yaml, no KL term, and a memory network of the classifier's shape,
optimiser and learning rate that starts at zeros. The advantages come from the method files. With
one prompt a step the batch of Reinforce++ is one group, so it equals GRPO up to epsilon.
"""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax

from common.results.files import write_csv
from common.results.run import computation
from papers.over_sharpening.embeddings import CAT, EMBEDDING, LABELS, PERSIAN, SIAMESE, SIMILARITY
from papers.over_sharpening.toy.config import Cell, Toy
from papers.over_sharpening.toy.formulas import COLLAPSED, Optimizer, counts, uniforms, weight_table

DRAWN = ["siamese_high", "siamese_mid", "siamese_low", "p_winner"]
SHOWN = ["p_cat", "p_persian", "siamese_high", "siamese_mid", "siamese_low"]


def simulate(config: Toy, optimizer: str, G: int, cells: list[Cell], u: np.ndarray) -> dict:
    """Train all cells and seeds side by side; the uniform numbers u (steps, seeds, G) draw the
    labels.

    Returns "curves": SHOWN as arrays (points, cells, seeds) at steps 0, every, ..., the last; and
    "collapse", (cells, seeds): the first step at which a label had COLLAPSED; NaN for never.
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
    points, collapse = [], np.full((len(cells), seeds), np.nan)
    which = np.arange(len(cells))[:, None]
    for t in range(steps + 1):
        pi = softmax(W @ e, axis=-1)
        collapse[np.isnan(collapse) & (pi.max(-1) >= COLLAPSED)] = t
        if t % config.every == 0 or t == steps:
            q = softmax((W @ readout).swapaxes(-1, -2), axis=-1)
            siamese = [q[:, :, i, SIAMESE] for i in (1, 2, 3)]
            points.append([pi[..., CAT], pi[..., PERSIAN], *siamese])
        if t == steps:
            break
        memory = V @ e
        drawn_from = softmax(W @ e - mu * memory, axis=-1)
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
            learn.step(V, (N / G - softmax(memory, axis=-1))[..., None] * e)
    arrays = dict(zip(SHOWN, np.moveaxis(np.array(points), 1, 0), strict=True))
    return {"curves": arrays, "collapse": collapse}


def run(config: Toy) -> Path:
    """Run the toy unless it is stored. Return the folder of final, curves and traces (.csv.gz).

    final: one row for each setting and seed, after the last step. curves: mean, 10 % and 90 %
    quantile over seeds by step, of DRAWN at main_lr. traces: single seeds by step, at main_lr.
    """
    shared = asdict(config)
    del shared["results_dir"]
    root = Path(config.results_dir)
    with computation(root, "over_sharpening", "toy", shared) as (store, folder):
        if not store.done:
            frames = {"final": [], "curves": [], "traces": []}
            for G in config.G:
                u = uniforms(list(range(config.seeds)), config.steps, G)
                for optimizer in config.optimizers:
                    for name, frame in tables(config, optimizer, G, u).items():
                        frames[name].append(frame)
            for name, parts in frames.items():
                write_csv(store.path / f"{name}.csv", pd.concat(parts))
        for name in ("final", "curves", "traces"):
            write_csv(folder / f"{name}.csv.gz", pd.read_csv(store.path / f"{name}.csv"))
    return folder


def tables(config: Toy, optimizer: str, G: int, u: np.ndarray) -> dict:
    final, curves, traces = [], [], []
    for remembered in (False, True):  # cells without a memory network skip its training
        cells = [cell for cell in config.cells if (cell.mu > 0) == remembered]
        if not cells:
            continue
        simulated = simulate(config, optimizer, G, cells, u)
        for i, cell in enumerate(cells):
            key = {"optimizer": optimizer, "G": G} | asdict(cell)
            paths = {name: values[:, i] for name, values in simulated["curves"].items()}
            last = {name: values[-1] for name, values in paths.items()}
            first = {"step_one": simulated["collapse"][i]}
            seed = {"seed": np.arange(u.shape[1])}
            final.append(pd.DataFrame(key | seed | last | first))
            if cell.lr != config.main_lr:
                continue
            paths["p_winner"] = np.maximum(paths["p_cat"], paths["p_persian"])
            at = {"step": sorted({*range(0, config.steps + 1, config.every), config.steps})}
            for name in DRAWN:
                low, high = np.quantile(paths[name], [0.1, 0.9], axis=1)
                stats = {"mean": paths[name].mean(1), "low": low, "high": high}
                curves.append(pd.DataFrame(key | {"metric": name} | at | stats))
            for s in range(min(config.traces, u.shape[1])):
                seen = {name: paths[name][:, s] for name in ("p_cat", "p_persian")}
                traces.append(pd.DataFrame(key | {"seed": s} | at | seen))
    return {"final": pd.concat(final), "curves": pd.concat(curves), "traces": pd.concat(traces)}
