"""Every method of configs/method/ under one protocol: `make yardstick`.

    python -m common.yardstick [results_dir=results] [workers=2] [seeds=1,2,3,4,5] [methods=all]
                               [draw=yes] [key=value ...]

Trains each method on the laptop testbed (Subset-Countdown, a model of 0.4 M parameters) with the
settings of configs/yardstick.yaml, at the same learning rate and at equalised effective learning
rate (times the ratio of GRPO's largest weight to the method's), and compares them where it is fair:
at matched pass@1. `methods` takes names and .yaml files of your own. Further key=value words change
every run. Finished runs are found by their hash and not repeated; a stopped command resumes where
it was. draw=only trains nothing.

    results/yardstick/<run_id>/              the runs
    results/yardstick/metrics.csv            their result rows, and
    results/yardstick/counts.csv.gz          their counts a problem
    results/yardstick/{ranking,curves}.csv   what is compared, from these two files alone
    results/yardstick/yardstick.md           the table, and figures/frontier.{png,pdf,csv}
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from common.cli import guard
from common.config.compose import names
from common.config.words import split
from common.errors import UserError, require
from common.results.files import write, write_csv
from common.yardstick.gather import gather, read
from common.yardstick.plan import PAPER, plan

if TYPE_CHECKING:
    from common.experiment import Experiment

OWN = {
    "results_dir": "results",
    "workers": "2",
    "seeds": "1,2,3,4,5",
    "methods": "all",
    "draw": "yes",
}


def show(root: Path, runs: list[Experiment], refused: dict[str, str]) -> None:
    """Rank and draw what is gathered."""
    from common.yardstick import figures, table
    from common.yardstick import ranking as yardstick_ranking

    folder = root / PAPER
    rows, counts = read(root)
    finished = set(zip(rows["method"], rows["table"], strict=True))
    absent = {x.name: "no finished run" for x in runs if (x.label, x.table) not in finished}
    curves = yardstick_ranking.curves(rows, counts)
    ranking = yardstick_ranking.rank(curves)
    means = yardstick_ranking.means(curves)
    write_csv(folder / "ranking.csv", ranking)
    write_csv(folder / "curves.csv", means)
    write(folder / "yardstick.md", table.markdown(ranking, refused | absent))
    figures.frontier(means, folder / "figures" / "frontier")


def command(words: list[str]) -> None:
    if {"-h", "--help"} & set(words):
        print(__doc__.strip())
        return
    given, overrides = split(words, OWN)
    root = Path(given["results_dir"])
    workers = int(_number("workers", given["workers"]))
    seeds = [_number("seeds", seed) for seed in given["seeds"].split(",")]
    require(given["draw"] in ("yes", "only"), "draw", given["draw"], "use yes or only")
    known = names("method")
    methods = known if given["methods"] == "all" else given["methods"].split(",")
    for name in methods:
        ours = name in known or name.endswith(".yaml")
        require(ours, "methods", name, f"use all, a .yaml file or some of {', '.join(known)}")
    runs, refused = plan(methods, seeds, [*overrides, f"results_dir={root}"])
    for name, reason in refused.items():
        print(f"not run: {name}: {reason}", file=sys.stderr)
    failure = None if given["draw"] == "only" else _train(runs, workers)
    for reason in gather(root, {x.run_id for x in runs}):
        print(f"left out: {reason}", file=sys.stderr)
    show(root, runs, refused)
    print(f"{root / PAPER}: yardstick.md, ranking.csv, curves.csv, figures/frontier.png")
    if failure is not None:
        raise failure


def _train(runs: list[Experiment], workers: int) -> UserError | None:
    """All runs; the error that names those that failed, for after the rest has been ranked."""
    from common.sweeps.reproduce import train
    from common.sweeps.schedule import run_all

    try:
        base, *rest = [(x.run_id, train, (x,)) for x in runs]  # the first makes the model of all
        run_all([base], workers, then=rest)
    except UserError as error:
        return error
    return None


def _number(key: str, text: str) -> int:
    require(text.isdigit() and int(text) > 0, key, text, "give a whole number above 0")
    return int(text)


if __name__ == "__main__":
    guard(lambda: command(sys.argv[1:]))
