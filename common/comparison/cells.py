"""Each published cell with the result of its rerun: a cluster row with the same table, model,
method, benchmark and metric, or a closed form; never a laptop run."""

import re

import numpy as np
import pandas as pd

from common.claims.select import Counts
from common.claims.single import seed_of
from common.comparison.published import ROW, other_names
from common.comparison.spec import Spec, matches
from common.datasets.commits import listed, several
from common.metrics.noise import problem_variance, sampling_sd, shrunk
from common.metrics.paired import Interval
from common.metrics.passk import estimate, estimator, mean_and_stderr
from common.results.columns import CELL, EVALUATION
from common.results.provenance import of_runs, sets_of, states_of

COLUMNS = [
    *[*CELL, "k", "value", "unit", "rerun", "low", "high", "n_seeds", "n_problems", "difference"],
    *["verdict", "reason", "notes", "run_ids", "state"],
]


# ---- the noise of a single run: by how much a further one, on the same problems, would differ


def with_sampling(rows: pd.DataFrame, behind: Counts) -> pd.DataFrame:
    """Return the rows with `sampling`, the standard deviation over further draws of the samples
    from the counts, else the larger `stderr`."""
    found = rows["stderr"].to_numpy(float).copy() if len(rows) else np.empty(0)
    keys = rows[EVALUATION].itertuples(index=False, name=None)
    for i, (key, metric) in enumerate(zip(keys, rows["metric"], strict=True)):
        at, of = behind.rows.get(key), estimator(str(metric))
        if at is not None and of is not None:
            n = int(behind.n[at].max())
            if of[1] <= n == behind.n[at].min():
                found[i] = sampling_sd(behind.c[at], n, of)
    return rows.assign(sampling=found)


def with_best(spec: Spec, rows: pd.DataFrame, behind: Counts) -> pd.DataFrame:
    """Return the rows, with a row of each printed best@k for each of pass@k, by their counts."""
    parts = [rows]
    for metric in spec.metrics if len(rows) else ():
        name, k = of = estimator(metric) or ("", 0)
        if name == "best":
            plain = rows[rows["metric"] == f"pass@{k}"]
            plain = plain[[key in behind.rows for key in plain[EVALUATION].itertuples(False, None)]]
            found = [behind.rows[key] for key in plain[EVALUATION].itertuples(False, None)]
            values = [100 * estimate(of, behind.c[at], behind.n[at]) for at in found]
            value, stderr = np.reshape([mean_and_stderr(x) for x in values], (-1, 2)).T
            parts.append(plain.assign(metric=metric, value=value, stderr=stderr))
    return pd.concat(parts, ignore_index=True)


def run_variance(row: dict) -> float:
    """Return the variance of one run's number from its seed (if it was trained) and its samples."""
    sampling = row.get("sampling", row["stderr"])
    return seed_of(row) ** 2 + (0.0 if np.isnan(sampling) else sampling**2)


def other_problems(row: dict, printed: int | None) -> float:
    """Return the variance of the difference between `row` and the printed number that comes from
    the paper's own `printed` problems; 0 for shared problems (None)."""
    if printed is None or pd.isna(row["stderr"]):
        return 0.0
    ours = problem_variance(row["stderr"], row.get("sampling", 0.0))
    return ours * (1 + row["n_problems"] / printed)


# ---- rows under the names of printed cells


def as_printed(spec: Spec, rows: pd.DataFrame, named: pd.DataFrame) -> pd.DataFrame:
    """Return the cluster rows at their table's step, under all printed names, with averages and
    cells of several runs; `measured` is our name of a metric. named: naming_runs."""
    if rows.empty:
        return rows
    rows = rows.assign(measured=rows["metric"])
    renamed = rows[rows["metric"].isin(spec.metrics)]
    rows = pd.concat([rows, renamed.assign(metric=renamed["metric"].map(spec.metrics))])
    rows = at_step(spec, under_printed_names(rows, other_names(named)))
    parts = [rows, *averages(spec, rows), *of_several_runs(spec, rows, named)]
    return pd.concat(parts, ignore_index=True)


def under_printed_names(frame: pd.DataFrame, names: pd.DataFrame) -> pd.DataFrame:
    """Return rows or counts with a copy under each of the `names` (published.other_names)."""
    own = frame.rename(columns={"table": "of_table", "method": "of_method"})
    same = names.merge(own, on=["of_table", "of_method", "model"], suffixes=("_printed", ""))
    at_step = same["step_printed"].isna() | (same["step"] == same["step_printed"])
    same = same[at_step & (same["as_benchmark"].isna() | (same["benchmark"] != "training"))]
    name = same["as_benchmark"].fillna(same["benchmark"].astype(str) + same["suffix"])
    return pd.concat([frame, same.assign(benchmark=name)[frame.columns]], ignore_index=True)


def at_step(spec: Spec, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each cell and seed at its table's step; the earliest of equal peaks."""
    parts = []
    for table, part in rows.groupby("table", sort=False, dropna=False):
        chosen = spec.steps.get(str(table))
        if isinstance(chosen, int):
            part = part[part["step"].isin([0, chosen])]  # 0: a model that was not trained
        cell = [part[name] for name in (*CELL, "seed")]
        steps = part["step"].fillna(-1)
        score = _means(spec, part) if chosen == "peak of average" else steps
        part = part[score == score.groupby(cell, dropna=False).transform("max")]
        steps = steps[part.index]
        first = steps.groupby([part[name] for name in (*CELL, "seed")], dropna=False)
        parts.append(part[steps == first.transform("min")])
    return pd.concat(parts) if parts else rows


def _means(spec: Spec, part: pd.DataFrame) -> pd.Series:
    """Return each row's mean over the benchmarks of `Spec.averages`; NaN where one is missing."""
    members = {name for names in spec.averages.values() for name in names}
    key = ["model", "method", "metric", "seed", "step"]
    value = part["value"].where(part["benchmark"].isin(members))
    groups = value.groupby([part[name] for name in key], dropna=False)
    return groups.transform("mean").where(groups.transform("count") == len(members))


def one_run_each(
    spec: Spec, rows: pd.DataFrame, names: pd.DataFrame
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows without those that two runs share, and a message for each such case."""
    if rows.empty:
        return rows, []
    several = set(names.loc[names["step"].notna(), "of_table"])
    several |= {name for name, step in spec.steps.items() if isinstance(step, int)}
    apart = rows["table"].isin(several) | rows["benchmark"].isin(spec.unprinted)
    step = rows["step"].where(apart, -1)  # -1: elsewhere two runs clash at any steps
    key = [rows[name] for name in (*CELL, "seed")]
    twice = rows["run_id"].groupby([*key, step], dropna=False).transform("nunique") > 1
    messages = []
    named = rows[twice].groupby(["table", "model", "method", "benchmark", "seed"], dropna=False)
    for (table, model, method, benchmark, seed), part in named:
        runs = " and ".join(sorted(part["run_id"].unique()))
        messages.append(
            f"{table}, {model}, {method}, {benchmark}, seed {seed:g}: {runs} both have it, so "
            "both are ignored. Remove the folder of one"
        )
    return rows[~twice], messages


def one_source_each(rows: pd.DataFrame, runs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows without those whose runs read a data set from two sources, and messages."""
    sets, dropped, messages = sets_of(runs), [], []
    for (table, model, benchmark), part in rows.groupby(["table", "model", "benchmark"]):
        read = {run: sets.get(run, {}) for run in part["run_id"].unique()}
        for name, of in several(read).items():
            dropped.append(part.index)
            messages.append(
                f"{table}, {model}, {benchmark}: the runs read set {name} from {len(of)} sources, "
                "so their prompts differ and all of them are ignored. Pin its revision and run "
                f"those of one source again: {listed(of)}"
            )
    return rows.drop(index=rows.index[:0].append(dropped).unique()), messages


def averages(spec: Spec, rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the printed averages over benchmarks, for each seed that has all of them."""
    parts = []
    for name, benchmarks in spec.averages.items():
        members = rows[rows["benchmark"].isin(benchmarks)]
        key = ["table", "model", "method", "metric", "measured", "k", "unit", "seed"]
        squares = {name: members[name] ** 2 for name in ("stderr", "sampling") if name in members}
        groups = members.assign(**squares).groupby(key, dropna=False)
        means = groups.agg(
            value=("value", "mean"),
            benchmarks=("benchmark", "nunique"),
            step=("step", "max"),
            **{name: (name, lambda x: x.sum(skipna=False) ** 0.5) for name in squares},
            n_problems=("n_problems", "sum"),
            run_id=("run_id", lambda x: ";".join(dict.fromkeys(x.astype(str)))),
        ).reset_index()
        means = means[means["benchmarks"] == len(benchmarks)]
        means = means.assign(**{of: means[of] / len(benchmarks) for of in squares})
        parts.append(means.assign(benchmark=name).drop(columns="benchmarks"))
    return parts


def of_several_runs(spec: Spec, rows: pd.DataFrame, named: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the printed cells that several runs make together, for each seed that has all."""
    how = {(table, metric): (by, of) for table, metric, by, of in spec.joined}
    own, parts = pd.MultiIndex.from_frame(rows[ROW]), []
    for (*row, metric), cell in named[named["several"]].groupby([*ROW, "metric"], sort=False):
        by, of_metric = how[row[0], metric]
        runs = pd.MultiIndex.from_frame(cell[["of_table", "model", "of_method"]])
        members = rows[own.isin(runs) & (rows["metric"] == of_metric)]
        for _, group in members.groupby("seed", dropna=False):
            if len(group) == len(cell):
                value = getattr(group["value"], by)()
                run_id = ";".join(dict.fromkeys(group["run_id"].astype(str)))
                one = group.iloc[:1].assign(value=value, run_id=run_id, step=group["step"].max())
                parts.append(one.assign(**dict(zip(ROW, row, strict=True)), metric=metric))
    return parts


def compare_cells(
    spec: Spec, printed: pd.DataFrame, rerun: pd.DataFrame, exact: pd.DataFrame, runs: pd.DataFrame
) -> pd.DataFrame:
    """Return COLUMNS for every printed cell.

    printed: rows of published/table*.csv; rerun: `as_printed` cluster rows; exact: rows of closed
    forms, one number each; runs: provenance of the rerun's runs.

    The interval is where one further run on the same problems, such as the printed one, would lie
    with 95 %: mean ± t_(S-1) s sqrt(1 + 1/S) over S seeds. With one seed, or seeds that are alike,
    it is ± 1.96 sqrt(2 v), where v is a run's variance over samples plus its known variance over
    seeds (common/metrics/noise.py). Where the paper drew its own problems (`Spec.own_problems`),
    the variance of both runs over problems is added under the root. The interval is widened by half
    a unit of the printed last digit; a closed form has none. A printed number inside it is "within
    noise"; a rerun on fewer problems than the benchmark has is "partial".
    """
    table = []
    measured, closed = by_cell(rerun), by_cell(exact)
    noted, refused = footnotes(spec, printed), not_reproducible(spec, printed)
    states = states_of(runs)
    for cell, note, refusal in zip(printed.to_dict("records"), noted, refused, strict=True):
        row = {name: cell[name] for name in (*CELL, "k", "value", "unit")} | {"notes": note}
        key = tuple("" if pd.isna(cell[name]) else cell[name] for name in CELL)
        if key in closed:
            row |= _beside(cell, closed[key][0]["value"], rounding(cell))
            row |= {"run_ids": "", "state": "computed"}
            row["reason"] = "computed, not sampled: equal to the printed digits or not"
        elif key in measured:
            row |= _rerun(spec, cell, measured[key], states)
            ours = str(measured[key][0].get("measured"))
            plain = measured.get((*key[:-1], ours.replace("best@", "pass@")), [])
            if ours.startswith("best@") and plain:  # the other reading, at its own step
                value = np.mean([one["value"] for one in plain])
                row["reason"] += f"; {ours}, where {plain[0]['metric']} is {value:.2f}"
        else:
            row |= {"verdict": "not reproducible" if refusal else "not run", "run_ids": ""}
            row |= {"reason": refusal or "the results have no run of it", "state": ""}
        table.append(row)
    return pd.DataFrame(table, columns=COLUMNS)


def by_cell(rows: pd.DataFrame) -> dict[tuple, list[dict]]:
    found: dict[tuple, list[dict]] = {}
    if rows.empty:
        return found
    keys = zip(*(rows[name].astype(object).fillna("") for name in CELL), strict=True)
    for key, row in zip(keys, rows.to_dict("records"), strict=True):
        found.setdefault(key, []).append(row)
    return found


def _rerun(spec: Spec, cell: dict, measured: list[dict], states: dict[str, str]) -> dict:
    values = np.array([row["value"] for row in measured])
    seeds, value, first = len(measured), float(values.mean()), measured[0]
    apart = other_problems(first, spec.own_problems.get(cell["benchmark"]))
    if seeds > 1:
        variance, df = shrunk(values.var(ddof=1), seeds - 1, run_variance(first))
        spread = np.sqrt(variance * (1 + 1 / seeds) + apart)
        half, reason = Interval(value, spread, df).half(), f"{seeds} seeds"
    else:
        half = 1.96 * np.sqrt(2 * run_variance(first) + apart)
        reason = "one seed: what is known of the spread over seeds, and that over samples"
    if apart:
        reason += "; the paper's problems are others"
    if (
        cell["metric"] == "delta_NLL_rare"
    ):  # of the rarest 1 %; the benchmark's name has the paper's
        n = first["n_samples"]
        reason += f"; of {n:.0f} answers here, the rarest of about {100 * n:.0f} right ones"
    half += rounding(cell)
    low, high = value - half, value + half
    if cell["unit"] == "percent" and re.match("(pass|avg)@", str(cell["metric"]), re.IGNORECASE):
        low, high = max(low, 0.0), min(high, 100.0)  # a share cannot lie outside
    found = _beside(cell, value, half) | {"low": low, "high": high, "n_seeds": seeds}
    held, whole = min(row["n_problems"] for row in measured), problems_of(spec, cell["benchmark"])
    if whole is not None and held < whole:
        found["verdict"], reason = "partial", f"{held:.0f} of the {whole} problems; {reason}"
    run_ids = ";".join(dict.fromkeys(str(row["run_id"]) for row in measured))
    found |= {"n_problems": first["n_problems"], "reason": reason, "run_ids": run_ids}
    return found | {"state": of_runs(run_ids, states)}


def _beside(cell: dict, value: float, half: float) -> dict:
    apart = value - cell["value"]
    verdict = "within noise" if abs(apart) <= half + 1e-9 else "differs"
    return {"rerun": value, "difference": apart, "verdict": verdict}


def problems_of(spec: Spec, benchmark: str) -> int | None:
    """Return the number of problems of a printed benchmark or average, or None."""
    sizes = [spec.problems.get(name) for name in spec.averages.get(benchmark, [benchmark])]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def not_reproducible(spec: Spec, printed: pd.DataFrame) -> list[str | None]:
    """Return for each printed cell why it cannot be rerun; None where it can."""
    reasons = np.full(len(printed), None, dtype=object)
    for one in reversed(spec.not_reproducible):
        reasons[matches(printed, one.where).to_numpy()] = one.why
    return list(reasons)


def rounding(cell: dict) -> float:
    """Return half a unit of the last decimal as printed; 0 for whole numbers, which are exact."""
    digits = str(cell["printed"]).partition(".")[2] if "printed" in cell else ""
    return 0.5 * 10 ** -len(digits) if digits else 0.0


# ---- the paper's inconsistencies as footnotes


def footnotes(spec: Spec, printed: pd.DataFrame) -> list[str]:
    """Return for each printed cell the inconsistencies that affect it, joined by ";"."""
    touched = {
        name: np.logical_or.reduce([matches(printed, where) for where in wheres])
        for name, wheres in spec.footnotes.items()
    }
    return [
        ";".join(name for name, cells in touched.items() if cells[i]) for i in range(len(printed))
    ]
