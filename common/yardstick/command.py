"""Every method of configs/method/ under one protocol.

    rlvr yardstick [protocol=yardstick] [results_dir=results] [workers=2] [budget=4h]
                   [seeds=1,2,3,4,5] [methods=all] [draw=yes] [key=value ...]

Trains each method on a laptop testbed (a model of 0.2 or 0.4 M parameters) with the settings of
configs/PROTOCOL.yaml, at two learning rates (papers/yardstick/configs/reproduce.yaml), and compares
the methods where it is fair: at matched pass@1. The protocols are:

    yardstick             Subset-Countdown, at the same learning rate and at an equalised effective
                          learning rate (times GRPO's largest weight over the method's)
    yardstick_countdown   the second edition, on either testbed: at the same learning rate and at a
    yardstick_maze        third of it, with more optimiser steps per rollout, an evaluation every 5
                          steps and three base models
    third_maze            the third edition, on either testbed: areas between frontiers at three
    third_countdown       learning rates, nine seeds from nine base models, positive controls first;
                          methods and seeds are fixed, and it runs at the lowest priority

`methods` takes names of methods and paths of your own .yaml files. Further key=value arguments
change every run. Finished runs are found by their hash and not repeated. A stopped command resumes
where it was. draw=only trains nothing and makes tables and figures of the finished runs.

    results/PROTOCOL/<run_id>/              the runs
    results/PROTOCOL/metrics.csv.gz            their result rows, and
    results/PROTOCOL/counts.csv.gz          their counts a problem
    results/PROTOCOL/{ranking,curves}.csv   what is compared, from these two files alone
    results/PROTOCOL/yardstick.md           the table, and figures/{frontier,gain}.{png,pdf,csv}

The third edition writes controls.{csv,md} after its first stage and, after each further stage,
ranking.csv, against_base.csv, yardstick.md and figures/areas. These leave out every stage that is
not complete, though its finished runs are in metrics.csv.gz and counts.csv.gz. On Countdown the
further stages have only the rates at which every control passes. The command resumes from its run
folders, or from tables without run folders: to continue on another machine, copy
results/reference/PROTOCOL/ to results/.
"""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from common.config.files import names
from common.config.words import split
from common.errors import UserError, one_of, require
from common.results.files import write, write_csv
from common.results.stored import run_ids
from common.yardstick import store
from common.yardstick.protocol import AGAINST_LOWER, PROTOCOLS, Protocol
from common.yardstick.third import EDITIONS, Third

if TYPE_CHECKING:
    import pandas as pd

    from common.experiment import Experiment
    from common.sweeps.plan import Reproduce
    from common.yardstick.ranking import Curve

OWN = {"protocol": "yardstick", "seeds": "", "methods": "all", "draw": "yes"}


def show(
    protocol: Protocol, folder: Path, runs: list[Experiment], refused: dict[str, str]
) -> list[str]:
    """Rank and draw the gathered runs. Return the names of the files that were made."""
    from common.yardstick import figures, table
    from common.yardstick import ranking as yardstick_ranking

    rows, counts = store.read(folder)
    finished = set(zip(rows["method"], rows["table"], strict=True))
    absent = {x.name: "no finished run" for x in runs if (x.label, x.table) not in finished}
    curves = yardstick_ranking.curves(rows, counts, protocol)
    ranking = yardstick_ranking.rank(curves, protocol)
    means = yardstick_ranking.means(curves)
    write_csv(folder / "ranking.csv", ranking)
    write_csv(folder / "curves.csv", means)
    write(folder / "yardstick.md", table.markdown(protocol, ranking, refused | absent))
    figures.frontier(protocol, means, folder / "figures" / "frontier")
    made = ["yardstick.md", "ranking.csv", "curves.csv", "figures/frontier.png"]
    if AGAINST_LOWER in protocol.rankings:
        figures.gain(protocol, ranking, folder / "figures" / "gain")
        made.append("figures/gain.png")
    return made


def show_third(edition: Third, folder: Path, stages: list[list[Experiment]]) -> list[str]:
    """Compare and draw the runs of these stages, which are complete. Return the names of the files
    that were made. After the first stage the controls, which are read on dev prompts, are shown
    alone: they may still change a testbed's rates and steps, and no number on test prompts may."""
    from common.yardstick import areas, controls, last, third_page

    rows, counts, drawn = _drawn(edition, folder, [x for runs in stages for x in runs])
    judged = controls.controls(drawn)
    if len(stages) == 1:
        write_csv(folder / "controls.csv", judged)
        write(folder / "controls.md", third_page.controls_part(judged))
        return ["controls.csv", "controls.md"]
    tables = {
        "ranking": areas.rank(drawn),
        "against_base": last.against_base(rows, counts),
        "controls": judged,
    }
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
    write(folder / "yardstick.md", third_page.markdown(edition, *tables.values()))
    third_page.figure(edition, tables["ranking"], folder / "figures" / "areas")
    return ["yardstick.md", *(f"{name}.csv" for name in tables), "figures/areas.png"]


def _drawn(
    edition: Third, folder: Path, runs: list[Experiment]
) -> tuple[pd.DataFrame, pd.DataFrame, list[Curve]]:
    """Return the result rows, counts and frontiers of these runs."""
    from common.yardstick.ranking import curves

    ids = [x.run_id for x in runs]
    rows, counts = (table[table["run_id"].isin(ids)] for table in store.read(folder))
    at_last = counts["step"] == counts.groupby("run_id")["step"].transform("max")
    start = counts["step"] == 0
    # the last evaluation draws more samples, so that it is no point of the frontier
    return rows, counts, curves(rows, counts[~at_last | start], edition.curves)


def third(edition: Third, given: dict[str, str], words: list[str]) -> None:
    """Run the third edition at idle priority, and make its tables after each stage."""
    from common.sweeps.plan import asked, changed
    from common.sweeps.reproduce import done, train_all
    from common.yardstick.controls import carries, controls
    from common.yardstick.ranking import OF_SAMPLES
    from common.yardstick.third import STAGES, at_rates, plan

    require(given["methods"] == "all", "methods", given["methods"], "the third edition fixes them")
    require(given["seeds"] == "", "seeds", given["seeds"], "the third edition fixes them")
    config, changes = asked("yardstick", [f"scale={edition.name}", *words])
    root, stages = Path(config.root), plan(changed(config, changes))
    every = [x for runs in stages for x in runs]
    folder, end = root / edition.name, config.seconds and time() + config.seconds
    stored, failed = run_ids(folder / store.FILES[0]), []

    def missing(runs: list[Experiment]) -> list[Experiment]:
        return [x for x in runs if x.run_id not in stored and not done(x)]

    def gathered() -> list[list[Experiment]]:
        """Gather the finished runs. Return the stages to run, as far as the controls say."""
        for reason in store.write(root, edition.name, every, OF_SAMPLES):
            print(f"left out: {reason}", file=sys.stderr)
        if edition.every_rate:
            return stages
        if missing(stages[0]):
            return stages[:1]
        *_, drawn = _drawn(edition, folder, stages[0])
        return at_rates(stages, carries(controls(drawn)))

    def show(planned: list[list[Experiment]]) -> None:
        whole = [*takewhile(lambda runs: not missing(runs), planned)]
        made = show_third(edition, folder, whole) if whole else ["no stage is whole"]
        print(f"{folder}: {', '.join(made)}")

    planned = gathered()
    if given["draw"] == "only":
        show(planned)
        return
    for place, name in enumerate(STAGES):
        if place == len(planned):
            print(f"{name}: not begun; it needs a rate at which every control passes")
            break
        runs = planned[place]
        left = missing(runs)
        print(f"{name}: {len(runs)} runs, {len(runs) - len(left)} done", flush=True)
        if not left:
            continue
        try:
            train_all(left, config.workers, end=end)
        except UserError as error:  # the other stages do not wait for it
            failed.append(str(error))
        planned = gathered()
        show(planned)
    if failed:
        raise UserError("\n".join(failed))
    if left := missing([x for runs in planned for x in runs]):
        print(f"budget={config.budget}: {len(left)} runs are left; again to go on")


def main(words: list[str]) -> None:
    from common.sweeps.plan import asked, changed
    from common.sweeps.reproduce import reproduce
    from common.yardstick.plan import plan

    given, others = split(words, OWN)
    require(given["draw"] in ("yes", "only"), "draw", given["draw"], "use yes or only")
    one_of("protocol", given["protocol"], {**PROTOCOLS, **EDITIONS})
    if given["protocol"] in EDITIONS:
        third(EDITIONS[given["protocol"]], given, others)
        return
    config, changes = asked("yardstick", [f"scale={given['protocol']}", *others])
    protocol = PROTOCOLS[config.scale]
    if given["seeds"]:
        config = changed(config, seeds=[_seed(text) for text in given["seeds"].split(",")])
    runs, refused = plan(protocol, config, _methods(given["methods"]), changes)
    for name, reason in refused.items():
        print(f"not run: {name}: {reason}", file=sys.stderr)

    def finish(config: Reproduce) -> None:
        root, folder = Path(config.root), Path(config.root) / protocol.name
        for reason in store.write(root, protocol.name, runs):
            print(f"left out: {reason}", file=sys.stderr)
        print(f"{folder}: {', '.join(show(protocol, folder, runs, refused))}")

    finish(config) if given["draw"] == "only" else reproduce(config, finish, runs)


def _methods(text: str) -> list[str]:
    known = names("method")
    methods = known if text == "all" else text.split(",")
    for name in methods:
        if not name.endswith(".yaml"):
            one_of("methods", name, known, "all, or a .yaml file")
    return methods


def _seed(text: str) -> int:
    require(text.isdigit() and int(text) > 0, "seeds", text, "give a whole number above 0")
    return int(text)
