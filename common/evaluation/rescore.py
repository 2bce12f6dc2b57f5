"""Score stored samples again, by another verifier or with other options.

rlvr rescore run=RUN_FOLDER [eval.verifier.OPTION=VALUE ...] [eval.deadline=3] [workers=2]
             [memory_gb=4] [results_dir=results]
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from common.config.compose import value
from common.config.files import read
from common.config.words import pairs, split
from common.errors import require
from common.evaluation.config import PAPER, options, run_name
from common.evaluation.store import fill, finish, stored
from common.results.collect import verify
from common.results.files import read_jsonl, sha256, write_csv
from common.results.run import Run
from common.types import Prompt
from common.verifiers.fingerprint import fingerprint
from common.verifiers.guard import prepare, seeing
from common.verifiers.pool import Pool


def main(words: list[str]) -> Path:
    """Score the samples of `run` by another verifier or with other options, and return the new run
    folder, which has changes.csv: every sample whose outcome changed. Its name depends on the
    samples and on all that a verdict depends on (common/verifiers/fingerprint.py). The references
    are those stored with the run. Raises UserError if the run is unfinished or damaged."""
    settings, others = split(
        words, {"run": "", "workers": "2", "memory_gb": "4", "results_dir": ""}
    )
    source = Path(settings["run"])
    root = Path(settings["results_dir"] or source.parent.parent)
    there = bool(settings["run"]) and source.is_dir()
    require(there, "run", settings["run"], "no such folder; give one that an evaluation made")
    has_samples = (source / "problems.jsonl.gz").exists()
    require(has_samples, "run", source, "lacks samples; give an evaluation's run")
    wrong = verify(source)
    require(not wrong, "run", source, wrong[0] if wrong else "")
    config = read(source / "config.yaml")
    require("eval" in config and "rescored" not in config, "run", source, "drew no samples itself")
    benchmark = _changed(config["eval"], pairs(others))
    identity = {
        "label": config["label"],
        "rescored": source.name,
        "samples_sha256": sha256((source / "DONE").read_bytes()),
        "verifier": fingerprint(benchmark["verifier"]),
        "eval": benchmark,
    }
    name = run_name(f"{source.name}-rescored", identity)
    run = Run(root, PAPER, name, identity)
    if not run.done:
        _score_again(run, source, benchmark, settings)
    before, after = stored(source), stored(run.path)
    table = changes(before, after)
    if not run.done:
        write_csv(run.path / "changes.csv", table)
        finish(run, config["sampling"]["seed"])
    run.close()
    print(f"{run.path}\n{len(table)} of {len(before)} verdicts changed")
    for (was, now), number in table.groupby(["before", "after"]).size().items():
        print(f"  {was} -> {now}: {number}")
    return run.path


def _changed(benchmark: dict, given: dict[str, str]) -> dict:
    benchmark = benchmark | {"verifier": dict(benchmark["verifier"])}
    target = given.pop("eval.verifier._target_", None)
    if target is not None:  # another verifier has options of its own
        benchmark["verifier"] = {"_target_": target}
    for key, text in given.items():
        if key == "eval.deadline":
            benchmark["deadline"] = value(key, text)
        else:
            known = "rescore takes eval.verifier.OPTION, eval.deadline, workers, memory_gb and "
            require(key.startswith("eval.verifier."), key, text, f"{known}results_dir")
            benchmark["verifier"][key.removeprefix("eval.verifier.")] = value(key, text)
    return benchmark | {"verifier": options(benchmark["verifier"])}


def _score_again(run: Run, source: Path, benchmark: dict, settings: dict[str, str]) -> None:
    prompts = [Prompt(**row) for row in read_jsonl(source / "problems.jsonl.gz")]
    references = {prompt.id: prompt.reference for prompt in prompts}
    limits = {key: value(key, settings[key]) for key in ("workers", "memory_gb")}
    prepare(benchmark["verifier"])
    given = {k: v for k, v in benchmark["verifier"].items() if (k, v) != ("opened", False)}
    judge = seeing(given, prompts[0])  # a run stores defaults too
    with Pool(judge, deadline=benchmark["deadline"], **limits) as pool:

        def chunk(start: int) -> pd.DataFrame:
            rows = pd.DataFrame(read_jsonl(source / "samples" / f"{start:07d}.jsonl.gz"))
            pairs = [(row.response, references[row.problem_id]) for row in rows.itertuples()]
            verdicts = pool.map(pairs)
            rows["outcome"] = [verdict.outcome for verdict in verdicts]
            rows["parsed"] = pd.Series([verdict.parsed for verdict in verdicts], dtype=object)
            return rows.drop(columns=["response", "ids"], errors="ignore")

        names = sorted((source / "samples").glob("*.jsonl.gz"))
        starts = [int(path.name.partition(".")[0]) for path in names]
        fill(run, starts, lambda missing: ((start, chunk(start)) for start in missing))


def changes(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return the samples whose outcome differs, with outcome and parsed before and after."""
    names = ["problem_id", "sample", "outcome", "parsed"]
    both = before[names].merge(
        after[names], on=names[:2], suffixes=("_before", "_after"), validate="one_to_one"
    )
    both = both[both["outcome_before"] != both["outcome_after"]]
    both = both.rename(columns={"outcome_before": "before", "outcome_after": "after"})
    return both[["problem_id", "sample", "before", "after", "parsed_before", "parsed_after"]]
