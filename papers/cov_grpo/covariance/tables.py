"""Covariance statistics of real rollouts (sec 2.2): Fig. 3, Table 1, weights, entropy drift.

`run` trains the experiment for `steps` rollout steps with the local backend's loop. At each step,
before the update, it computes the covariances of all tokens and the weights that each reading of
the method would give them. Then it measures the entropy on the states just visited before and after
the update, and, from the same parameters, after one plain gradient step of size eta.

Each seed has a run in <results_dir>/cov_grpo/covariance-<hash>/, from that seed's base model. The
folder covariance/ gathers their tables, with the seed as the first column:

    cumulative.csv   mean, tokens, share, contribution            Fig. 3
    percentiles.csv  mean, tokens, reading, side, share, value    Table 1
    weights.csv      step, reading and formulas.weight_summary
    steps.csv        step, covariance, entropy, predicted and measured drifts

`mean` is the mean in the covariance: token or sequence. `tokens` is all or active (of groups with a
gradient).
"""

from dataclasses import asdict
from pathlib import Path

import pandas as pd
import torch

from common.backends.local import Loop
from common.experiment import Experiment, load
from common.losses.contributions import cumulative_contribution, percentiles
from common.losses.covariance import covariance, gaussian_kernel
from common.models.policy import log_probs
from common.results.files import config_hash, write_csv
from common.results.run import Run
from common.verifiers.guard import judges
from papers.cov_grpo.covariance.config import Covariance
from papers.cov_grpo.covariance.formulas import by_group, weight_summary

TABLES = ("cumulative", "percentiles", "weights", "steps")
MEANS = ("token", "sequence")
READINGS = ("threshold", "mean")  # of Table 1's percentiles (INC032)


def run(config: Covariance) -> Path:
    """Measure the seeds that are not stored yet and return the folder of all seeds' gathered
    tables. Raises UserError for an invalid experiment before anything is computed."""
    runs = {seed: experiment(config, seed) for seed in config.seeds}
    stored = {seed: stored_run(config, x) for seed, x in runs.items()}
    folder = Path(config.results_dir) / "cov_grpo" / "covariance"
    for name in TABLES:
        tables = {seed: pd.read_csv(path / f"{name}.csv") for seed, path in stored.items()}
        gathered = pd.concat(tables, names=["seed"]).reset_index("seed")
        write_csv(folder / f"{name}.csv", gathered)
    return folder


def experiment(config: Covariance, seed: int) -> Experiment:
    where = [f"experiment={config.row}", f"optim.steps={config.steps}"]
    where += [f"results_dir={config.results_dir}", *config.overrides, f"seed={seed}"]
    return load(where, "cov_grpo")


def stored_run(config: Covariance, x: Experiment) -> Path:
    """Return the folder of one seed's tables, measured first if they are not stored."""
    asked = asdict(config) | {"seed": x.seed}
    shared = {key: asked[key] for key in asked if key not in ("seeds", "results_dir")}
    identity = {"command": shared, "experiment": x.identity}
    run_id = f"covariance-{config_hash(identity)}"
    store = Run(Path(config.results_dir), "cov_grpo", run_id, identity)
    if not store.done:
        for name, table in measure(x, config, store.path).items():
            write_csv(store.path / f"{name}.csv", table)
        store.finish()
    store.close()
    return store.path


def measure(x: Experiment, config: Covariance, folder: Path) -> dict:
    torch.set_num_threads(x.threads)
    values, steps = {mean: [] for mean in MEANS}, []
    active, summaries = [], []
    with judges(x.data.verifier, x.verification) as verify:
        loop = Loop(x, folder, verify)
        for step in range(1, config.steps + 1):
            batch, advantages, row = rollout(loop, step)
            real, column = batch.mask > 0, advantages.reshape(-1, 1)
            acting = (column != 0).expand_as(real) & real
            active.append(acting[real])
            for mean in MEANS:
                c = covariance(batch.log_probs, column, batch.mask, mean=mean)
                values[mean].append(c[real])
            for reading, w in readings(batch, column).items():
                summary = weight_summary(w, column, batch.mask)
                summaries.append({"step": step, "reading": reading} | summary)
            steps.append({"step": step} | row | drifts(loop, batch, advantages, config.eta))
            steps[-1]["covariance"] = values["token"][-1].double().mean().item()
            steps[-1]["predicted"] = -steps[-1]["eta"] * steps[-1]["covariance"]
            loop.step = step
    mask = torch.cat(active)
    pooled = {mean: torch.cat(parts) for mean, parts in values.items()}
    return {
        "cumulative": cumulative(pooled, mask, config.shares),
        "percentiles": table1(pooled, mask, config.shares),
        "weights": pd.DataFrame(summaries),
        "steps": pd.DataFrame(steps),
    }


def rollout(loop, step: int):
    """Return (responses, advantages (P, G), logged values) of a step, as the loop's `one_step`."""
    drawn, row, _ = loop.rollout(step)
    correct = drawn.rewards == loop.x.reward.correct
    advantages, _ = loop.advantages(step, drawn, drawn.rewards, correct, row["solve_rate"])
    kept = {key: row[key] for key in ("reward", "active_groups")}
    return drawn.batch, advantages, kept | {"lr": loop.set_lr(step, {})}


def readings(batch, advantages) -> dict:
    given = (batch.log_probs, batch.log_probs, advantages, batch.mask)
    return {
        "token mean": gaussian_kernel(*given, mean="token"),
        "sequence mean": gaussian_kernel(*given, mean="sequence"),
        "by group": by_group(*given, mean="token", group_size=batch.group_size),
    }


def drifts(loop, batch, advantages, eta: float) -> dict:
    """Take a plain step and the loop's step from the same parameters; the loop continues from its
    step.

    Return `entropy` on the batch's states before, its change by the loop's step (`measured_adamw`)
    and by the plain one (`measured_plain`), and `eta`, the requested size of the plain step times
    the factor of gradient clipping.
    """
    before = entropy(loop, batch)
    start = {name: value.clone() for name, value in loop.model.state_dict().items()}
    optimizer, loop.optimizer = loop.optimizer, torch.optim.SGD(loop.model.parameters(), lr=eta)
    norm = loop.update(batch, advantages)["grad_norm"]
    plain = entropy(loop, batch) - before
    loop.model.load_state_dict(start)
    loop.optimizer = optimizer
    loop.update(batch, advantages)
    after = entropy(loop, batch)
    return {
        "entropy": before,
        "eta": eta * min(1.0, loop.x.optim.grad_clip / norm) if norm > 0 else eta,
        "measured_plain": plain,
        "measured_adamw": after - before,
    }


def entropy(loop, batch) -> float:
    """Return the policy's mean exact entropy over the tokens of `batch`, in nats."""
    parts = [batch.prompts(i, i + 1) for i in range(len(batch.prompt_ids))]  # a group's logits fit
    with torch.no_grad():
        values = torch.cat([log_probs(loop.model, x, loop.x.sampling.reported)[1] for x in parts])
    return (torch.where(batch.mask > 0, values, 0).double().sum() / batch.mask.sum()).item()


def cumulative(pooled: dict, active, shares: list[float]):
    """Return Fig. 3's curve for each mean, over all tokens and over the active ones."""
    rows = []
    for mean, tokens, c in subsets(pooled, active):
        held = {"share": shares, "contribution": cumulative_contribution(c, shares), "n": len(c)}
        rows.append(pd.DataFrame(held | {"mean": mean, "tokens": tokens}))
    return pd.concat(rows, ignore_index=True)


def table1(pooled: dict, active, shares: list[float]):
    """Return Table 1's values for each mean and reading, over all tokens and the active ones."""
    rows = [
        (side, share, values[i], mean, tokens, reading)
        for mean, tokens, c in subsets(pooled, active)
        for i, reading in enumerate(READINGS)
        for side, share, *values in percentiles(c, shares)
    ]
    return pd.DataFrame(rows, columns=["side", "share", "value", "mean", "tokens", "reading"])


def subsets(pooled: dict, active) -> list[tuple]:
    kinds = (("all", slice(None)), ("active", active))
    return [(mean, tokens, c[kind]) for mean, c in pooled.items() for tokens, kind in kinds]
