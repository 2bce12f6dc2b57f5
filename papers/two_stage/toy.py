"""The toy example of the two-stage paper (Algorithm 1, App. C.4): group policy gradient on a
softmax over three or four actions, all seeds and all settings of a figure at once.

Each step draws G actions from p = softmax(z / tau), takes A_i = r_i - mean r, moves the logits by

    g = sum_i w_i A_i (e_{a_i} - p),  z <- z + eta g / G  (sgd),  or Adam's step on g / G

w_i = 1 (full) or [A_i < 0] (negative, the paper's -N). The leader is the likeliest of the other
actions at the start, the best is the one with the highest reward.

    python -m papers.two_stage.toy [seeds=200] [steps=10000] [optimizers=[sgd,adam]]

Arrays are (V, C, S): actions, cells (settings of a figure), seeds.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from common.errors import require
from common.results.files import config_hash, write_csv, write_json
from common.results.run import Run
from papers.two_stage.stages import COLUMNS, Stages

KEYS = ["figure", "optimizer", "method", "cell"]
PATHS = [*KEYS, "step", "action", "mean", "low", "median", "high", "expected"]
ENDS = [*KEYS, "seed", *COLUMNS]
CHUNK = 500  # steps whose random numbers are drawn at once


@dataclass(frozen=True)
class Cell:
    """One setting: rewards and initial policy of V actions, group size, temperature."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (pydantic's own name)

    name: str
    rewards: list[float]
    policy: list[float]
    G: int
    temperature: float
    hold: Literal["policy", "logits"]

    def __post_init__(self):
        key = f"figures, cell {self.name}: "
        require(self.G >= 2, key + "G", self.G, "a group of one has no advantage; take at least 2")
        require(self.temperature > 0, key + "temperature", self.temperature, "must be above 0")
        require(
            len(self.rewards) == len(self.policy) > 1
            and min(self.policy) > 0
            and abs(sum(self.policy) - 1) < 1e-9,
            key + "policy",
            self.policy,
            f"needs {len(self.rewards)} probabilities above 0 that sum to 1, one a reward",
        )
        require(
            self.policy[self.leader] > self.policy[self.best],
            key + "policy",
            self.policy,
            "the action of the highest reward must start below another one (sec 3.2)",
        )

    @property
    def best(self) -> int:
        return max(range(len(self.rewards)), key=self.rewards.__getitem__)

    @property
    def leader(self) -> int:
        others = [v for v in range(len(self.policy)) if v != self.best]
        return max(others, key=self.policy.__getitem__)

    def expected(self, config: "Toy", negative_only: bool):
        """The policy under exact expected plain steps at the recorded steps, (steps, V)."""
        import numpy as np

        from papers.two_stage.theory import expected_path

        tau = self.temperature
        return expected_path(
            np.log(self.policy) * (tau if self.hold == "policy" else 1),
            np.array(self.rewards, float),
            config.recorded(),
            eta=config.eta / (tau if config.temperature_gradient else 1),
            G=self.G,
            negative_only=negative_only,
            temperature=tau,
        )


@dataclass(frozen=True)
class Toy:
    optimizers: list[Literal["sgd", "adam"]]
    methods: list[Literal["full", "negative"]]
    seeds: int  # how many: 0 .. seeds-1
    steps: int
    eta: float
    betas: tuple[float, float]
    eps: float
    temperature_gradient: bool
    rise: float
    band: tuple[float, float]
    per_decade: int
    figures: dict[str, list[Cell]]
    results_dir: str

    def __post_init__(self):
        for key in ("seeds", "steps", "per_decade"):
            require(getattr(self, key) >= 1, key, getattr(self, key), "must be at least 1")
        for key in ("eta", "eps"):
            require(getattr(self, key) > 0, key, getattr(self, key), "must be above 0")
        require(all(0 <= b < 1 for b in self.betas), "betas", self.betas, "must lie in [0, 1)")
        low, high = self.band
        require(0 <= low < high <= 1, "band", self.band, "two quantiles, the lower first")
        require(0 < self.rise < 1, "rise", self.rise, "must lie in (0, 1)")
        for name, cells in self.figures.items():
            names = [cell.name for cell in cells]
            require(len(set(names)) == len(names) > 0, f"figures.{name}", names, "distinct names")

    def recorded(self) -> list[int]:
        """0, the last step, and `per_decade` steps each time the step grows tenfold between."""
        found, exponent = {0, self.steps}, 0
        while (step := round(10 ** (exponent / self.per_decade))) <= self.steps:
            found.add(step)
            exponent += 1
        return sorted(found)


def gradient(p, below, rewards, *, G: int, negative_only: bool):
    """g / G of Algorithm 1, (V, C, S).

    p: (V, C, S); rewards: (V, C, 1); below: (V - 1, C, S), how many of the group's G actions come
    at or before each action but the last.
    """
    import numpy as np

    counts = np.diff(below, axis=0, prepend=0, append=G)
    weighted = counts * rewards
    advantage = rewards - weighted.sum(0) / G
    if negative_only:
        np.minimum(advantage, 0, out=advantage)
    pull = np.multiply(counts, advantage, out=weighted)
    pull -= p * pull.sum(0)
    return np.divide(pull, G, out=pull)


def draw_below(p, uniforms):
    """For every action but the last, how many of the G uniforms draw it or one before it by inverse
    CDF: p (V, C, S), uniforms (G, S) -> (V - 1, C, S)."""
    cdf = p[:-1].cumsum(0)
    below = (uniforms[0] < cdf).astype(float)
    for uniform in uniforms[1:]:
        below += uniform < cdf
    return below


def simulate(
    config: Toy, cells: list[Cell], *, optimizer: str, negative_only: bool, seeds: list[int]
):
    """(paths, ends) of cells that share G and the number of actions: PATHS and ENDS without the
    columns that name the reading, and without `expected`.

    A seed's path depends on the seed, G and the cell alone; all cells, optimisers and methods see
    the same uniform numbers.
    """
    import numpy as np
    import pandas as pd

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
    """Mean and quantiles over seeds of every cell and action at one step; actions from 1."""
    import numpy as np
    import pandas as pd

    V = len(p)
    low, median, high = np.quantile(p, [band[0], 0.5, band[1]], axis=2)
    numbers = {"mean": p.mean(2), "low": low, "median": median, "high": high}
    names = np.tile([cell.name for cell in cells], V)
    head = {"cell": names, "step": step, "action": np.repeat(np.arange(1, V + 1), len(cells))}
    return pd.DataFrame(head | {name: x.ravel() for name, x in numbers.items()})


def run(config: Toy) -> Path:
    """Run what is not stored yet; returns the folder of paths.csv and ends.csv.

    Parts are (figure, optimizer, method); those with the same settings share one run folder,
    `toy-<hash>`, and a stopped command goes on where it was. paths.csv and ends.csv hold the parts
    that `config` names.
    """
    import pandas as pd

    shared = asdict(config)
    for key in ("optimizers", "methods", "results_dir"):
        del shared[key]
    shared = {k: list(v) if isinstance(v, tuple) else v for k, v in shared.items()}
    root = Path(config.results_dir)
    store = Run(root, "two_stage", f"toy-{config_hash(shared)}", shared)
    try:
        tables: dict[str, list] = {"paths": [], "ends": []}
        new = False
        for figure, optimizer, method in _parts(config):
            files = {name: _file(store.path, name, figure, optimizer, method) for name in tables}
            if not all(file.exists() for file in files.values()):
                (store.path / "DONE").unlink(missing_ok=True)
                new = True
                print(f"toy: {figure} {optimizer} {method}", flush=True)
                for file, frame in zip(
                    files.values(), _part(config, figure, optimizer, method), strict=True
                ):
                    write_csv(file, frame)
            for name, file in files.items():
                tables[name].append(pd.read_csv(file))
        folder = root / "two_stage" / "toy"
        for name, frames in tables.items():
            write_csv(folder / f"{name}.csv", pd.concat(frames, ignore_index=True))
        write_json(folder / "settings.json", {"run_id": store.run_id} | shared)
        if new or not store.done:
            store.finish()
    finally:
        store.close()
    return folder


def _parts(config: Toy) -> list[tuple[str, str, str]]:
    return [(f, o, m) for f in config.figures for o in config.optimizers for m in config.methods]


def _file(folder: Path, name: str, figure: str, optimizer: str, method: str) -> Path:
    return folder / "parts" / f"{figure}-{optimizer}-{method}-{name}.csv"


def _part(config: Toy, figure: str, optimizer: str, method: str):
    """(paths, ends) of one figure: cells of one group size and number of actions go together.

    `expected` is the path of exact expected steps; empty for Adam, whose step is not linear in g.
    """
    import numpy as np
    import pandas as pd

    together: dict[tuple[int, int], list[Cell]] = {}
    for cell in config.figures[figure]:
        together.setdefault((cell.G, len(cell.policy)), []).append(cell)
    seeds = list(range(config.seeds))
    found = [
        simulate(
            config, cells, optimizer=optimizer, negative_only=method == "negative", seeds=seeds
        )
        for cells in together.values()
    ]
    key = {"figure": figure, "optimizer": optimizer, "method": method}
    paths, ends = (pd.concat(frames, ignore_index=True).assign(**key) for frames in zip(*found))  # noqa: B905
    paths["expected"] = np.nan
    if optimizer == "sgd":
        for cell in config.figures[figure]:
            own = paths["cell"] == cell.name
            line = cell.expected(config, method == "negative")
            row = np.searchsorted(config.recorded(), paths.loc[own, "step"])
            paths.loc[own, "expected"] = line[row, paths.loc[own, "action"] - 1]
    return paths[PATHS], ends[ENDS]


if __name__ == "__main__":
    from common.cli import main

    main(run, Toy, "two_stage", "toy")
