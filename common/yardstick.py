"""Every method of configs/method/ under one protocol: `make yardstick`.

    python -m common.yardstick [results_dir=results] [workers=2] [seeds=1,2,3,4,5] [methods=all]
                               [draw=yes] [key=value ...]

Trains each method on the laptop testbed (Subset-Countdown, a model of 0.4 M parameters) with the
settings of configs/yardstick.yaml, at the same learning rate and at equalised effective learning
rate (times the ratio of GRPO's largest weight to the method's), and compares them where it is fair:
at matched pass@1. Further key=value words change every run. Finished runs are found by their hash
and not repeated; a stopped command goes on where it was. draw=only trains nothing.

    results/yardstick/<run_id>/              the runs
    results/yardstick/metrics.csv            their result rows, and
    results/yardstick/counts.csv.gz          their counts a problem
    results/yardstick/{ranking,curves}.csv   what is compared, from these two files alone
    results/yardstick/yardstick.md           the table, and figures/frontier.{png,pdf,csv}
"""

from __future__ import annotations

import gzip
import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from common.cli import ROOT, guard
from common.errors import UserError, require
from common.results import COLUMNS, collect, read_csv, write, write_csv

if TYPE_CHECKING:
    import pandas as pd

    from common.experiment import Experiment

PAPER = "yardstick"
CONFIGS = ".."  # of `common.cli`: configs/ itself, where a paper's name would mean papers/<paper>
REFERENCE = "grpo"
BASE = "base"
PLAIN, EQUALISED, BOTH = "plain", "equalised", "both"  # the `table` of the rows
OWN = {
    "results_dir": "results",
    "workers": "2",
    "seeds": "1,2,3,4,5",
    "methods": "all",
    "draw": "yes",
}


def plan(
    methods: Iterable[str], seeds: Iterable[int], overrides: list[str]
) -> tuple[list[Experiment], dict[str, str]]:
    """Every run, and the methods that this backend refuses with the reason.

    Seed by seed, so that a command that is stopped has compared all methods on the seeds that it
    reached; the base model and the reference come first.
    """
    reference, refused = _load(REFERENCE, overrides), {}
    fewest = reference.eval.curve_n
    require(fewest >= 256, "eval.curve_n", fewest, "pass@256 is compared at every checkpoint")
    untrained = replace(reference.optim, steps=0)
    once = [replace(reference, name=BASE, label=BASE, optim=untrained), reference]
    for method in methods:
        if method == REFERENCE:
            continue
        try:
            once += _rates(_load(method, overrides), reference)
        except UserError as error:
            refused[method] = str(error)
    return [replace(x, seed=seed) for seed in seeds for x in once], refused


def _load(method: str, overrides: list[str]) -> Experiment:
    from common.cli import compose
    from common.experiment import Experiment, strict

    return strict(Experiment, compose(CONFIGS, [f"method={method}", *overrides], "yardstick"))


def _rates(x: Experiment, reference: Experiment) -> list[Experiment]:
    """The method at the same learning rate and at the equalised one; one run where they
    coincide. Raises UserError where method and experiment do not fit."""
    from common import method

    method.check(x.method, x.sampling.group_size, x.reward)
    bound, size = method.bind(x.method), x.sampling.group_size
    if bound.controller is None:  # which would change the weights from step to step
        theirs = method.largest_weight(method.bind(reference.method), size, x.reward, {})
        own = method.largest_weight(bound, size, x.reward, {})
        if math.isclose(own, theirs, rel_tol=1e-4):  # epsilons of the normalisers apart
            return [replace(x, table=BOTH)]
    optim = replace(x.optim, equalise_to=reference.method.advantage)
    other = replace(x, table=EQUALISED, name=f"{x.name}_equalised", optim=optim)
    return [replace(x, table=PLAIN), other]


def gather(root: Path, run_ids: set[str]) -> list[str]:
    """Write metrics.csv and counts.csv.gz of those runs that are finished; returns what was left
    out. Without any run nothing is written, so tables that came without their runs
    (results/reference/) stay."""
    import pandas as pd

    rows, left_out = collect(root, PAPER, "laptop")
    rows = rows[rows["run_id"].isin(run_ids)]
    if rows.empty:
        return left_out
    folder = root / PAPER
    counts = pd.concat([_counts(folder / name) for name in rows["run_id"].unique()])
    write_csv(folder / "metrics.csv", rows)
    text = counts.to_csv(index=False, lineterminator="\n")
    write(folder / "counts.csv.gz", gzip.compress(text.encode(), mtime=0))
    return left_out


def _counts(run: Path) -> pd.DataFrame:
    """Every checkpoint's counts of one run: run_id, step, benchmark, problem_id, n, c, distinct."""
    import pandas as pd

    frames = [
        pd.read_csv(path, dtype={"problem_id": str}).assign(
            run_id=run.name, step=int(path.name[5:10])
        )
        for path in sorted((run / "eval").glob("step-?????-counts.csv"))
    ]
    columns = ["run_id", "step", "benchmark", "problem_id", "n", "c", "distinct"]
    return pd.concat(frames)[columns]


def read(root: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The gathered (rows, counts). Raises UserError where there are none."""
    import pandas as pd

    folder = root / PAPER
    rows = read_csv(folder / "metrics.csv", COLUMNS)
    return rows, pd.read_csv(folder / "counts.csv.gz", dtype={"problem_id": str})


def show(root: Path, runs: list[Experiment], refused: dict[str, str]) -> None:
    """Rank and draw what is gathered."""
    from common import yardstick_figures, yardstick_page, yardstick_ranking

    folder = root / PAPER
    rows, counts = read(root)
    finished = set(zip(rows["method"], rows["table"], strict=True))
    absent = {x.name: "no finished run" for x in runs if (x.label, x.table) not in finished}
    curves = yardstick_ranking.curves(rows, counts)
    ranking = yardstick_ranking.rank(curves)
    means = yardstick_ranking.means(curves)
    write_csv(folder / "ranking.csv", ranking)
    write_csv(folder / "curves.csv", means)
    write(folder / "yardstick.md", yardstick_page.markdown(ranking, refused | absent))
    yardstick_figures.frontier(means, folder / "figures" / "frontier")


def command(words: list[str]) -> None:
    if {"-h", "--help"} & set(words):
        print(__doc__.strip())
        return
    given = dict(word.partition("=")[::2] for word in words)
    own = OWN | {key: value for key, value in given.items() if key in OWN}
    overrides = [word for word in words if word.partition("=")[0] not in OWN]
    root = Path(own["results_dir"])
    workers = int(_number("workers", own["workers"]))
    seeds = [_number("seeds", seed) for seed in own["seeds"].split(",")]
    require(own["draw"] in ("yes", "only"), "draw", own["draw"], "use yes or only")
    known = sorted(file.stem for file in (ROOT / "configs" / "method").glob("[!_]*.yaml"))
    methods = known if own["methods"] == "all" else own["methods"].split(",")
    for name in methods:
        require(name in known, "methods", name, f"use all or some of {', '.join(known)}")
    runs, refused = plan(methods, seeds, [*overrides, f"results_dir={root}"])
    for name, reason in refused.items():
        print(f"not run: {name}: {reason}", file=sys.stderr)
    failure = None if own["draw"] == "only" else _train(runs, workers)
    for reason in gather(root, {x.run_id for x in runs}):
        print(f"left out: {reason}", file=sys.stderr)
    show(root, runs, refused)
    print(f"{root / PAPER}: yardstick.md, ranking.csv, curves.csv, figures/frontier.png")
    if failure is not None:
        raise failure


def _train(runs: list[Experiment], workers: int) -> UserError | None:
    """All runs; the error that names those that failed, for after the rest has been ranked."""
    from common.reproduce import train
    from common.schedule import run_all

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
