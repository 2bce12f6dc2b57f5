"""Checks that a finished run is what it claims to be: its files, its configuration, its counts and
metrics against its samples, and a part of its verdicts against our verifiers.

No check can tell who drew the samples. A made-up run would have to be made up down to the
responses, which our verifier must judge as the run records them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pandas as pd

from common.claims.select import PER_PROBLEM
from common.comparison.gather import counts_of
from common.config.strict import strict
from common.errors import UserError, require
from common.evaluation.config import SHOWN_IN
from common.evaluation.samples import Sampled, concatenate, metric_rows
from common.evaluation.store import stored
from common.experiment import Experiment
from common.metrics.passk import report
from common.results.checks import check_rows, require_none
from common.results.collect import config_of, verify
from common.results.columns import COLUMNS
from common.results.files import config_hash, read_csv, read_jsonl, require_steps, whole_rows
from common.sweeps.planned import planned
from common.types import Prompt
from common.verifiers.pool import Pool

RESCORED = 256  # verdicts per benchmark that are made again
CLOSE = 1e-8  # relative: tables keep ten digits
VERDICT = ["problem_id", "sample", "outcome", "response"]


@dataclass(frozen=True)
class Checked:
    """A run that passed every check. Its rows and counts have the table and the method that its row
    (named experiment configuration) has in the paper's sweeps."""

    run: Path
    x: Experiment  # as the paper's sweeps plan it
    rows: pd.DataFrame  # results.COLUMNS
    counts: pd.DataFrame  # PER_PROBLEM
    samples: pd.DataFrame  # after the last step: benchmark, reference and VERDICT
    meta: dict
    rescored: int  # verdicts that were made again
    late: int  # of these, time-outs in the run or here, which prove nothing


def checked(run: Path) -> Checked:
    """Check the run in a folder and return it. Raises UserError, which names the run, for the first
    thing that is wrong."""
    run = run.resolve()
    require_none(verify(run)[:1])
    config = config_of(run)
    remedy = "has no samples to check; only runs that were trained or evaluated here are accepted"
    require("imported" not in config and (run / "samples").is_dir(), "run", run, remedy)
    remedy = "is no row of a paper; give what `rlvr reproduce` trained, or an evaluation of it"
    require(bool({"row", "optim"} & set(config)), "run", run, remedy)
    meta = _meta(run)
    x = _planned(run, config)
    rows = read_csv(run / "metrics.csv")
    require_none(check_rows(rows, str(run / "metrics.csv"))[1])
    require(set(rows["run_id"]) == {run.name}, "run", run, "metrics.csv has rows of another run")
    if "row" in config:
        parts = _evaluated(run, config)
        node, limits = config["eval"]["verifier"], {"deadline": config["eval"]["deadline"]}
    else:
        require_steps(run / "metrics.jsonl", x.optim.steps)
        parts = _trained(run, x)
        node, limits = x.data.verifier, {"deadline": x.verification.deadline}
    counts, problems = counts_of(run, rows.iloc[0])
    require_none(problems)
    sampled = [one for one, _ in parts]
    _same_counts(run, counts, sampled)
    follow = _that_follow(run, rows, counts, sampled)
    samples, late = [], 0
    with Pool(node, workers=2, memory_gb=x.verification.memory_gb, **limits) as pool:
        for one, references in parts:
            drawn = one.rows.assign(reference=one.rows["problem_id"].map(references))
            some = drawn.sample(min(RESCORED, len(drawn)), random_state=0)
            late += _same_verdicts(run, one.benchmark, some, pool)
            samples.append(drawn.assign(benchmark=one.benchmark))
    named = {"table": x.table, "method": x.label}
    return Checked(
        run,
        x,
        follow.assign(**named),
        counts.assign(**named)[PER_PROBLEM],
        pd.concat(samples, ignore_index=True)[["benchmark", "reference", *VERDICT]],
        meta,
        sum(min(RESCORED, len(one.rows)) for one, _ in parts),
        late,
    )


def took_hours(one: Checked) -> float:
    """Return the hours that a run took: from start to end of the process that finished it, or the
    seconds of its steps (verl's log has them), whichever is longer. For a resumed run the process
    time covers only a part."""
    start, end = (datetime.fromisoformat(one.meta[name]) for name in ("start", "end"))
    steps = sum(row.get("seconds") or 0.0 for row in whole_rows(one.run / "metrics.jsonl"))
    return max((end - start).total_seconds(), steps) / 3600


def _meta(run: Path) -> dict:
    """Return a run's meta.json. Raises UserError where it lacks packages, python, start or end."""
    meta = json.loads((run / "meta.json").read_text()) if (run / "meta.json").exists() else {}
    for name in ("packages", "python", "start", "end"):
        require(bool(meta.get(name)), f"{run / 'meta.json'}: {name}", "", "is missing; run it anew")
    return meta


def _planned(run: Path, config: dict) -> Experiment:
    """Return the row of the paper's sweeps that has this stored configuration. Raises UserError
    where the folder's name does not match the configuration, and where no sweep has such a
    row."""
    if "row" in config:
        row = {key: value for key, value in config["row"].items() if key not in SHOWN_IN}
        identity = {key: value for key, value in config.items() if key not in ("scope", "row")}
        own, trained, paper = config_hash(identity | {"row": row}), row["trained"], row["paper"]
    else:
        try:
            x = strict(Experiment, config)
        except UserError as error:
            raise UserError(f"{run / 'config.yaml'}: {error}") from error
        own, trained, paper = x.run_id[-8:], x.run_id, x.paper
    there = run.name[-8:]
    require(own == there, "run", run, f"config.yaml is that of another run, {own}, not {there}")
    found = planned(paper, [trained])
    remedy = f"no sweep of {paper} has a row with this configuration; run a row unchanged"
    require(trained in found, "run", run, remedy)
    return found[trained]


Parts = list[tuple[Sampled, dict[str, str]]]  # samples of each benchmark; problem id -> reference


def _trained(run: Path, x: Experiment) -> Parts:
    """Return the samples after the last step, with references from the configured data sets."""
    from common.backends.prompts import benchmarks

    parts = []
    for name, prompts in benchmarks(x).items():
        rows = pd.DataFrame(read_jsonl(run / "samples" / f"{name}.jsonl.gz"))
        parts.append((Sampled(name, rows), _whole(run, name, rows, prompts, x.eval.n)))
    return parts


def _evaluated(run: Path, config: dict) -> Parts:
    """Return the same as `_trained` for an evaluation, which stores its problems beside its
    samples."""
    name = config["row"]["benchmark"]
    prompts = [Prompt(**row) for row in read_jsonl(run / "problems.jsonl.gz")]
    rows = stored(run, with_response=True)
    return [(Sampled(name, rows), _whole(run, name, rows, prompts, config["sampling"]["n"]))]


def _whole(run: Path, name: str, rows: pd.DataFrame, prompts: list[Prompt], n: int) -> dict:
    """Return problem id -> reference. Raises UserError unless each problem has its n samples."""
    place, references = f"{run}: {name}", {prompt.id: prompt.reference for prompt in prompts}
    each = rows.groupby("problem_id").size() if len(rows) else pd.Series(dtype=int)
    other = sorted(set(references) ^ set(each.index))
    require(not other, f"{place}: problem", other[:1], "is in the set or in the samples alone")
    short = each[each != n]
    require(short.empty, f"{place}: samples a problem", sorted(set(short)), f"must be {n}")
    repeated = rows.duplicated(["problem_id", "sample"]).any()
    require(not repeated, f"{place}: sample", "", "occurs twice in a problem")
    return references


def _same_counts(run: Path, counts: pd.DataFrame, sampled: list[Sampled]) -> None:
    """Raise UserError where the counts of the last step do not match the samples."""
    last, key = counts[counts["step"] == counts["step"].max()], ["benchmark", "problem_id"]
    both = last.merge(concatenate(sampled), on=key, how="outer", suffixes=("", "_again"))
    for row in both[(both["n"] != both["n_again"]) | (both["c"] != both["c_again"])].itertuples():
        place = f"{run / 'eval'}: {row.benchmark}, problem {row.problem_id}: c"
        raise UserError(f"{place}={row.c}: the samples give {row.c_again} of {row.n_again}")


def _that_follow(
    run: Path, rows: pd.DataFrame, counts: pd.DataFrame, sampled: list[Sampled]
) -> pd.DataFrame:
    """Return the rows that follow from the samples of the last step, or from the counts of an
    earlier step, whose samples are not kept. Raises UserError where such a row has another value,
    or a pass@k row has neither samples nor counts."""
    last, again = counts["step"].max(), []
    for one in sampled:
        again.append(metric_rows(one, _ks(rows, one.benchmark, last)).assign(step=last))
    for (benchmark, step), part in counts[counts["step"] < last].groupby(["benchmark", "step"]):
        again.append(report(part, _ks(rows, benchmark, step)).assign(step=step))
    key = ["benchmark", "metric", "step"]
    made = pd.concat(again)[[*key, "value"]]
    both = rows.reset_index().merge(made, on=key, suffixes=("", "_again")).set_index("index")
    for row in both.itertuples():
        close = abs(row.value - row.value_again) <= CLOSE * max(1.0, abs(row.value))
        remedy = f"{row.benchmark}, step {row.step}: its samples or counts give {row.value_again}"
        require(close, f"{run / 'metrics.csv'}: {row.metric}", row.value, remedy)
    lost = rows.drop(both.index)
    lost = lost[lost["metric"].str.match("pass@")]
    named = lost[key].iloc[:1].to_dict("records")
    require(lost.empty, f"{run / 'metrics.csv'}: row", named, "has no samples or counts")
    return rows.loc[both.index, COLUMNS]


def _ks(rows: pd.DataFrame, benchmark: str, step: int) -> list[int]:
    here = (rows["benchmark"] == benchmark) & (rows["step"] == step)
    return sorted({int(k) for k in rows.loc[here & rows["metric"].str.match("pass@"), "k"]})


def _same_verdicts(run: Path, benchmark: str, some: pd.DataFrame, pool: Pool) -> int:
    """Raise UserError for a verdict that our verifier does not give. Return how many verdicts were
    skipped because of a time-out, which depends on the machine."""
    pairs = list(zip(some["response"], some["reference"], strict=True))
    late = 0
    for row, verdict in zip(some.itertuples(), pool.map(pairs), strict=True):
        if "timeout" in (row.outcome, verdict.outcome):
            late += 1
            continue
        place = f"{run}: {benchmark}, problem {row.problem_id}, sample {row.sample}: outcome"
        remedy = f"our verifier says {verdict.outcome}; rlvr rescore shows all that differ"
        require(row.outcome == verdict.outcome, place, row.outcome, remedy)
    return late
