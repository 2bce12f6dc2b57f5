"""Every method of configs/method/ under one protocol.

    rlvr yardstick [protocol=yardstick] [results_dir=results] [workers=2] [budget=4h]
                   [seeds=1,2,3,4,5] [methods=all] [draw=yes] [key=value ...]

Trains each method on a laptop testbed (a model of 0.4 M parameters) with the settings of
configs/PROTOCOL.yaml, at two learning rates (papers/yardstick/configs/reproduce.yaml), and compares
them where it is fair: at matched pass@1.

    yardstick             Subset-Countdown, at the same learning rate and at equalised effective
                          learning rate (times GRPO's largest weight over the method's)
    yardstick_countdown   the second edition: at the same learning rate and at a third of it; more
    yardstick_maze        optimiser steps a rollout, points every 5 steps, three base models; on
                          either testbed

`methods` takes names and .yaml files of your own. Further key=value words change
every run. Finished runs are found by their hash and not repeated; a stopped command resumes where
it was. draw=only trains nothing.

    results/PROTOCOL/<run_id>/              the runs
    results/PROTOCOL/metrics.csv            their result rows, and
    results/PROTOCOL/counts.csv.gz          their counts a problem
    results/PROTOCOL/{ranking,curves}.csv   what is compared, from these two files alone
    results/PROTOCOL/yardstick.md           the table, and figures/{frontier,gain}.{png,pdf,csv}
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from common.config.files import names
from common.config.words import split
from common.errors import one_of, require
from common.results.files import write, write_csv
from common.yardstick import store
from common.yardstick.protocol import AGAINST_LOWER, PROTOCOLS, Protocol

if TYPE_CHECKING:
    from common.experiment import Experiment
    from common.sweeps.plan import Reproduce

OWN = {"protocol": "yardstick", "seeds": "", "methods": "all", "draw": "yes"}


def show(
    protocol: Protocol, folder: Path, runs: list[Experiment], refused: dict[str, str]
) -> list[str]:
    """Rank and draw what is gathered; the names of what was made."""
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


def main(words: list[str]) -> None:
    from common.sweeps.plan import asked, changed
    from common.sweeps.reproduce import reproduce
    from common.yardstick.plan import plan

    given, others = split(words, OWN)
    require(given["draw"] in ("yes", "only"), "draw", given["draw"], "use yes or only")
    one_of("protocol", given["protocol"], PROTOCOLS)
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
