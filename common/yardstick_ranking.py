"""Diversity at matched pass@1: the comparison behind `make yardstick`, from rows and counts alone.

Along training pass@1 rises and diversity falls, so a method that learns less looks as if it kept
more. Here each run is read where its pass@1 on natural prompts first reaches a level, the same for
all, linearly between its checkpoints; the base model is checkpoint 0 of every run. A method
that some seed does not take there is not ranked: to rank it by the seeds that did would choose them
by their result.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from common.errors import UserError
from common.metrics.bootstrap import holm
from common.metrics.paired import Interval, two_way_interval
from common.metrics.passk import pass_at_k

LEVELS = (30.0, 32.0)  # percent of natural pass@1; from runs of seed 0, which is in no comparison

KS = (1, 64, 256)
MIN_SEEDS = 3  # for an interval or a test, as claims
BASE, REFERENCE = "base", "grpo"
RATES = ("plain", "equalised")
ACCURACY = ("natural", "pass@1")
PRIMARY = ("rare", "pass@64")  # ranks; a seed's noise is larger on rare pass@256
SMALL_IS_GOOD = "steps"
MEASURES = [
    PRIMARY,
    ("rare", "pass@256"),
    ("natural", "pass@64"),
    ("natural", "pass@256"),
    ("natural", "distinct_correct"),
    ("natural", "token_entropy"),
    ("training", SMALL_IS_GOOD),  # rollout steps to the level
]
HEADERS = [
    "rare pass@64",
    "rare pass@256",
    "natural pass@64",
    "natural pass@256",
    "distinct right answers",
    "token entropy (nats)",
    "steps",
]
TITLES = {
    "plain": "At the same learning rate",
    "equalised": "At equalised effective learning rate",
}
HEAD = """# The yardstick: every method under one protocol

**What this is:** one model of 0.4 M parameters, one task (Subset-Countdown), one short training
recipe (configs/yardstick.yaml), {seeds} seeds. It shows how the methods compare there, and says
nothing about 7 B models.

Every run is read where its pass@1 on natural prompts first reaches **{level} %**, linearly between
checkpoints: a method that merely learns less would otherwise look as if it kept more diversity.
Values are means with 95 % intervals over seeds and problems. **Bold with an arrow:** above or below
GRPO on the same seeds after Holm's correction over all methods of the column (p < 0.05). "steps":
rollout steps to that pass@1. "2 of 3" seeds: only two reached it, so the method is not ranked.
Ranks follow the mean of rare pass@64; the intervals say how little a few places mean.
Methods run with the values of their files in configs/method/ (gamma, k, alpha, ...), not tuned.
The equalised rate is the plain one times GRPO's largest weight over the method's; where that is 1,
both tables show the same runs. AdamW divides by the size of the gradient, so at the same rate a
method of small weights does not simply learn less.
"""
COLUMNS = [
    "rate",
    "level",
    "benchmark",
    "metric",
    "rank",
    "method",
    "value",
    "low",
    "high",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "p_holm",
    "n_seeds",
    "n_reached",
]


@dataclass(frozen=True)
class Curve:
    """One run's checkpoints, the base model first."""

    rate: str
    method: str
    seed: int
    steps: np.ndarray  # (T,)
    values: dict[tuple[str, str], np.ndarray]  # (benchmark, metric) -> (T, problems), or (T, 1)

    def mean(self, measure: tuple[str, str]) -> np.ndarray:
        return self.values[measure].mean(axis=1)

    def at(self, level: float) -> dict[tuple[str, str], np.ndarray] | None:
        """All values where pass@1 first reaches `level`, (problems,) each; None if it does not."""
        place = first_reach(self.mean(ACCURACY), level)
        if place is None:
            return None
        return {name: between(value, place) for name, value in self.values.items()}


def first_reach(accuracy: np.ndarray, level: float) -> tuple[int, float] | None:
    """(i, share): `accuracy` (T,) first reaches `level` that share of the way from i - 1 to i."""
    reached = np.flatnonzero(accuracy >= level - 1e-9)
    if not len(reached):
        return None
    i = int(reached[0])
    if i == 0:
        return 0, 0.0
    return i, (level - accuracy[i - 1]) / (accuracy[i] - accuracy[i - 1])


def between(values: np.ndarray, place: tuple[int, float]) -> np.ndarray:
    """What (T, ...) values are at a `first_reach`."""
    i, share = place
    return values[0] if i == 0 else values[i - 1] + share * (values[i] - values[i - 1])


def curves(rows: pd.DataFrame, counts: pd.DataFrame) -> list[Curve]:
    """Every run as a curve, once a learning rate that it stands for.

    rows: common.results.COLUMNS, `table` is plain, equalised or both; counts: run_id, step,
    benchmark, problem_id, n, c, distinct. Raises UserError without the base model, or where runs
    were evaluated on other problems than it.
    """
    runs = rows.groupby("run_id", sort=False)[["table", "method", "seed"]].first()
    entropy = rows[rows["metric"] == "token_entropy"].set_index(["run_id", "step", "benchmark"])
    by_run = dict(list(counts.groupby("run_id")))
    points = {
        run_id: {
            int(step): _point(own, entropy["value"].loc[run_id, step])
            for step, own in by_run[run_id].groupby("step")
        }
        for run_id in runs.index
    }
    bases = [points[run_id][0] for run_id in runs.index[runs["method"] == BASE]]
    if not bases:
        raise UserError("no finished run of the base model, where every curve starts; run it first")
    # one model: its seeds differ in the samples only
    start = {name: np.mean([base[name] for base in bases], axis=0) for name in bases[0]}
    found = []
    for run_id, (table, method, seed) in runs[runs["method"] != BASE].iterrows():
        own = {0: start} | points[run_id]
        steps = np.array(sorted(own))
        for name in start:
            if any(own[step][name].shape != start[name].shape for step in steps):
                raise UserError(f"run {run_id}: {name} has other problems than the base model")
        values = {name: np.stack([own[step][name] for step in steps]) for name in start}
        values["training", SMALL_IS_GOOD] = steps[:, None].astype(float)
        rates = RATES if table == "both" else (table,)
        found += [Curve(rate, method, int(seed), steps, values) for rate in rates]
    return found


def _point(counts: pd.DataFrame, entropy: pd.Series) -> dict[tuple[str, str], np.ndarray]:
    """The measures of one checkpoint, a problem, in percent where they are shares."""
    found = {}
    for benchmark, own in counts.groupby("benchmark"):
        own = own.sort_values("problem_id")
        shares = 100 * pass_at_k(own["c"].to_numpy(), own["n"].to_numpy(), KS)
        found |= {(benchmark, f"pass@{k}"): shares[:, i] for i, k in enumerate(KS)}
        found[benchmark, "distinct_correct"] = own["distinct"].to_numpy(float)
        found[benchmark, "token_entropy"] = np.array([entropy[benchmark]])
    return found


def rank(found: list[Curve], levels: tuple[float, ...] = LEVELS) -> pd.DataFrame:
    """Every method at every rate, level and measure: COLUMNS, in the order of rank.

    Differences are from GRPO on the seeds of both, with intervals over seeds and problems
    (`two_way_interval`; over seeds alone for entropy and steps); p_holm is corrected for all
    methods of one rate, level and measure. Values are missing where some seed did not reach the
    level, intervals and p also where fewer than 3 seeds did.
    """
    frames = []
    for rate, level in product(RATES, levels):
        runs = {}
        for curve in found:
            if curve.rate == rate:
                runs.setdefault(curve.method, {})[curve.seed] = curve.at(level)
        for benchmark, metric in MEASURES:
            rows = [
                _row(method, by_seed, runs.get(REFERENCE, {}), (benchmark, metric))
                for method, by_seed in sorted(runs.items())
            ]
            frame = pd.DataFrame(rows, columns=[c for c in COLUMNS if c not in COLUMNS[:5]])
            frame["p_holm"] = holm(frame["p"].to_numpy(float))
            ascending = metric == SMALL_IS_GOOD
            frame["rank"] = frame["value"].astype(float).rank(ascending=ascending, method="min")
            frame = frame.sort_values(["rank", "method"], na_position="last")
            about = {"rate": rate, "level": level, "benchmark": benchmark, "metric": metric}
            frames.append(frame.assign(**about))
    return pd.concat(frames, ignore_index=True)[COLUMNS].astype({"rank": "Int64"})


def _row(method: str, by_seed: dict, reference: dict, measure: tuple[str, str]) -> dict:
    reached = {seed: at[measure] for seed, at in by_seed.items() if at is not None}
    row = {"method": method, "n_seeds": len(by_seed), "n_reached": len(reached)}
    if len(reached) < len(by_seed):
        return row
    own = np.stack([reached[seed] for seed in sorted(reached)])
    row["value"] = own.mean()
    row["low"], row["high"] = _interval(own).bounds()
    theirs = {seed: at[measure] for seed, at in reference.items() if at is not None}
    shared = sorted(set(reached) & set(theirs))
    if method == REFERENCE or not shared:
        return row
    gap = _interval(np.stack([reached[seed] - theirs[seed] for seed in shared]))
    low, high = gap.bounds()
    p = np.nan if np.isnan(gap.stderr) else gap.p()
    return row | {"difference": gap.value, "difference_low": low, "difference_high": high, "p": p}


def _interval(values: np.ndarray) -> Interval:
    """Of the mean of (seeds, problems); no spread is known from fewer than 3 seeds."""
    if len(values) < MIN_SEEDS:
        return Interval(float(values.mean()), np.nan, np.nan)
    return two_way_interval(values)


def means(found: list[Curve]) -> pd.DataFrame:
    """rate, method, step, benchmark, metric, mean, sem, n_seeds: what the figure draws from."""
    rows = [
        (c.rate, c.method, int(step), *name, value)
        for c in found
        for name in c.values
        for step, value in zip(c.steps, c.mean(name), strict=True)
    ]
    key = ["rate", "method", "step", "benchmark", "metric"]
    frame = pd.DataFrame(rows, columns=[*key, "value"])
    grouped = frame.groupby(key, sort=False)["value"].agg(mean="mean", sem="sem", n_seeds="size")
    return grouped.reset_index()


def markdown(ranking: pd.DataFrame, absent: dict[str, str]) -> str:
    """One table a learning rate, in the order of rank; `absent`: what is not in them, and why."""
    first, *others = ranking["level"].drop_duplicates()
    seeds = ranking["n_seeds"]
    many = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    measures = [(first, measure) for measure in MEASURES]
    measures += [(level, PRIMARY) for level in others]
    titles = [*HEADERS, *(f"rare pass@64 at {level:g} %" for level in others)]
    parts = [HEAD.format(level=f"{first:g}", seeds=many)]
    for rate, title in TITLES.items():
        own = ranking[ranking["rate"] == rate]
        if own.empty:
            continue
        cells = own.set_index(["level", "benchmark", "metric", "method"]).sort_index()
        lines = [["", "method", *titles, "seeds"]]
        lines.append(["---:", "---", *["---:"] * len(titles), "---:"])
        order = own[(own["level"] == first) & (own["benchmark"] == PRIMARY[0])]
        for row in order[order["metric"] == PRIMARY[1]].to_dict("records"):
            name, number, size = row["method"], row["rank"], row["n_seeds"]
            line = ["" if pd.isna(number) else str(number), f"`{name}`"]
            line += [_cell(cells.loc[(at, *m, name)], m[1]) for at, m in measures]
            reached = row["n_reached"]
            lines.append([*line, str(size) if reached == size else f"{reached} of {size}"])
        parts.append(f"\n## {title}\n\n")
        parts += [f"| {' | '.join(line)} |\n" for line in lines]
    if absent:
        parts.append("\nNot in the tables:\n\n")
        parts += [f"- `{name}`: {reason}\n" for name, reason in absent.items()]
    return "".join(parts)


def _cell(row: pd.Series, metric: str) -> str:
    """Value and interval; bold with an arrow where it differs from GRPO after Holm's correction."""
    if pd.isna(row["value"]):
        return "–"
    digits = {"token_entropy": 3, "distinct_correct": 2}.get(metric, 1)
    text = f"{row['value']:.{digits}f}"
    if pd.notna(row["low"]):
        text += f" [{row['low']:.{digits}f}, {row['high']:.{digits}f}]"
    if pd.isna(row["p_holm"]) or row["p_holm"] >= 0.05:
        return text
    return f"**{text}** {'↑' if row['difference'] > 0 else '↓'}"
