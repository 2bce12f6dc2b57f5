"""The toy example of the two-stage paper (Algorithm 1, App. C.4): group policy gradient on a
softmax over three or four actions, for all seeds and all settings of a figure at once.

Each step draws G actions from p = softmax(z / tau), takes A_i = r_i - mean r, moves the logits by

    g = sum_i w_i A_i (e_{a_i} - p),  z <- z + eta g / G  (sgd),  or Adam's step on g / G

w_i = 1 (full) or [A_i < 0] (negative, the paper's -N). The best action is the one with the highest
reward; the leader is the likeliest of the other actions at the start.

Arrays are (V, C, S): actions, cells (settings of a figure), seeds.
"""

from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from common.results.files import write_csv
from common.results.run import computation
from papers.two_stage.toy.config import Cell, Toy
from papers.two_stage.toy.formulas import draw_below, gradient, negatives
from papers.two_stage.toy.stages import Stages

KEYS = ["figure", "optimizer", "method", "cell"]
PATHS = [*KEYS, "step", "action", "mean", "low", "high", "expected"]
CHUNK = 500  # steps whose random numbers are drawn at once


def simulate(
    config: Toy, cells: list[Cell], *, optimizer: str, negative_only: bool, seeds: list[int]
):
    """Return (paths, ends) of cells that share G and the number of actions.

    paths has the columns PATHS without figure, optimizer, method and `expected`; ends has cell,
    seed and what `Stages` says of their paths. A seed's path depends on optimizer, method, seed, G
    and cell only; all see the same uniform numbers.
    """
    G = cells[0].G
    column = lambda values: np.array(values, float).T[..., None]  # noqa: E731
    rewards = column([cell.rewards for cell in cells])  # (V, C, 1)
    tau = column([cell.temperature for cell in cells])  # (C, 1)
    held = np.where(column([cell.hold == "policy" for cell in cells]), tau, 1)
    start = np.log(column([cell.policy for cell in cells])) * held
    z = np.repeat(start, len(seeds), axis=2)
    m, v = np.zeros_like(z), np.zeros_like(z)
    (beta1, beta2), recorded = config.betas, set(config.recorded())
    generators = [np.random.default_rng([seed, G]) for seed in seeds]
    stages, frames, uniforms = None, [], None
    for step in range(config.steps + 1):
        p = np.exp((z - z.max(0)) / tau)
        p /= p.sum(0)
        stages = stages or Stages([c.best for c in cells], [c.leader for c in cells], p)
        stages.see(step, p)
        if step in recorded:
            frames.append(_spread(cells, step, p, config.band))
        if step == config.steps:
            break
        if step % CHUNK == 0:
            uniforms = np.stack([g.random((CHUNK, G)) for g in generators], axis=-1)
        below = draw_below(p, uniforms[step % CHUNK])
        stages.drew(negatives(below, rewards, G=G))
        g = gradient(p, below, rewards, G=G, negative_only=negative_only)
        if config.temperature_gradient:
            g /= tau
        if optimizer == "sgd":
            z += config.eta * g
            continue
        m += (1 - beta1) * (g - m)
        v += (1 - beta2) * (g * g - v)
        mhat, vhat = m / (1 - beta1 ** (step + 1)), v / (1 - beta2 ** (step + 1))
        z += config.eta * mhat / (np.sqrt(vhat) + config.eps)
    names = {"cell": np.repeat([cell.name for cell in cells], len(seeds))}
    ends = pd.DataFrame(names | {"seed": np.tile(seeds, len(cells))} | stages.ends(p, config.rise))
    return pd.concat(frames, ignore_index=True), ends


def _spread(cells: list[Cell], step: int, p, band):
    V = len(p)
    low, high = np.quantile(p, band, axis=2)
    numbers = {"mean": p.mean(2), "low": low, "high": high}
    names = np.tile([cell.name for cell in cells], V)
    head = {"cell": names, "step": step, "action": np.repeat(np.arange(1, V + 1), len(cells))}
    return pd.DataFrame(head | {name: x.ravel() for name, x in numbers.items()})


def run(config: Toy) -> Path:
    """Run the parts that are not stored yet. Return the folder of paths.csv.gz and ends.csv.gz,
    which hold the parts that `config` names. A part is a (figure, optimizer, method). Parts with
    the same other settings share one run folder, `toy-<hash>`, and a stopped command resumes where
    it was."""
    shared = asdict(config)
    for key in ("optimizers", "methods", "results_dir"):
        del shared[key]
    shared = {k: list(v) if isinstance(v, tuple) else v for k, v in shared.items()}
    with computation(Path(config.results_dir), "two_stage", "toy", shared) as (store, folder):
        tables: dict[str, list] = {"paths": [], "ends": []}
        for figure, optimizer, method in product(config.figures, config.optimizers, config.methods):
            files = {name: _file(store.path, name, figure, optimizer, method) for name in tables}
            if not all(file.exists() for file in files.values()):
                (store.path / "DONE").unlink(missing_ok=True)
                print(f"toy: {figure} {optimizer} {method}", flush=True)
                for file, frame in zip(
                    files.values(), _part(config, figure, optimizer, method), strict=True
                ):
                    write_csv(file, frame)
            for name, file in files.items():
                tables[name].append(pd.read_csv(file))
        for name, frames in tables.items():
            write_csv(folder / f"{name}.csv.gz", pd.concat(frames, ignore_index=True))
    return folder


def _file(folder: Path, name: str, figure: str, optimizer: str, method: str) -> Path:
    return folder / "parts" / f"{figure}-{optimizer}-{method}-{name}.csv"


def _part(config: Toy, figure: str, optimizer: str, method: str):
    """Return (paths, ends) of one part. `expected` is the path of exact expected steps, empty for
    Adam, whose step is not linear in g."""
    together: dict[tuple[int, int], list[Cell]] = {}
    for cell in config.figures[figure]:
        together.setdefault((cell.G, len(cell.policy)), []).append(cell)
    seeds = list(range(config.seeds))
    parts = [
        simulate(
            config, cells, optimizer=optimizer, negative_only=method == "negative", seeds=seeds
        )
        for cells in together.values()
    ]
    key = {"figure": figure, "optimizer": optimizer, "method": method}
    paths, ends = (pd.concat(frames, ignore_index=True).assign(**key) for frames in zip(*parts))  # noqa: B905
    paths["expected"] = np.nan
    if optimizer == "sgd":
        for cell in config.figures[figure]:
            inside = paths["cell"] == cell.name
            line = cell.expected(config, method == "negative")
            row = np.searchsorted(config.recorded(), paths.loc[inside, "step"])
            paths.loc[inside, "expected"] = line[row, paths.loc[inside, "action"] - 1]
    return paths[PATHS], ends[[*KEYS, *ends.columns.drop(KEYS)]]
