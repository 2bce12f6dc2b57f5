"""Read evaluation folders of this repository, rescored and imported ones, and tables of counts."""

from __future__ import annotations

from pathlib import Path

from common.config.files import read
from common.errors import require
from common.evaluation.logs import KINDS
from common.evaluation.side import Problem, Sample, Side
from common.evaluation.store import stored
from common.results.collect import verify
from common.results.files import read_jsonl


def folder(path: Path, benchmark: str | None) -> Side:
    """Return the side that a run folder holds. Raises UserError if it is unfinished or damaged.

    The responses of a rescored run are those of the run that it scored, if that lies beside it.
    """
    wrong = verify(path)
    require(not wrong, "folder", path, wrong[0] if wrong else "")
    config = read(path / "config.yaml")
    if not (path / "samples").is_dir():
        return counts(path / "counts.csv", benchmark)
    source = path.parent / config["rescored"] if "rescored" in config else path
    if (source / "config.yaml").exists():
        config = read(source / "config.yaml") | {"eval": config["eval"]}
    asked = {}
    if (source / "problems.jsonl.gz").exists():
        asked = {row["id"]: row for row in read_jsonl(source / "problems.jsonl.gz")}
    sampling, imported = config.get("sampling", {}), config.get("import")
    fixed = {"top_k": None, "min_p": None, "repetition_penalty": None, "stop": None}
    known = {name: sampling[name] for name in ("temperature", "top_p") if name in sampling}
    return Side(
        path=str(path),
        kind="folder",
        problems=tuple(
            _problem(name, samples, asked.get(name, {}), imported is None)
            for name, samples in _samples(path, source).items()
        ),
        model=None if config["label"] in KINDS else config["label"],
        weights=_weights(config),
        verifier=config["eval"]["verifier"],
        deadline=config["eval"]["deadline"],
        settings=known | fixed if known else {},
        max_tokens=sampling.get("max_tokens"),
    )


def counts(path: Path, benchmark: str | None) -> Side:
    """Return the side of a CSV file with benchmark, problem_id, n, c: scores without responses.
    Raises UserError if there are several benchmarks and none is named."""
    from common.results.checks import check_counts
    from common.results.files import read_csv

    table = read_csv(path, [])
    missing = {"benchmark", "problem_id", "n", "c"} - set(table.columns)
    require(not missing, "file", path, f"has no column {', '.join(sorted(missing))}")
    if benchmark is not None:
        table = table[table["benchmark"] == benchmark]
    names = sorted(table["benchmark"].unique())
    require(len(names) == 1, "benchmark", benchmark, f"{path} has {names}; name one")
    table, messages = check_counts(table, str(path))
    require(not messages, "file", path, messages[0] if messages else "")
    problems = tuple(
        Problem(
            name=row.problem_id,
            ids=(row.problem_id,),
            texts=(),
            prompt=None,
            samples=(Sample(1.0, "correct"),) * int(row.c)
            + (Sample(0.0, "wrong"),) * int(row.n - row.c),
        )
        for row in table.itertuples()
    )
    return Side(path=str(path), kind="counts", problems=problems)


def _samples(path: Path, source: Path) -> dict[str, list[Sample]]:
    """Return each problem's samples as `path` scored them, in order, with the responses of
    `source`."""
    again = stored(path)
    rows = stored(source, with_response=True) if (source / "samples").is_dir() else again
    names = ["problem_id", "sample"]
    merged = rows.drop(columns=["outcome", "parsed"]).merge(
        again[[*names, "outcome", "parsed"]], on=names, validate="one_to_one"
    )
    groups: dict[str, list[Sample]] = {}
    for row in merged.astype(object).where(merged.notna(), None).to_dict("records"):
        groups.setdefault(row["problem_id"], []).append(
            Sample(
                right=float(row["outcome"] == "correct"),
                outcome=row["outcome"],
                parsed=row["parsed"],
                response=row.get("response"),
                tokens=row.get("tokens"),
                stopped=row.get("stopped"),
            )
        )
    return groups


def _problem(name: str, samples: list[Sample], row: dict, as_asked: bool) -> Problem:
    """Return a problem. `as_asked` says whether the stored text is what the model read: an import
    stores the bare problem."""
    text = row.get("text")
    return Problem(
        name=name,
        ids=(name,),
        texts=(text,) if text else (),
        prompt=text if as_asked else None,
        samples=tuple(samples),
        reference=row.get("reference"),
    )


def _weights(config: dict) -> dict | None:
    """Return what tells two models apart, without the name that a user gave."""
    if "model" in config:
        return {k: v for k, v in config["model"].items() if k not in ("name", "chat")}
    if "row" in config:
        return {name: config["row"].get(name) for name in ("paper", "trained", "checkpoint")}
    return None
