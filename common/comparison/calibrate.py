"""What would reruns of a paper say if the truth were known? Made-up reruns are judged as real ones.

    rlvr calibrate paper=NAME [draws=20] [results_dir=results]

Writes <results_dir>/NAME/power.csv: for each claim, world and number of seeds, the shares of reruns
in which it holds and fails, its verdict by the true numbers (`truth`), and `mdd`, the median of the
smallest effects found four times in five. The line CELLS has the shares of cells within noise and
not, GAINS of gains that agree and are opposite.

**Worlds.** A method's true number is b + x (printed - b), where b is the number of its first
baseline in `gains` of compare.yaml, or of that one's; without a baseline it is as printed.

**A benchmark** has the same problems for all runs. Their log odds start as normal quantiles and
move as little as they can until pass@k is true at every printed k.

**A run** draws n samples a problem, as its evaluation states. Its seed moves the smallest k, and
the largest above 8, by two normal numbers with the deviations of common/metrics/noise.py, the same
for all benchmarks, a share by at most half of its distance to 0 or 100 percent. A third normal
number moves all numbers that are not pass@k. An untrained model stays as it is.

Left out: claims about numbers that are not printed (logs, steps of a peak), the choice of a
checkpoint, and the noise of the printed numbers.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, log_expit
from scipy.stats import norm

from common.claims import judge
from common.claims.file import CLUSTER, load
from common.claims.select import OF_STEP, Counts, indexed
from common.comparison.cells import CELL, averages, compare_cells
from common.comparison.gains import gains
from common.comparison.published import ROW, naming_runs, published
from common.comparison.spec import spec_of
from common.config.files import REFERENCE, ROOT, known_paper
from common.config.words import options
from common.errors import require
from common.metrics.noise import sampling_sd, seed_sd
from common.metrics.passk import estimate, estimator
from common.results.files import write_csv
from common.results.provenance import COLUMNS as PROVENANCE
from common.sweeps.plan import evaluations_of, runs_of, scales_of

TRUE, NONE = "as printed", "no effect"
WORLDS = {TRUE: 1.0, "half": 0.5, NONE: 0.0, "opposite": -1.0}  # world -> x
SEEDS = (1, 3, 5)
CELLS, GAINS, AVERAGE = "(cells)", "(gains)", "holds on average"
KINDS = {"holds": "true", AVERAGE: "true on average"}
COLUMNS = ["claim", "world", "seeds", "draws", "holds", "fails", "truth", "mdd"]
SPREAD = 3.0  # of log odds where one k is printed; at pass@1 of 25 percent, pass@256 is 75
SPREADS = (0.5, 1, 2, 3, 4, 6, 10, 20, 60)
UNSTATED = 240  # problems of a set whose size is not stated


def main(words: list[str]) -> None:
    given = options(words, {"paper": "", "draws": "20", "results_dir": "results"})
    paper, draws = known_paper(given["paper"]), given["draws"]
    require(draws.isdigit() and int(draws) > 0, "draws", draws, "give 1 or more")
    table, path = calibrate(paper, int(draws)), Path(given["results_dir"]) / paper / "power.csv"
    write_csv(path, table)
    print(f"{recognised(table).to_string()}\nall of it: {path}")


def stored(paper: str, reference: Path = REFERENCE) -> pd.DataFrame:
    """Return the committed power.csv of a paper, or no rows."""
    path = reference / paper / "power.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=COLUMNS)


def recognised(table: pd.DataFrame) -> pd.DataFrame:
    """Return by world and number of seeds, in percent: how many of the claims that are true hold
    and fail, how many of the others, and the same of CELLS and GAINS."""
    of = table["claim"].where(table["truth"].isna(), table["truth"].map(KINDS).fillna("not true"))
    shares = (100 * table[["holds", "fails"]]).groupby([table["world"], table["seeds"], of]).mean()
    return shares.unstack().round(1)


def calibrate(paper: str, draws: int) -> pd.DataFrame:
    """Return COLUMNS for every claim that printed cells decide, in every world, for SEEDS."""
    plan, found = Plan(paper), []
    for number, (world, x) in enumerate(WORLDS.items()):
        true = plan.truth(x)
        truth = plan.judged(plan.rows(true, 1), spread=1e-3).set_index("id")["truth"]
        for seeds in SEEDS:
            # the first seeds of a draw are the same, however many there are
            rngs = [np.random.default_rng([number, draw]) for draw in range(draws)]
            drawn = pd.concat([plan.rerun(true, rng, seeds) for rng in rngs])
            by_claim = drawn.groupby("claim", sort=False, as_index=False)
            lines = by_claim.agg({"holds": "mean", "fails": "mean", "mdd": "median"})
            lines = lines.assign(world=world, seeds=seeds, draws=draws)
            found.append(lines.assign(truth=lines["claim"].map(truth)))
    return pd.concat(found, ignore_index=True)[COLUMNS].round(4)


class Plan:
    """The printed cells that rows rerun, and what their runs draw; a block is a run's benchmark."""

    def __init__(self, paper: str):
        home = ROOT / "papers" / paper
        self.spec, self.printed = spec_of(paper), published(home / "published")
        self.claims = [claim for claim in load(home / "claims.yaml") if claim.cluster]
        cells = self._of_benchmarks(naming_runs(paper).drop_duplicates(CELL))
        ours = {printed: metric for metric, printed in self.spec.metrics.items()}
        cells = cells.assign(measured=[ours.get(name, name) for name in cells["metric"]])
        cells["of"] = cells["measured"].map(estimator)
        runs = pd.MultiIndex.from_frame(cells[["of_table", "of_method", "model"]])
        cells["run"], self.runs = pd.factorize(runs)
        cells["base"] = self._base(cells)
        cells["block"] = cells.groupby(["run", "benchmark"], sort=False, dropna=False).ngroup()
        known, places = asked(paper), zip(runs, cells["benchmark"], strict=True)
        told = [known.get((*run, name)) or known.get(run, (1, True)) for run, name in places]
        cells["n_samples"] = [n for n, _ in told]
        cells["step"] = [int(trained) for _, trained in told]
        names = cells["benchmark"].str.replace(OF_STEP, "", regex=True)
        sizes = names.map(self.spec.problems).fillna(UNSTATED)
        self.cells = cells.assign(n_problems=sizes.astype(int))

    def _of_benchmarks(self, cells: pd.DataFrame) -> pd.DataFrame:
        """Return the cells without printed averages; unprinted benchmarks of one get its value."""
        there = set(cells[[*ROW, "benchmark"]].itertuples(index=False, name=None))
        parts = [cells[~cells["benchmark"].isin(self.spec.averages)]]
        for mean, names in self.spec.averages.items():
            own = cells[cells["benchmark"] == mean]
            rows = own[ROW].itertuples(index=False, name=None)
            own = own[[not any((*row, name) in there for name in names) for row in rows]]
            parts += [own.assign(benchmark=name) for name in names]
        return pd.concat(parts, ignore_index=True)

    def _base(self, cells: pd.DataFrame) -> list[float]:
        key = ["table", "model", "benchmark", "metric", "method"]
        places = list(cells[key].fillna("").itertuples(index=False, name=None))
        value, found = dict(zip(places, cells["value"], strict=True)), []
        for *place, method in places:
            seen, more = [], [method]
            while more := [b for b in more if b not in seen and (*place, b) in value]:
                seen.append(more[0])
                more = [baseline for one, baseline in self.spec.gains if one == seen[-1]]
            found.append(value[(*place, seen[-1])])
        return found

    def truth(self, x: float) -> pd.Series:
        true = self.cells["base"] + x * (self.cells["value"] - self.cells["base"])
        return true.where(self.cells["of"].isna(), true.clip(0, 100)).round(4)

    def rows(self, value: np.ndarray | pd.Series, seed: int, **more) -> pd.DataFrame:
        """Return the cells with these values as rows of one seed, and the averages over them."""
        run_id = [f"{run}-s{seed}" for run in self.cells["run"]]
        more = dict.fromkeys(("stderr", "sampling"), np.nan) | more
        rows = self.cells.assign(value=value, seed=seed, run_id=run_id, **more)
        return pd.concat([rows, *averages(self.spec, rows)], ignore_index=True)

    def judged(self, rows: pd.DataFrame, counts: Counts | None = None, spread: float = 1.0):
        """Return the claims that these rows decide, with `mdd` and, if the rows are true, `truth`:
        the verdict, or AVERAGE where only the mean of a sentence on all of several is as said."""
        read = {CLUSTER: rows}, {CLUSTER: counts}, self.spec.averages
        claims, gaps, _ = judge.judge(self.claims, *read, spread=spread)
        mean = gaps[gaps["of"].notna()].set_index("claim")["verdict"]
        claims = claims.assign(mdd=claims["id"].map(gaps.groupby("claim")["mdd"].median()))
        average = claims["id"].map(mean).eq("holds") & claims[CLUSTER].eq("fails")
        claims["truth"] = claims[CLUSTER].mask(average, AVERAGE)
        return claims[~claims[CLUSTER].isin(judge.WITHOUT)]

    def rerun(self, truth: pd.Series, rng: np.random.Generator, seeds: int) -> pd.DataFrame:
        """Return what one rerun says: claim, holds, fails, mdd."""
        drawn = [self._drawn(truth, rng, seed + 1) for seed in range(seeds)]
        rows = pd.concat([rows for rows, _ in drawn], ignore_index=True)
        right, places = np.concatenate([c for _, c in drawn]), self._places(seeds)
        claims = self.judged(rows, replace(places, c=right[places.c]))
        exact, runs = pd.DataFrame(), pd.DataFrame(columns=PROVENANCE)
        cells = compare_cells(self.spec, self.printed, rows, exact, runs)
        within = cells["verdict"][cells["rerun"].notna()] == "within noise"
        pairs = gains(self.spec, self.printed, rows, None)["verdict"]
        pairs = pairs[pairs != judge.NOT_RUN]
        said = claims["id"], claims[CLUSTER] == "holds", claims[CLUSTER] == "fails", claims["mdd"]
        lines = [*zip(*said, strict=True), (CELLS, within.mean(), (~within).mean(), np.nan)]
        lines.append((GAINS, (pairs == "agrees").mean(), (pairs == "opposite").mean(), np.nan))
        found = pd.DataFrame(lines, columns=["claim", "holds", "fails", "mdd"])
        return found.astype({"holds": float, "fails": float})

    def _drawn(self, truth: pd.Series, rng, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
        """Return the rows of one run of each row, and the right answers behind all blocks."""
        normal, cells = rng.standard_normal((len(self.runs), 3)), self.cells.assign(value=truth)
        of_other = cells[["measured", "value", "unit"]].itertuples(index=False, name=None)
        sd = np.array([seed_sd(*cell) for cell in of_other]) * cells["step"].to_numpy()
        value = truth.to_numpy() + sd * normal[cells["run"], 2]
        stderr, sampling = np.full((2, len(cells)), np.nan)
        right = []
        for _, block in cells[cells["of"].notna()].groupby("block"):
            one, n = block.iloc[0], block["n_samples"].iloc[0]
            # of two printed values the first; those of averages come last
            last = zip(block["of"][::-1], block["value"][::-1], strict=True)
            wanted = {k: v for (_, k), v in last}
            x, moves = solved(tuple(sorted(wanted.items())), one["n_problems"])
            c = rng.binomial(n, expit(x + one["step"] * moves @ normal[one["run"], :2]))
            right.append(c)
            for i, of in zip(block.index, block["of"], strict=True):
                shares = 100 * estimate(of, c, n)
                value[i], stderr[i] = shares.mean(), shares.std(ddof=1) / len(c) ** 0.5
                sampling[i] = sampling_sd(c, n, of)
        return self.rows(value, seed, stderr=stderr, sampling=sampling), np.concatenate(right)

    @cache  # noqa: B019 (a plan lives as long as the command)
    def _places(self, seeds: int) -> Counts:
        """Return Counts of `seeds` runs of each row, with places among all right answers as `c`."""
        cells = self.cells[self.cells["of"].notna()]
        size = cells.groupby("block")["n_problems"].first()
        of_row = cells.drop_duplicates(["table", "method", "block"])
        frame = of_row.loc[of_row.index.repeat(of_row["n_problems"])]
        frame = frame.assign(problem_id=frame.groupby(["table", "method", "block"]).cumcount())
        c = frame["block"].map(size.cumsum() - size) + frame["problem_id"]
        frame = frame.assign(n=frame["n_samples"], c=c)
        each = [frame.assign(seed=i + 1, c=c + i * size.sum()) for i in range(seeds)]
        return indexed(pd.concat(each, ignore_index=True))


def asked(paper: str) -> dict[tuple, tuple[int, bool]]:
    """Return (samples a problem, trained or not) by table, label, model and perhaps benchmark."""
    found: dict[tuple, tuple[int, bool]] = {}
    config = scales_of(paper, "scale=cluster")
    for name, scale in config.scales.items():
        for sweep in scale.sweeps if name.startswith(("cluster", "gpu")) else ():
            runs = runs_of(config, sweep)
            for x in runs:
                run = (x.table, x.label, x.model.name)
                found.setdefault(run, (x.eval.n, x.optim.steps > 0))
            for e in evaluations_of(runs, sweep):
                run = (e.row.table, e.row.method, e.label)
                found[run] = found[(*run, e.row.benchmark)] = (e.n, e.row.checkpoint != 0)
    return found


@cache
def solved(passk: tuple[tuple[int, float], ...], problems: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the log odds of the problems (P,), and what one standard deviation over seeds adds to
    them (P, 2): for the smallest k, and for the largest if it is above 8."""
    ks = np.array([k for k, _ in passk], float)
    wanted = np.clip([value / 100 for _, value in passk], 1e-4, 1 - 1e-4)
    places = norm.ppf((np.arange(problems) + 0.5) / problems)

    def missed(x: np.ndarray) -> np.ndarray:
        return wanted - (1 - np.exp(log_expit(-x)[:, None] * ks).mean(0))

    def spread(sd: float) -> np.ndarray:
        """Return normal log odds with this deviation that are right at the smallest k."""
        return sd * places + brentq(lambda mean: missed(sd * places + mean)[0], -200, 200)

    starts = map(spread, SPREADS if len(ks) > 1 else (SPREAD,))
    x = min(starts, key=lambda x: abs(missed(x)[-1]))
    for _ in range(100):
        x = np.clip(x + np.clip(least_moves(x, ks) @ missed(x), -1, 1), -25, 25)
    ends = [0, -1] if ks[-1] > 8 and len(ks) > 1 else [0]
    room = np.minimum(wanted, 1 - wanted)[ends] / 2
    sds = np.minimum([seed_sd(f"pass@{k:.0f}", 0) / 100 for k in ks[ends]], room)
    moves = np.clip(least_moves(x, ks[ends]) * sds, -3, 3)
    return x, np.pad(moves, ((0, 0), (0, 2 - len(ends))))


def least_moves(x: np.ndarray, ks: np.ndarray) -> np.ndarray:
    """Return the least change of log odds x (P,) that moves pass@k of one k by 1, (P, K)."""
    slopes = (ks * expit(x)[:, None] * np.exp(ks * log_expit(-x)[:, None])).T / len(x)
    return slopes.T @ np.linalg.inv(slopes @ slopes.T + 1e-9 * np.eye(len(ks)))
