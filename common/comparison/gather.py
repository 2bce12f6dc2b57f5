"""The rows, counts and provenance of a paper's finished runs: gathered once, written as tables, and
read from these where the run folders are missing."""

import filecmp
import gzip
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from common.claims.file import CLUSTER, LAPTOP
from common.claims.select import PER_PROBLEM
from common.comparison.frontier import DEV, pass_at_k_rows
from common.comparison.lines import labelled
from common.config.files import REFERENCE, STUDY
from common.errors import UserError
from common.evaluation.config import SHOWN_IN
from common.results import provenance
from common.results.checks import check_rows, checked_counts
from common.results.collect import collect, config_of, counts_of, finished_runs
from common.results.columns import COLUMNS
from common.results.files import read_csv, write, write_csv
from common.results.tables import together

RERUNS = (LAPTOP, CLUSTER)  # scopes whose reruns decide claims
COUNTS = [*PER_PROBLEM, "run_id"]
NAMED = ["run_id", "table", "model", "method", "seed"]  # columns that name a run


@dataclass(frozen=True)
class Gathered:
    rows: pd.DataFrame  # results.COLUMNS
    counts: pd.DataFrame  # COUNTS of every evaluation, also along training
    runs: pd.DataFrame  # provenance.COLUMNS


@dataclass(frozen=True)
class Gathering:
    """The results of a paper's finished runs by scope; a scope without a run has no entry."""

    scopes: dict[str, Gathered]
    left_out: list[str] = field(default_factory=list)  # what was left out and why

    def write(self, root: Path, paper: str) -> None:
        """Write the tables of each scope with a run; others (results/reference/) stay."""
        for scope, one in self.scopes.items():
            folder = root / paper / scope
            write_csv(folder / "metrics.csv.gz", one.rows)
            text = one.counts[PER_PROBLEM].to_csv(index=False, lineterminator="\n")
            write(folder / "counts.csv.gz", gzip.compress(text.encode(), mtime=0))
            write_csv(folder / "runs.csv", one.runs)


def gather(root: Path, paper: str) -> Gathering:
    """Return the results of the finished runs in <root>/<paper>/, labelled as at their start."""
    finished, left_out = finished_runs(root, paper)
    found, problems = collect(finished)
    configs = {run: config_of(run) for run in found}
    fewer = _superseded(configs)
    left_out += [*problems, *fewer.values()]
    found = {run: part for run, part in found.items() if run not in fewer}
    trained = [
        run for run in found if configs[run].get("scope") == LAPTOP and "optim" in configs[run]
    ]
    for run, method in labelled(trained).items():
        found[run] = found[run].assign(method=method)
    parts: dict[str, tuple[list, list, list]] = {}
    for run, part in found.items():
        scope, named = configs[run].get("scope"), part.iloc[0][NAMED]
        drawn, problems = counts_of(run)
        left_out += problems
        rows, counts, runs = parts.setdefault(scope, ([], [], []))
        rows.append(part)
        counts.append(drawn.assign(**named))
        runs.append({"scope": scope, **named} | provenance.trace(root, run, finished[run]))
    scopes = {
        scope: Gathered(
            rows=pd.concat(rows, ignore_index=True),
            counts=together(counts).reindex(columns=COUNTS),
            runs=pd.DataFrame(runs, columns=provenance.COLUMNS),
        )
        for scope, (rows, counts, runs) in parts.items()
    }
    for scope in RERUNS:
        still = set(scopes[scope].rows["run_id"]) if scope in scopes else set()
        left_out += [
            f"{root / paper / run}: was in the last comparison and is gone"
            for run in sorted(_had(root / paper / scope) - still)
            if not (root / paper / run).exists()
        ]
    return Gathering(scopes, left_out)


def _superseded(configs: dict[Path, dict]) -> dict[Path, str]:
    """Return the evaluations that one with more steps or samples supersedes, with messages."""
    groups: dict[str, list[Path]] = {}
    for run, config in configs.items():
        sampling, row = config.get("sampling") or {}, config.get("row") or {}
        if "n" not in sampling or "trained" not in row:
            continue
        same = {name: sampling[name] for name in sampling if name not in ("n", "batch")}
        whose = {name: row[name] for name in row if name not in (*SHOWN_IN, "steps")}
        key = [config.get("label"), config.get("eval"), config.get("limit"), same, whose]
        groups.setdefault(json.dumps(key, sort_keys=True), []).append(run)

    def size(run: Path) -> tuple[int, int]:
        return configs[run]["row"].get("steps") or 0, configs[run]["sampling"]["n"]

    messages = {}
    for runs in groups.values():
        best = max(runs, key=size)
        for run in (one for one in runs if size(one) != size(best)):
            steps, n = size(run)
            said = f"{run.name}: {steps} steps, n={n}; {best.name} has more and is used instead"
            messages[run] = said
    return messages


def _had(folder: Path) -> set[str]:
    """Return the runs behind a scope's stored tables; none for committed tables."""
    file, committed = folder / "runs.csv", REFERENCE.joinpath(*folder.parts[-2:], "runs.csv")
    if not file.exists() or (committed.exists() and filecmp.cmp(file, committed, shallow=False)):
        return set()
    return set(pd.read_csv(file, dtype=str)["run_id"])


def gathered(
    root: Path, paper: str, scope: str, found: Gathering | None = None
) -> tuple[Gathered, list[str]]:
    """Return (the results of a scope, what was left out of its stored tables). The results are
    those in `found`, else the stored tables, unless the folders behind them are gone."""
    if found is not None and scope in found.scopes:
        return found.scopes[scope], []
    folder = root / paper / scope
    rows, counts = pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=PER_PROBLEM)
    problems: list[str] = []
    had = _had(folder)
    gone = had and (found is not None or not any((root / paper / run).exists() for run in had))
    if (folder / "metrics.csv.gz").exists() and not gone:
        try:
            place = folder / "metrics.csv.gz"
            rows, problems = check_rows(read_csv(place), str(place))
            counts, more = checked_counts(folder / "counts.csv.gz")
            counts = counts.reindex(columns=PER_PROBLEM)
            problems += more
        except UserError as error:
            problems = [str(error)]
    return Gathered(rows, counts, provenance.table(root, paper, scope, rows)), problems


def of_study(
    root: Path, methods: Collection[str], found: Gathering | None = None
) -> tuple[Gathered, list[str]]:
    """Return the study's results for these methods on test prompts, and what was left out."""
    found = found or gather(root, STUDY)
    one, problems = gathered(root, STUDY, LAPTOP, found)
    rows, counts, runs = (
        x[x["method"].isin(methods) & ~x.get("benchmark", x["method"]).str.startswith(DEV)]
        for x in (one.rows, one.counts, one.runs)
    )
    if len(counts):
        rows = pass_at_k_rows(rows, counts)
    return Gathered(rows, counts, runs), [*found.left_out, *problems]


def joined(one: Gathered, other: Gathered) -> Gathered:
    names = ("rows", "counts", "runs")
    return Gathered(*(together([getattr(x, name) for x in (one, other)]) for name in names))
