"""F-GRPO's categorical simulation (App. J, Figure 4): ascent on a softmax over 128,000 actions.

Each step draws N actions from p = softmax(z), gives them r~_j = R_j - mean_k R_k, scales the
objective by g = (1 - mu_pos)^gamma (Eq. 15) and takes one ascent step on the logits z. What the
objective and the optimiser are is a reading, `<objective>_<optimizer>`: the paper prints
L = (1/N) sum_j r~_j p_j and "gradient ascent" (`printed_sgd`), whose steps are far too small to
move anything at lr = 1e-2. The default, `score_adam`, takes log p_j for p_j and Adam without weight
decay; it is our choice, not the paper's.

    python -m papers.f_grpo.simulation [objective=score] [optimizer=adam] [N=[2,1024]] [gamma=[0,1]]

Correct actions come first, the anchor at index 0; S is the number of seeds, A of actions.
"""

from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from common.errors import UserError, require
from common.results.files import config_hash, read_csv, write_csv, write_json
from common.results.run import Run

KEYS = ["reading", "gamma", "N", "seed"]
METRICS = ["Q_pos", "M_ret", "entropy"]
COLUMNS = [*KEYS, "step", *METRICS]
OBJECTIVES = ("score", "printed", "eq7")
OPTIMIZERS = ("sgd", "adam", "adamw")


@dataclass(frozen=True)
class Simulation:
    objective: str
    optimizer: str
    N: list[int]  # group sizes, samples a step
    gamma: list[float]  # focal exponents; 0 is no focal weight
    seeds: int  # how many: 0 .. seeds-1
    steps: int
    every: int  # steps between recorded rows
    actions: int
    correct: int  # correct actions, the anchor included
    anchor_logit: float
    correct_logit: float
    incorrect_logit: float
    R_c: float
    R_w: float
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float  # adamw only
    workers: int
    device: str
    results_dir: str

    def __post_init__(self):
        require(self.objective in OBJECTIVES, "objective", self.objective, "|".join(OBJECTIVES))
        require(self.optimizer in OPTIMIZERS, "optimizer", self.optimizer, "|".join(OPTIMIZERS))
        require(bool(self.N), "N", self.N, "name at least one group size")
        for N in self.N:
            require(2 <= N <= 2**24, "N", N, "a group needs 2 to 2^24 samples")
        require(
            bool(self.gamma),
            "gamma",
            self.gamma,
            "name at least one exponent, 0 for no focal weight",
        )
        for gamma in self.gamma:
            require(gamma >= 0, "gamma", gamma, "must be >= 0")
        for key in ("N", "gamma"):
            values = getattr(self, key)
            require(len(set(values)) == len(values), key, values, "names a value twice")
        for key in ("seeds", "steps", "every", "workers"):
            require(getattr(self, key) >= 1, key, getattr(self, key), "must be at least 1")
        require(
            1 <= self.correct < self.actions,
            "correct",
            self.correct,
            f"must be 1..actions-1={self.actions - 1}, so that both rewards occur",
        )
        require(self.R_c > self.R_w, "R_c", self.R_c, f"must exceed R_w={self.R_w}")
        for key in ("lr", "eps"):
            require(getattr(self, key) > 0, key, getattr(self, key), "must be above 0")
        require(
            all(0 <= beta < 1 for beta in self.betas), "betas", self.betas, "must lie in [0, 1)"
        )
        require(self.weight_decay >= 0, "weight_decay", self.weight_decay, "must be >= 0")
        require(self.device in ("auto", "cpu", "cuda"), "device", self.device, "auto|cpu|cuda")

    @property
    def reading(self) -> str:
        return f"{self.objective}_{self.optimizer}"


def draw(cdf, uniforms):
    """Actions by inverse CDF, a_j = min{i : u_j cdf_A < cdf_i}; (S, A), (S, N) -> (S, N) indices.

    `cdf` need not be normalised. The samples come in no particular order.
    """
    import numpy as np
    import torch

    scaled = uniforms * cdf[:, -1:]
    if cdf.is_cuda:
        index = torch.searchsorted(cdf, scaled, right=True)
    else:  # numpy sorts, and searches sorted keys, several times faster than torch does on a CPU
        rows = zip(cdf.numpy(), np.sort(scaled.numpy(), axis=1), strict=True)
        index = torch.from_numpy(np.stack([np.searchsorted(c, u, side="right") for c, u in rows]))
    return index.clamp_(max=cdf.shape[1] - 1)  # u * cdf_A may round up to cdf_A


def gradient(counts, p, *, objective: str, correct: int, R_c: float, R_w: float, gamma: float):
    """Gradient of the objective in the logits, (S, A), from p and the counts of the sample, (S, A).

    With X correct among N samples, mu = X/N (Eq. 14), Rbar = R_w + (R_c - R_w) mu,
    g = (1 - mu)^gamma, c_a the count of action a and r~_a = R_a - Rbar:

    - printed (App. J), L = g/N sum_j r~_j p_j:      dL/dz_a = g/N p_a (c_a r~_a - sum_j r~_j p_j)
    - score,            L = g/N sum_j r~_j log p_j:  dL/dz_a = g/N c_a r~_a
      (its other term, -p_a sum_j r~_j, is zero because r~ sums to zero)
    - eq7 (Eq. 7), distinct samples, P_pos and P_neg their masses, S_R = R_c P_pos + R_w P_neg:
                                                     g/N p_a (R_a [c_a > 0] - S_R)

    A batch of one class has gradient zero in the first two, not in eq7. `counts` is overwritten: at
    this width a fresh array a step costs more than the arithmetic in it.
    """
    N = counts.sum(1, keepdim=True)
    mu = counts[:, :correct].sum(1, keepdim=True) / N
    scale = (1 - mu) ** gamma / N
    if objective == "eq7":
        hit = counts.clamp_(max=1)
        hit[:, :correct] *= R_c
        hit[:, correct:] *= R_w
        return hit.sub_((hit * p).sum(1, keepdim=True)).mul_(p).mul_(scale)
    baseline = R_w + (R_c - R_w) * mu
    counts[:, :correct] *= scale * (R_c - baseline)
    counts[:, correct:] *= scale * (R_w - baseline)
    if objective == "printed":
        counts *= p
        counts -= p * counts.sum(1, keepdim=True)
    return counts


def ascend(
    z, grad, m, v, step: int, *, optimizer: str, lr: float, betas, eps: float, weight_decay: float
):
    """One ascent step on z, in place; m, v: Adam's moments; `step` counts from 1; grad is used up.

    sgd: z += lr grad. adam: z += lr mhat / (sqrt(vhat) + eps). adamw: z *= 1 - lr weight_decay,
    then as adam.
    """
    if optimizer == "sgd":
        z.add_(grad, alpha=lr)
        return
    beta1, beta2 = betas
    if optimizer == "adamw":
        z.mul_(1 - lr * weight_decay)
    m.lerp_(grad, 1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    # torch's square root is five times slower at zero; 1e-36 is lost beside eps
    denominator = grad.copy_(v).add_(1e-36).sqrt_().mul_((1 - beta2**step) ** -0.5).add_(eps)
    z.addcdiv_(m, denominator, value=lr / (1 - beta1**step))


def metrics(p, p_0) -> dict:
    """Q_pos, M_ret and entropy (nats) of one policy, all in float64; p (A,), p_0 (correct,).

    Q_pos = sum_{a correct} p(a) (Eq. 6);
    M_ret = 1 - sum_{a correct} max(0, p_0(a) - p(a)) / sum_{a correct} p_0(a) (Eq. 26).
    """
    kept = p[: len(p_0)]
    return {
        "Q_pos": kept.sum().item(),
        "M_ret": 1 - ((p_0 - kept).clamp(min=0).sum() / p_0.sum()).item(),
        "entropy": -(p @ p.clamp(min=1e-300).log()).item(),
    }


def simulate(config: Simulation, *, N: int, gamma: float, seeds: list[int]):
    """The recorded rows of one (reading, gamma, N): reading,gamma,N,seed,step,Q_pos,M_ret,entropy.

    A seed's rows depend on nothing but the seed, N and the configuration, whichever seeds run with
    it; every gamma sees the same uniform numbers. State is float32, sampling and metrics float64.
    """
    import pandas as pd
    import torch

    torch.set_flush_denormal(True)  # moments of actions not sampled again decay into slow denormals
    z = torch.full((len(seeds), config.actions), config.incorrect_logit, device=config.device)
    z[:, : config.correct] = config.correct_logit
    z[:, 0] = config.anchor_logit
    m, v, weights, counts = (torch.zeros_like(z) for _ in range(4))
    cdf, ones = torch.zeros_like(z, dtype=torch.float64), torch.ones(len(seeds), N, device=z.device)
    streams = [int(config_hash({"N": N, "seed": seed}), 16) for seed in seeds]
    generators = [torch.Generator(z.device).manual_seed(stream) for stream in streams]
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
        options = {"device": z.device, "dtype": torch.float64}
        uniforms = torch.stack([torch.rand(N, generator=g, **options) for g in generators])
        counts.zero_().scatter_add_(1, draw(cdf, uniforms), ones)
        p = weights.div_(cdf[:, -1:].float())
        ascend(z, gradient(counts, p, gamma=gamma, **objective), m, v, step + 1, **optimizer)
    return pd.DataFrame(rows, columns=COLUMNS)


def run(config: Simulation) -> Path:
    """Run what is not stored yet; returns the folder of final.csv and trajectory.csv.

    All sweeps that share every setting but reading, gamma, N and seeds share one run folder,
    `simulation-<hash>`, with one file a (reading, gamma, N, seed); final.csv and trajectory.csv
    hold all of its files, in order. A killed sweep goes on where it was. Raises UserError if the
    device is not there.
    """
    import pandas as pd

    config = _with_device(config)
    own = ("objective", "optimizer", "N", "gamma", "seeds", "workers", "results_dir")
    shared = {key: value for key, value in asdict(config).items() if key not in own}
    shared["betas"] = list(config.betas)
    root = Path(config.results_dir)
    store = Run(root, "f_grpo", f"simulation-{config_hash(shared)}", shared)
    try:
        units = store.path / "units"
        missing = []
        for N in sorted(config.N, reverse=True):  # the longest first, so that no worker ends alone
            for gamma in config.gamma:
                todo = [
                    s for s in range(config.seeds) if not _file(units, config, N, gamma, s).exists()
                ]
                # a GPU takes all seeds of a unit in one batch, a CPU one by one
                groups = [todo] if config.device == "cuda" else [[seed] for seed in todo]
                missing += [(N, gamma, group) for group in groups if group]
        if missing:
            (store.path / "DONE").unlink(missing_ok=True)
            for N, gamma, frame in _progress(
                _computed(config, missing), len(missing), config.reading
            ):
                for seed, rows in frame.groupby("seed"):
                    write_csv(_file(units, config, N, gamma, seed), rows)
        trajectory = pd.concat([read_csv(file, COLUMNS) for file in units.glob("*.csv")])
        trajectory = trajectory.sort_values([*KEYS, "step"], ignore_index=True)
        folder = root / "f_grpo" / "simulation"
        write_csv(folder / "trajectory.csv", trajectory)
        last = trajectory[trajectory["step"] == config.steps]
        write_csv(folder / "final.csv", last[KEYS + METRICS])
        write_json(folder / "settings.json", {"run_id": store.run_id} | shared)
        if missing or not store.done:
            store.finish()
    finally:
        store.close()
    return folder


def _file(units: Path, config: Simulation, N: int, gamma: float, seed: int) -> Path:
    return units / f"{config.reading}-gamma{gamma:.12g}-N{N}-seed{seed}.csv"


def _computed(config: Simulation, missing: list):
    """(N, gamma, rows) of each missing unit, as it ends."""
    if config.device == "cuda" or config.workers == 1:
        for N, gamma, seeds in missing:
            yield N, gamma, _one_thread(config, N, gamma, seeds)
        return
    import multiprocessing

    from common.sweeps.schedule import end_with_parent

    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(config.workers, spawn, initializer=end_with_parent) as pool:
        futures = {pool.submit(_one_thread, config, *unit): unit for unit in missing}
        try:
            for future in as_completed(futures):
                yield *futures[future][:2], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_thread(config: Simulation, N: int, gamma: float, seeds: list[int]):
    import torch

    torch.set_num_threads(1)
    return simulate(config, N=N, gamma=gamma, seeds=seeds)


def _progress(items, total: int, title: str):
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task(title, total=total)
        for item in items:
            yield item
            bar.advance(task)


def _with_device(config: Simulation) -> Simulation:
    from dataclasses import replace

    import torch

    found = torch.cuda.is_available()
    if config.device == "cuda" and not found:
        raise UserError(
            "device=cuda: torch sees no GPU; use device=cpu, or device=auto to take what is there"
        )
    return replace(config, device="cuda" if found and config.device != "cpu" else "cpu")


if __name__ == "__main__":
    from common.cli import main

    main(run, Simulation, "f_grpo", "simulation")
