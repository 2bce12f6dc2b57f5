"""How often does each verdict come out? Simulated reruns of a paper, compared as a real one is.

    rlvr calibrate paper=NAME [draws=200] [seeds=1] [world=all] [scale=NAME] [results_dir=results]
        [json=false]

world: as_printed (the truth is the printed number), no_effect (every method has its baseline's
numbers), half_effect, or all three. The run folders of all cluster rows (named experiments) are
made up once, as jobs leave them. Each draw then replaces their numbers, and the tables of gather,
the choice of a curve's step, averages, gains, cells and claims follow as in `rlvr compare`.
common/calibration/world.py describes how numbers are drawn.

Writes <results_dir>/NAME/calibration.csv: for every cell, gain and claim in each world, the share
of the draws with each verdict, and the smallest effect that is found four times in five, by the
noise formula of the comparison (for a cell, half the width of its interval). Also writes
calibration_first.csv: the verdicts of the first draws, which a test draws again. scale=NAME takes
the rows, samples and seeds of another scale and writes calibration_NAME.csv instead. Draw i is the
same, however many are drawn. Nothing is trained: storing the rows takes a minute, a draw about a
second.
"""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd

from common.calibration import made
from common.calibration.draws import Gatherer
from common.calibration.judged import Judge
from common.calibration.table import first, long, shares, summary, text
from common.calibration.world import WORLDS, Plan, World
from common.comparison.gather import CLUSTER, gather
from common.comparison.spec import spec_of
from common.config.files import known_paper
from common.config.words import options
from common.errors import require
from common.results.files import write, write_csv

WORDS = {
    "paper": "",
    "draws": "200",
    "seeds": "1",
    "world": "all",
    "scale": "",
    "results_dir": "results",
    "json": "false",
}
# In the names of cluster scales without printed numbers, or whose rows another has with more steps
UNPRINTED = ("sweeps", "curves", "fig14", "rates", "recipes", "first", "kl", "seeds")


def main(words: list[str]) -> None:
    given = options(words, WORDS)
    paper = known_paper(given["paper"])
    for name in ("draws", "seeds"):
        require(given[name].isdigit() and int(given[name]) > 0, name, given[name], "give 1 or more")
    require(given["world"] in (*WORLDS, "all"), "world", given["world"], f"use all or {WORLDS}")
    worlds = WORLDS if given["world"] == "all" else (given["world"],)
    draws, seeds, scale = int(given["draws"]), int(given["seeds"]), given["scale"]
    known = [name for name in made.configured(paper).scales if name.startswith(CLUSTER)]
    require(scale in ("", *known), "scale", scale, f"use one of {', '.join(known)}")
    require(given["json"] in ("true", "false"), "json", given["json"], "use true or false")
    table, few = calibrate(paper, draws=draws, seeds=seeds, worlds=worlds, scale=scale)
    folder, name = Path(given["results_dir"]) / paper, f"calibration{scale and '_'}{scale}"
    write(folder / f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))
    write_csv(folder / f"{name}_first.csv", few)
    if given["json"] == "true":
        print(json.dumps(summary(table), indent=1))
    else:
        print(text(paper, table))
        print(f"in {folder / name}.csv: every cell, gain and claim")


def scales(paper: str) -> tuple[str, ...]:
    """Return the cluster scales whose rows have printed numbers."""
    known = made.configured(paper).scales
    return tuple(
        name
        for name in known
        if name.startswith("cluster") and not any(word in name for word in UNPRINTED)
    )


def calibrate(
    paper: str,
    *,
    draws: int,
    seeds: int = 1,
    worlds: tuple[str, ...] = WORLDS,
    scale: str = "",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables calibration.csv and calibration_first.csv. With `scale`, only the rows of
    that scale are used, with its own seeds unless `seeds` is above 1."""
    spec, taken = spec_of(paper), (scale,) if scale else scales(paper)
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(spec)
        made.rerun(Path(folder), paper, plan, scales=taken, seeds=seeds)
        sweeps = made.configured(paper).scales[scale].sweeps if scale else ()
        seeds = max([seeds, *(len(sweep.seeds) for sweep in sweeps)])
        stored = gather(Path(folder), paper).scopes[CLUSTER]
        gatherer, judge = Gatherer(stored, plan), Judge(spec, Path(folder), stored)
        tables, firsts = [], []
        for name in worlds:
            world, found = World(plan, name), []
            replace(world.draw(0), logs=world.logs).write_logs(Path(folder) / paper)
            truths = judge.truths(gatherer.truth(world))
            for number in range(draws):
                draw = world.draw(number)
                draw.write_logs(Path(folder) / paper)
                found.append(long(judge.verdicts(gatherer.gathered(draw))))
            tables.append(shares(found, world=name, seeds=seeds, truths=truths))
            firsts.append(first(found, name))
    return pd.concat(tables, ignore_index=True), pd.concat(firsts, ignore_index=True)
