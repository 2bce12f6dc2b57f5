"""Samples that are there already: scored again by another verifier, or imported and then scored."""

from __future__ import annotations

import glob
import hashlib
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import yaml

from common import importers
from common.cli import compose
from common.errors import UserError, require
from common.evaluate import COLUMNS
from common.evaluation import PAPER, Evaluate, options, run_name
from common.evaluation_store import CONFIGS, fill, finish, keep_problems, problems, stored
from common.experiment import strict
from common.results import Run, read_jsonl, sha256, verify, write_csv
from common.types import Prompt
from common.verifiers.pool import Pool

SHOWN = 5  # examples that are printed, of all that are stored
ROWS = 4096  # imported samples that are verified and stored at a time


def rescore(words: list[str]) -> Path:
    """`rescore=RUN_FOLDER [eval.verifier.OPTION=VALUE ...]`: the run's samples under another
    verifier or other options of its own.

    A run folder of its own, without the responses, and with changes.csv: every sample whose
    outcome changed. It belongs to the samples, the options and the verifier's source file, so that
    a mended verifier scores again. The references are those stored with the run: another verifier
    must read the same. Raises UserError where the run is unfinished or damaged.
    """
    given = {key: value for key, _, value in (word.partition("=") for word in words)}
    source = Path(given.pop("rescore"))
    settings = {"workers": "2", "memory_gb": "4", "results_dir": str(source.parent.parent)}
    settings |= {key: given.pop(key) for key in list(given) if key in settings}
    wrong = verify(source)
    require(not wrong, "rescore", source, wrong[0] if wrong else "")
    config = yaml.safe_load((source / "config.yaml").read_text())
    require("eval" in config and "rescored" not in config, "rescore", source, "is no sampled run")
    benchmark = _changed(config["eval"], given)
    module = import_module(benchmark["verifier"]["_target_"].rpartition(".")[0])
    identity = {
        "label": config["label"],
        "rescored": source.name,
        "samples_sha256": sha256((source / "DONE").read_bytes()),
        "verifier_sha256": hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest(),
        "eval": benchmark,
    }
    name = run_name(f"{source.name}-rescored", identity)
    run = Run(Path(settings["results_dir"]), PAPER, name, identity)
    if not run.done:
        _score_again(run, source, benchmark, settings)
        before, after = stored(source), stored(run.path)
        write_csv(run.path / "changes.csv", changes(before, after))
        finish(run, benchmark["name"], config["label"], config.get("sampling", {}).get("seed"))
    run.close()
    _show_changes(source, run.path)
    return run.path


def _changed(benchmark: dict, given: dict[str, str]) -> dict:
    """The stored benchmark with `eval.verifier.*` and `eval.deadline` from the command line."""
    benchmark = benchmark | {"verifier": dict(benchmark["verifier"])}
    target = given.pop("eval.verifier._target_", None)
    if target is not None:  # the options of another verifier are not this one's
        benchmark["verifier"] = {"_target_": target}
    for key, text in given.items():
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UserError(f"{key}={text}: not a YAML value") from error
        if key == "eval.deadline":
            benchmark["deadline"] = value
        else:
            known = "rescore= takes eval.verifier.OPTION, eval.deadline, workers, memory_gb and "
            require(key.startswith("eval.verifier."), key, text, f"{known}results_dir")
            benchmark["verifier"][key.removeprefix("eval.verifier.")] = value
    return benchmark | {"verifier": options(benchmark["verifier"])}


def _score_again(run: Run, source: Path, benchmark: dict, settings: dict[str, str]) -> None:
    import pandas as pd

    references = {row["id"]: row["reference"] for row in read_jsonl(source / "problems.jsonl.gz")}
    limits = {"deadline": benchmark["deadline"], "memory_gb": float(settings["memory_gb"])}
    with Pool(benchmark["verifier"], workers=int(settings["workers"]), **limits) as pool:

        def chunk(start: int) -> pd.DataFrame:
            rows = pd.DataFrame(read_jsonl(source / "samples" / f"{start:07d}.jsonl.gz"))
            pairs = [(row.response, references[row.problem_id]) for row in rows.itertuples()]
            verdicts = pool.map(pairs)
            rows["outcome"] = [verdict.outcome for verdict in verdicts]
            rows["parsed"] = pd.Series([verdict.parsed for verdict in verdicts], dtype=object)
            return rows.drop(columns="response")

        names = sorted((source / "samples").glob("*.jsonl.gz"))
        fill(run, [int(path.name.partition(".")[0]) for path in names], chunk)


def changes(before, after):
    """The samples whose outcome differs: problem_id, sample, before, after, parsed_before,
    parsed_after."""
    names = ["problem_id", "sample", "outcome", "parsed"]
    both = before[names].merge(
        after[names], on=names[:2], suffixes=("_before", "_after"), validate="one_to_one"
    )
    both = both[both["outcome_before"] != both["outcome_after"]]
    both = both.rename(columns={"outcome_before": "before", "outcome_after": "after"})
    return both[["problem_id", "sample", "before", "after", "parsed_before", "parsed_after"]]


def _show_changes(source: Path, run: Path) -> None:
    import pandas as pd

    table = pd.read_csv(run / "changes.csv", dtype={"problem_id": str}, keep_default_na=False)
    total = int(pd.read_csv(run / "counts.csv")["n"].sum())
    print(f"{run}\n{len(table)} of {total} verdicts changed")
    for (before, after), number in Counter(zip(table.before, table.after, strict=True)).items():
        print(f"  {before} -> {after}: {number}")
    wanted = {(row.problem_id, row.sample): row for row in table.head(SHOWN).itertuples()}
    for path in sorted((source / "samples").glob("*.jsonl.gz")):
        if not wanted:
            return
        for sample in read_jsonl(path):
            row = wanted.pop((sample["problem_id"], sample["sample"]), None)
            if row is not None:
                print(
                    f"  {row.problem_id} sample {row.sample}: {row.before} -> {row.after}, parsed "
                    f"{row.parsed_before[:60]!a} -> {row.parsed_after[:60]!a}, response ends "
                    f"{sample['response'][-100:]!a}"
                )


def import_samples(words: list[str]) -> Path:
    """`import=verl|lm_eval files=GLOB eval=NAME [label=MODEL]`: dumped samples under our verifier.

    tokens, log_prob and stopped stay missing; `score` is the dump's own, where it has one. Raises
    UserError where no sample belongs to the benchmark, or problems have different numbers of them.
    """
    given = {key: value for key, _, value in (word.partition("=") for word in words)}
    kind, pattern = given.pop("import"), given.pop("files", "")
    require(kind in importers.READERS, "import", kind, f"one of {sorted(importers.READERS)}")
    files = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]
    require(bool(files), "files", pattern, "matches no file; give a path or a quoted glob")
    overrides = [word for word in words if word.partition("=")[0] not in ("import", "files")]
    overrides += [] if "label" in given else [f"label={kind}"]
    x = strict(Evaluate, compose(CONFIGS, overrides, "evaluate"))
    prompts = problems(_bare(x.eval.prompts))
    groups, alone = importers.match(importers.READERS[kind](files), prompts)
    _say_what_matched(groups, alone, prompts)
    hashes = {file.name: sha256(file.read_bytes()) for file in files}
    config = {"label": x.label, "import": kind, "files": hashes, "eval": x.benchmark()}
    name = run_name(f"{x.label}-{x.eval.name}", config)
    run = Run(Path(x.results_dir), PAPER, name, config)
    if not run.done:
        keep_problems(run, prompts)
        _score_imported(run, groups, {prompt.id: prompt.reference for prompt in prompts}, x)
        finish(run, x.eval.name, x.label, None)
    run.close()
    rows = stored(run.path)
    known = rows[rows["score"].notna()]
    if len(known):
        differ = ((known["score"] > 0) != (known["outcome"] == "correct")).sum()
        print(f"{differ} of {len(known)} samples: the dump's score (above 0: right) and our differ")
    print(run.path)
    return run.path


def _bare(node: dict) -> dict:
    """The prompts as bare problems: a dump has its own template around them."""
    plain = {"instruction": "bare", "chat": "plain", "template": "bare"}
    return node | {key: value for key, value in plain.items() if key in node}


def _say_what_matched(groups: dict, alone: list, prompts: list[Prompt]) -> None:
    matched = sum(map(len, groups.values()))
    print(f"{matched} samples of {len(groups)} of {len(prompts)} problems", file=sys.stderr)
    if alone:
        names = "; ".join(one.where for one in alone[:SHOWN])
        print(f"{len(alone)} samples belong to none and are left out: {names}", file=sys.stderr)
    without = [prompt.id for prompt in prompts if prompt.id not in groups]
    if without and groups:
        names = ", ".join(without[:SHOWN])
        print(f"{len(without)} problems have no sample and no row: {names}", file=sys.stderr)
    require(bool(groups), "files", f"{len(alone)} samples", "none is of this benchmark, see eval=")
    few, many = min(groups, key=lambda i: len(groups[i])), max(groups, key=lambda i: len(groups[i]))
    if len(groups[few]) != len(groups[many]):
        raise UserError(
            f"problem {few} has {len(groups[few])} samples, problem {many} {len(groups[many])}; "
            "import files that have the same number for each"
        )


def _score_imported(run: Run, groups: dict, references: dict[str, str], x: Evaluate) -> None:
    import pandas as pd

    flat = [(owner, i, one) for owner, ones in groups.items() for i, one in enumerate(ones)]
    settings = {"workers": x.workers, "deadline": x.eval.deadline, "memory_gb": x.memory_gb}
    with Pool(x.eval.verifier, **settings) as pool:

        def chunk(start: int) -> pd.DataFrame:
            part = flat[start : start + ROWS]
            verdicts = pool.map([(one.response, references[owner]) for owner, _, one in part])
            rows = [
                (owner, i, one.response, v.outcome, v.parsed, None, None, None, one.score)
                for (owner, i, one), v in zip(part, verdicts, strict=True)
            ]
            return pd.DataFrame(rows, columns=[*COLUMNS, "score"], dtype=object)

        fill(run, list(range(0, len(flat), ROWS)), chunk)
