"""Check finished runs of a row (a named configuration), and pack them for others to see.

    rlvr contribute RUN_FOLDER... [name=WHO] [hardware='1 x H100'] [hours=7.5]
                    [into=results/contributed]

Every run is checked first: the hashes of its files, its configuration against the rows of the
paper, counts and metrics against its samples, and 256 verdicts per benchmark against our verifier.
If anything is wrong, it is named and nothing is written. Otherwise each row becomes a folder:

    <into>/<paper>/<row>/<name>/
        contribution.json   name, hardware, hours, code version, how many verdicts were rescored
        metrics.csv         the result rows that follow from samples or counts
        counts.csv.gz       benchmark, problem_id, n, c of each evaluation
        runs.csv            configuration hash, commit and versions of each run
        samples.jsonl.gz    1 % of the samples of the last step

hardware= and hours= are needed where a run does not record them. docs/contributing-results.md
says what is accepted and where the folder goes.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pandas as pd

from common.comparison.checked_run import VERDICT, Checked, checked, took_hours
from common.comparison.contributed import ABOUT, DEFAULT, compared, markdown
from common.config.files import ROOT
from common.config.words import options
from common.errors import UserError, require
from common.progress import tracked
from common.results import provenance
from common.results.files import sha256, write, write_csv, write_json, write_jsonl_gz

WORDS = {"name": "anonymous", "hardware": "", "hours": "", "into": str(DEFAULT)}
NAME = re.compile(r"\w[\w.-]*")
SHARE = 0.01  # share of the samples that is kept


def main(words: list[str]) -> None:
    runs = [Path(word) for word in words if "=" not in word]
    given = options([word for word in words if "=" in word], WORDS)
    require(bool(runs), "contribute", "", "give one folder or more of finished runs")
    named = NAME.fullmatch(given["name"]) is not None
    require(named, "name", given["name"], "use letters, digits, - and . alone")
    into = Path(given["into"])
    for folder in contribute(runs, into, **{key: given[key] for key in ("name", *SAID)}):
        print(folder)
    found, _ = compared(into, ROOT / "results" / "reference")
    print("\n" + markdown(found[found["name"] == given["name"]]))
    print("Next: open a pull request with the folder (docs/contributing-results.md)")


SAID = ("hardware", "hours")  # words that a user gives where the runs do not record it


def contribute(
    runs: list[Path], into: Path, *, name: str, hardware: str = "", hours: str = ""
) -> list[Path]:
    """Check the runs, write a folder for each row and return the folders. Raises UserError, before
    anything is written, for a run that fails a check, for two runs of a row with the same seed, and
    for a folder that exists already."""
    rows: dict[tuple[str, str], list[Checked]] = {}
    for run in tracked(runs, "checking", total=len(runs)):
        one = checked(run)
        rows.setdefault((one.x.paper, one.x.name), []).append(one)
    made = {}
    for (paper, row), found in rows.items():
        folder = into / paper / row / name
        require(not folder.exists(), "name", name, f"{folder} is there already; take another name")
        evaluations = pd.concat([one.counts for one in found])
        twice = evaluations[evaluations.duplicated(["benchmark", "seed", "step", "problem_id"])]
        seeds = sorted(set(twice["seed"]))
        require(not seeds, "seed", seeds, f"{paper}, {row}: two of the runs are of one seed")
        made[folder] = found, _about(paper, row, name, found, hardware, hours)
    for folder, (found, about) in made.items():
        _write(folder, found, about)
    return list(made)


def _about(
    paper: str, row: str, name: str, found: list[Checked], hardware: str, took: str
) -> dict[str, object]:
    seen = sorted({_hardware(one) for one in found} - {""})
    hardware = hardware or ", ".join(seen)
    require(hardware != "", "hardware", "", "the runs do not say it; give hardware='1 x H100'")
    try:
        number = float(took) if took else sum(map(took_hours, found))
    except ValueError as error:
        raise UserError(f"hours={took}: give a number") from error
    pretrained = {one.run.name: one.x.model.pretrain for one in found}
    return {
        "paper": paper,
        "row": row,
        "name": name,
        "scope": found[0].x.scope,
        "hardware": hardware,
        "hours": round(number, 3),
        "commits": sorted({one.meta.get("commit") or "unknown" for one in found}),
        "changed_code": any(one.meta.get("diff_sha256") for one in found),
        "bases": {run: made.seed if made else None for run, made in pretrained.items()},
        "samples": sum(len(one.samples) for one in found),
        "rescored": sum(one.rescored for one in found),
        "late": sum(one.late for one in found),
    }


def _hardware(one: Checked) -> str:
    """Return the hardware of a run, as "2 x NVIDIA H100" or the kind of processor; "" for a run
    from before runs recorded it."""
    if "gpus" not in one.meta:
        return ""
    gpus = [] if one.x.device == "cpu" else one.meta["gpus"]
    counted = Counter(gpus[:1] if one.x.backend == "local" else gpus)
    return ", ".join(f"{n} x {gpu}" for gpu, n in counted.items()) or f"CPU {one.meta['processor']}"


def _write(folder: Path, found: list[Checked], about: dict) -> None:
    """Write the files of a contribution; contribution.json, with their hashes, comes last."""
    write_csv(folder / "metrics.csv", pd.concat([one.rows for one in found]))
    text = pd.concat([one.counts for one in found]).to_csv(index=False, lineterminator="\n")
    write(folder / "counts.csv.gz", gzip.compress(text.encode(), mtime=0))
    traced = [
        {"scope": one.x.scope, "run_id": one.run.name, "table": one.x.table}
        | {"model": one.x.model.name, "method": one.x.label, "seed": one.x.seed}
        | provenance.trace(one.run.parent.parent, one.run, {})
        for one in found
    ]
    write_csv(folder / "runs.csv", pd.DataFrame(traced, columns=provenance.COLUMNS))
    kept = []
    for one in found:
        for _, part in one.samples.groupby("benchmark", sort=False):
            some = part.sample(max(1, round(SHARE * len(part))), random_state=1)
            some = some.sort_values(["problem_id", "sample"]).assign(run_id=one.run.name)
            kept += some[["run_id", "benchmark", "reference", *VERDICT]].to_dict("records")
    write_jsonl_gz(folder / "samples.jsonl.gz", kept)
    files = {path.name: sha256(path.read_bytes()) for path in sorted(folder.glob("[!.]*"))}
    write_json(folder / ABOUT, about | {"files": files})
