"""A declared study: its queue, which trains what is missing, and what the repository keeps of it.

    rlvr reproduce paper=study scale=confirmatory results_dir=FOLDER     trains; may be stopped
    rlvr keep paper=study scale=confirmatory results_dir=FOLDER          keeps what has finished

Its scale's sweeps have a `part`. Parts run in their order, each seed by seed. A run whose numbers
are kept (common/results/kept.py) counts as done on every machine. All runs of a testbed and seed
start from one base model, which is kept with the first of them: from the same seed another machine
may make another one. In a results folder that has another one, the runs that are kept of that
testbed and seed do not count, and it starts again.
"""

import os
import shutil
import sys
from collections import Counter
from datetime import datetime
from itertools import groupby
from pathlib import Path

import pandas as pd

from common.config.files import REFERENCE
from common.config.words import options
from common.errors import UserError, require
from common.experiment import Experiment
from common.models.store import folder
from common.results.checks import require_none
from common.results.collect import counts_of, verify
from common.results.files import read_csv, sha256_of
from common.results.kept import LINE, PROBLEMS, files, lines_of, packed, unpacked, write_part
from common.results.provenance import meta_of
from common.sweeps.plan import Reproduce, runs_of, scales_of
from common.sweeps.reproduce import done, train_all

WORDS = {"paper": "study", "scale": "confirmatory", "results_dir": "results"}


def main(words: list[str]) -> None:
    """Keep what has finished: rlvr keep [paper=study] [scale=confirmatory] [results_dir=results]"""
    given = options(words, WORDS)
    config = scales_of(given.pop("paper"), *(f"{key}={value}" for key, value in given.items()))
    said = "is no declared study: its sweeps have no part"
    require(all(one.part for one in config.sweeps), "scale", config.scale, said)
    for path in keep(config):
        print(path)
    print(progress(config))


def queue(config: Reproduce) -> None:
    """Train every run of the scale that is neither finished nor kept, at the lowest priority, on
    all cores. A part with failed runs does not stop the next one; their UserError is raised at the
    end."""
    os.nice(19)
    failure = None
    cores, due = os.cpu_count() or 1, []  # of the parts so far: a seed that starts again has all
    for part, runs in parts(config).items():
        due += runs
        print(f"part {part}; {progress(config)}", flush=True)
        begun = {(x.paper, x.seed) for x in runs if not (_done(x) or _base(x) or _kept(x).empty)}
        try:
            train_all([x for x in due if x.optim.steps == 0 and (x.paper, x.seed) in begun], cores)
            # those that are done here too: where the base model is, no run waits for one
            train_all([x for x in due if done(x) or not _done(x)], cores)
        except UserError as error:
            failure = error
            print(f"error: {error}", file=sys.stderr)
    if failure is not None:
        raise failure


def parts(config: Reproduce) -> dict[str, list[Experiment]]:
    """Return the runs of each part, seed by seed, and those of one seed as its sweeps name them."""
    found: dict[str, list[Experiment]] = {}
    for sweep in config.sweeps:
        found.setdefault(sweep.part, []).extend(runs_of(config, sweep))
    return {part: sorted(runs, key=lambda x: x.seed) for part, runs in found.items()}


def keep(config: Reproduce) -> list[Path]:
    """Add the finished runs that are not kept yet, a file for each part and seed, and return the
    files. The seed's base model is kept in REFERENCE/models. What is kept of the same testbed and
    seed from another base model stays beside them: a line names its base model."""
    written = []
    for part, runs in parts(config).items():
        for _, group in groupby(runs, key=lambda x: x.seed):
            new = [x for x in group if done(x) and x.run_id not in _counted(x)]
            if not new:
                continue
            found, problems = zip(*(_lines(x) for x in new), strict=True)
            whole = pd.concat(problems).drop_duplicates(ignore_index=True)
            whole = whole.sort_values(PROBLEMS, ignore_index=True)
            home, name = REFERENCE / new[0].paper, f"{part}-s{new[0].seed}"
            written.append(write_part(home, name, pd.concat(found), whole))
            base = Path(folder(new[0].model, Path(new[0].results_dir)))
            kept = REFERENCE / "models" / base.name
            if not (kept / "DONE").exists():
                shutil.copytree(base, kept, dirs_exist_ok=True)
    return written


def progress(config: Reproduce) -> str:
    """Return how many runs of each part are done, and how long the others take on this machine's
    cores if a step takes as long as in those."""
    said, left = [], Counter[str]()
    seconds, steps = Counter[str](), Counter[str]()  # of the runs that are done, by testbed
    for part, runs in parts(config).items():
        ended = [_done(x) for x in runs]
        said.append(f"{part} {sum(ended)} of {len(runs)}")
        for x, end in zip(runs, ended, strict=True):
            left[x.paper] += 0 if end else x.optim.steps
            steps[x.paper] += x.optim.steps if end else 0
            seconds[x.paper] += round(_seconds(x)) if end else 0
    known = {x: n * seconds[x] / steps[x] / 3600 for x, n in left.items() if steps[x]}
    rest = sum(known.values()) / (os.cpu_count() or 1)
    apart = "".join(f", without {x}, of which no run is done" for x in left if x not in known)
    return f"done: {', '.join(said)}; the rest takes about {rest:.1f} hours{apart}"


def is_kept(x: Experiment) -> bool:
    """Return whether the repository keeps this run, from the base model that is used here."""
    return _base(x) is not None and x.run_id in _counted(x)


def kept_counts(runs: list[Experiment]) -> pd.DataFrame:
    """Return the counts of those runs that only the repository has, as far as their own steps."""
    found = []
    for x in runs:
        if is_kept(x) and not done(x):
            lines = _kept(x)
            own = (lines["run_id"] == x.run_id) & (lines["base"] == _base(x))
            lines = lines[own & (lines["step"] <= x.optim.steps)].reset_index(drop=True)
            found.append(unpacked(REFERENCE / x.paper, lines)[1])
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def _done(x: Experiment) -> bool:
    return done(x) or x.run_id in _counted(x)


def _kept(x: Experiment) -> pd.DataFrame:
    """Return the kept lines of the testbed and seed of `x`; empty where there are none."""
    found = [lines_of(path) for path in files(REFERENCE / x.paper, x.seed)]
    return pd.concat(found) if found else pd.DataFrame(columns=LINE)


def _counted(x: Experiment) -> set[str]:
    """Return the kept runs of the testbed and seed of `x` that count here: they started from the
    base model that this results folder has, or it has none."""
    lines, base = _kept(x), _base(x)
    return set(lines["run_id"] if base is None else lines.loc[lines["base"] == base, "run_id"])


def _base(x: Experiment) -> str | None:
    """Return the SHA-256 of the base model's weights; None before it is made."""
    weights = Path(folder(x.model, Path(x.results_dir))) / "model.safetensors"
    return sha256_of(weights) if weights.exists() else None


def _seconds(x: Experiment) -> float:
    """Return how long a run took that is done; after a stop, from its last start."""
    if not done(x):
        return float(_kept(x).set_index("run_id").loc[[x.run_id], "seconds"].iloc[0])
    meta = meta_of(x.path) or {}
    start, end = (datetime.fromisoformat(meta[key]) for key in ("start", "end"))
    return (end - start).total_seconds()


def _lines(x: Experiment) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the lines of a finished run, and its problems. Raises UserError for a damaged run."""
    run, meta = x.path, meta_of(x.path) or {}
    require_none(verify(run))
    counts, problems = counts_of(run)
    require_none(problems)
    about: dict = {"run_id": x.run_id, "table": x.table, "model": x.model.name, "method": x.label}
    about |= {"seed": x.seed, "base": _base(x), "commit": meta["commit"]}
    about |= {"processor": meta["processor"], "seconds": _seconds(x)}
    lines = packed(counts, read_csv(run / "metrics.csv"))
    return lines.assign(**about), counts[PROBLEMS].drop_duplicates()
