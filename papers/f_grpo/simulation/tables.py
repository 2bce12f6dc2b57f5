"""F-GRPO's categorical simulation (App. J, Figure 4): ascent on a softmax over 128,000 actions.

Each step draws N actions from p = softmax(z), gives them r~_j = R_j - mean_k R_k, scales the
objective by g = (1 - mu_pos)^gamma (Eq. 15) and takes one ascent step on the logits z. A reading of
the objective and the optimiser is named `<objective>_<optimizer>`. The paper prints L = (1/N) sum_j
r~_j p_j and "gradient ascent" (`printed_sgd`), whose steps are far too small to move anything at
lr = 1e-2. The default, `score_adam`, with log p_j in place of p_j and Adam without weight decay, is
our choice, not the paper's.

Correct actions come first, with the anchor at index 0. In shapes, S is the number of seeds and A
the number of actions.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from itertools import product
from pathlib import Path

import pandas as pd
import torch
from rich.progress import track

from common.results.files import config_hash, read_csv, write_csv
from common.results.run import computation
from common.watch import end_with_parent
from papers.f_grpo.simulation.config import Simulation
from papers.f_grpo.simulation.formulas import ascend, draw, gradient, metrics

KEYS = ["reading", "gamma", "N", "seed"]
METRICS = ["Q_pos", "M_ret", "entropy"]
COLUMNS = [*KEYS, "step", *METRICS]


def simulate(config: Simulation, *, N: int, gamma: float, seeds: list[int]):
    """Return the recorded rows of one (reading, gamma, N), with the columns COLUMNS.

    A seed's rows depend on the seed, N, gamma and the configuration only. Every gamma sees the same
    uniform numbers. State is float32; sampling and metrics are float64.
    """
    torch.set_flush_denormal(True)  # unsampled actions' moments decay to denormals, which are slow
    z = torch.full((len(seeds), config.actions), config.incorrect_logit)
    z[:, : config.correct] = config.correct_logit
    z[:, 0] = config.anchor_logit
    m, v, weights, counts = (torch.zeros_like(z) for _ in range(4))
    cdf, ones = torch.zeros_like(z, dtype=torch.float64), torch.ones(len(seeds), N)
    streams = [int(config_hash({"N": N, "seed": seed}), 16) for seed in seeds]
    generators = [torch.Generator().manual_seed(stream) for stream in streams]
    objective = {key: getattr(config, key) for key in ("objective", "correct", "R_c", "R_w")}
    names = ("optimizer", "lr", "betas", "eps", "weight_decay")
    optimizer = {key: getattr(config, key) for key in names}
    rows, p_0 = [], None
    for step in range(config.steps + 1):
        torch.sub(z, z.amax(1, keepdim=True), out=weights).exp_()
        cdf.copy_(weights).cumsum_(1)
        if step % config.every == 0 or step == config.steps:
            exact = weights.double()
            exact /= exact.sum(1, keepdim=True)
            p_0 = exact[:, : config.correct].clone() if p_0 is None else p_0
            for seed, now, start in zip(seeds, exact, p_0, strict=True):
                key = (config.reading, gamma, N, seed, step)
                rows.append((*key, *metrics(now, start).values()))
        if step == config.steps:
            break
        uniforms = [torch.rand(N, generator=g, dtype=torch.float64) for g in generators]
        counts.zero_().scatter_add_(1, draw(cdf, torch.stack(uniforms)), ones)
        p = weights.div_(cdf[:, -1:].float())
        ascend(z, gradient(counts, p, gamma=gamma, **objective), m, v, step + 1, **optimizer)
    return pd.DataFrame(rows, columns=COLUMNS)


def run(config: Simulation) -> Path:
    """Run the parts that are not stored yet; return the folder of {final,trajectory}.csv.gz.

    Sweeps that differ only in reading, gamma, N and seeds share one run folder,
    `simulation-<hash>`, with one file for each. trajectory holds all of them in order, final their
    last steps. A sweep that was killed resumes where it was.
    """
    varied = ("objective", "optimizer", "N", "gamma", "seeds", "workers", "results_dir")
    shared = {key: value for key, value in asdict(config).items() if key not in varied}
    shared |= {"betas": list(config.betas), "device": "cpu"}  # all of it makes the run's id
    root = Path(config.results_dir)
    with computation(root, "f_grpo", "simulation", shared) as (store, folder):
        units = store.path / "units"
        # the longest parts first, so that no worker is left with a long one at the end
        parts = product(sorted(config.N, reverse=True), config.gamma, range(config.seeds))
        missing = [part for part in parts if not _file(units, config, *part).exists()]
        if missing:
            (store.path / "DONE").unlink(missing_ok=True)
            for part, rows in track(_computed(config, missing), config.reading, len(missing)):
                write_csv(_file(units, config, *part), rows)
        trajectory = pd.concat([read_csv(file, COLUMNS) for file in units.glob("*.csv")])
        trajectory = trajectory.sort_values([*KEYS, "step"], ignore_index=True)
        write_csv(folder / "trajectory.csv.gz", trajectory)
        last = trajectory[trajectory["step"] == config.steps]
        write_csv(folder / "final.csv.gz", last[KEYS + METRICS])
    return folder


def _file(units: Path, config: Simulation, N: int, gamma: float, seed: int) -> Path:
    return units / f"{config.reading}-gamma{gamma:.12g}-N{N}-seed{seed}.csv"


def _computed(config: Simulation, missing: list):
    if config.workers == 1:
        for part in missing:
            yield part, _one_thread(config, *part)
        return

    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(config.workers, spawn, initializer=end_with_parent) as pool:
        futures = {pool.submit(_one_thread, config, *part): part for part in missing}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_thread(config: Simulation, N: int, gamma: float, seed: int):
    torch.set_num_threads(1)
    return simulate(config, N=N, gamma=gamma, seeds=[seed])
