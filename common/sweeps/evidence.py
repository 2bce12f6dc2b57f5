"""Trains more seeds of every row of the papers' laptop scales, unattended.

    rlvr evidence [papers=all] [scales=full,laptop_maze] [seeds=10] [rows=all] [workers=2]
                  [budget=8h] [results_dir=results]

The runs are the same as in `rlvr reproduce paper=NAME scale=...`. Each row (a named experiment;
`rows` selects some of them) runs with the seeds 1 to `seeds`, or with a range such as seeds=6-10.
Finished runs are not repeated, and either command resumes what the other began. The order is seed
by seed, with all papers and both testbeds in each seed: whenever the command is stopped, the seeds
that it has passed are complete. It runs at the lowest priority. `rlvr reproduce paper=NAME
scale=...` then makes the tables, and `rlvr join` adds them to the stored tables.

Seeds 1 to 5 start from the base model of those scales. Seeds 6 to 9 start from two further base
models in turn, as the stored runs did. From seed 10 on, every seed starts from a base model of its
own, so that seeds are independent.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from time import time

from common.config.files import papers as all_papers
from common.config.words import options
from common.errors import one_of, require
from common.experiment import Experiment
from common.sweeps.plan import base_of, changed, experiments, scales_of
from common.sweeps.reproduce import done, train_all

WORDS = {
    "papers": "all",
    "scales": "full,laptop_maze",
    "seeds": "10",
    "rows": "all",
    "workers": "2",
    "budget": "",
    "results_dir": "results",
}


def runs(
    papers: Sequence[str], scales: Sequence[str], seeds: Sequence[int], *more: str
) -> list[Experiment]:
    """Return every run, checked and in the order of seeds. `more`: further key=value
    arguments of `papers.<paper>.reproduce`."""
    found: dict[str, Experiment] = {}
    for paper in papers:
        for scale in scales:
            config = changed(scales_of(paper, f"scale={scale}", *more), seeds=seeds)
            for x in map(base_of, experiments(config)):
                found.setdefault(f"{paper}/{x.run_id}", x)
    return sorted(found.values(), key=lambda x: (x.seed, x.optim.steps > 0))


def main(words: list[str]) -> None:
    given = options(words, WORDS)
    papers = all_papers() if given["papers"] == "all" else given["papers"].split(",")
    for paper in papers:
        one_of("papers", paper, all_papers(), "all")
    workers = given["workers"]
    require(workers.isdecimal() and int(workers) > 0, "workers", workers, "give a number above 0")
    more = [f"{name}={given[name]}" for name in ("workers", "results_dir", "budget") if given[name]]
    asked = runs(papers, given["scales"].split(","), _seeds(given["seeds"]), *more)
    if given["rows"] != "all":
        known, rows = {x.name for x in asked}, given["rows"].split(",")
        unknown = ", ".join(sorted(set(rows) - known))
        require(not unknown, "rows", unknown, f"use all or some of {', '.join(sorted(known))}")
        asked = [x for x in asked if x.name in rows]
    left = [x for x in asked if not done(x)]
    print(f"{len(asked)} runs, {len(asked) - len(left)} done", flush=True)
    give_way()
    seconds = scales_of(papers[0], *more).seconds
    end = None if seconds is None else time() + seconds
    train_all(asked, int(workers), end=end)
    still = sum(not done(x) for x in asked)
    if still:
        print(f"budget={given['budget']}: {still} of {len(asked)} runs are left; again to go on")


def _seeds(text: str) -> range:
    """Return the seeds that `text` names: "10" means 1 to 10, "6-10" means 6 to 10."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)", text)
    first, last = (int(match[1] or 1), int(match[2])) if match else (0, 0)
    require(0 < first <= last, "seeds", text, "give how many, as 10, or from one to one, as 6-10")
    return range(first, last + 1)


def give_way() -> None:
    """Give this process, and those that it starts, the lowest priority on this machine."""
    os.nice(19)
    group = Path("/proc/self/autogroup")  # where Linux groups by session, nice acts only inside it
    if group.exists():
        group.write_text("19")
