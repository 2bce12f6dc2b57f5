"""The first half hour on one GPU, and every further one.

    python -m bench.gpu_day [programme=mazes] [minutes=30] [workers=8] [results_dir=DIR]

`make gpu-day` calls it. programme=mazes runs three parts in this order: the tests of tests/gpu and,
where verl and vLLM are installed, those of tests/cluster that take a GPU (a whole run of
backend=verl with its evaluation); bench.gpu; then the mazes of F-GRPO's second version (Table 4),
cheapest row (experiment) first. programme=ladder trains the study's Countdown at 10 M parameters,
`workers` runs side by side. All runs save checkpoints, so that the same command goes on where it
stopped. The folder to commit (docs/gpu.md) is RESULTS/reference/gpu/<device>/, with summary.md or
ladder.md, speeds, versions, and the results of the finished runs.

It needs one NVIDIA GPU and the packages that docs/gpu.md names, but no network.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from time import time

import pandas as pd
import torch

from bench.command import circumstances
from bench.gpu import ON_GPU, Plan, device, measured, require_gpu
from common.cli import guard
from common.config.files import ROOT
from common.config.words import options
from common.errors import one_of, require
from common.experiment import Experiment
from common.results.files import read_jsonl, write, write_json
from common.results.tables import markdown
from common.sweeps.chosen import changed
from common.sweeps.plan import experiments, scales_of
from common.sweeps.reproduce import done, train
from common.sweeps.schedule import Call, run_all

SUITES = {  # name -> arguments of pytest
    "tests/gpu": ("tests/gpu", "--ignore=tests/gpu/test_day.py"),
    "tests/cluster": ("tests/cluster/test_verl_on_cuda.py", "tests/cluster/test_verl_run.py"),
}
TESTS, BENCH = 0.2, 0.45  # shares of the time after which tests and bench.gpu have ended
START = (10.0, 60.0)  # pass@1 of a base model of the ladder on dev prompts, percent (docs/gpu.md)


def main(words: list[str]) -> None:
    given = options(
        words, dict(programme="mazes", minutes="30", workers="8", results_dir="results")
    )
    one_of("programme", given["programme"], [*PROGRAMMES])
    for key in ("minutes", "workers"):
        right = given[key].isdigit() and int(given[key]) > 0
        require(right, key, given[key], "give a whole number")
    require_gpu("bench.gpu_day")
    part, paper, scale = PROGRAMMES[given["programme"]]
    config = scales_of(paper, f"scale={scale}", f"results_dir={given['results_dir']}")
    runs = experiments(changed(config, ["device=cuda"]))
    minutes, workers = int(given["minutes"]), int(given["workers"])
    day = Day(runs, Path(given["results_dir"]), 60.0 * minutes, workers, ON_GPU)
    part(day)
    day.end()


@dataclass
class Day:
    """One call of the command. At any moment `folder` has what the call has found so far."""

    runs: list[Experiment]
    results: Path  # below it is the folder to commit
    seconds: float
    workers: int
    plan: Plan  # of bench.gpu

    def __post_init__(self):
        self.start, self.said = time(), list[str]()
        about = device(self.plan)
        name = "".join(c if c.isalnum() else "-" for c in about["device"].lower()).strip("-")
        self.folder = self.results / "reference" / "gpu" / name
        self.tell(f"{about['device']}, {self.seconds / 60:.0f} minutes")

    def until(self, share: float = 1.0) -> float:
        """Return the time (Unix seconds) when this share of the call's time is over."""
        return self.start + share * self.seconds

    def tell(self, line: str) -> None:
        minutes, seconds = divmod(int(time() - self.start), 60)
        print(f"{minutes:3d}:{seconds:02d}  {line}", flush=True)
        self.said.append(f"{minutes}:{seconds:02d} {line}")

    def attempt(self, what: str, part: Callable[[], str | None]) -> None:
        """Run one part and tell what it returns. If it fails, say so and leave the other parts
        their time."""
        try:
            if said := part():
                self.tell(f"{what}: {said}")
        except Exception as error:  # of any kind: the rest of the half hour must not be lost
            said = (str(error).splitlines() or [""])[0][:300]
            self.tell(f"{what}: FAILED, {type(error).__name__}: {said}")
        torch.cuda.empty_cache()

    def end(self) -> None:
        self.tell(f"{self.folder}: commit it (docs/gpu.md); the same command goes on")
        failed = [line for line in self.said if "FAILED" in line]
        require(not failed, "parts that failed", len(failed), f"look into {self.folder}")

    def page(self, name: str) -> None:
        """Write the page `name`, with how far each row is, and the machine."""
        write_json(self.folder / f"{name}.json", circumstances() | device(self.plan))
        said = "\n".join(f"    {line}" for line in self.said)
        page = f"# One GPU\n\n{progress(self.runs)}\nThe last call:\n\n{said}\n"
        write(self.folder / f"{name}.md", page)


def mazes(day: Day, suites: dict[str, Sequence[str]] = SUITES) -> None:
    """Tests, speed, then one run after another."""
    for name, words in suites.items():
        day.attempt(name, lambda name=name, words=words: tested(day, name, words))
    day.attempt(
        "bench.gpu",
        lambda: f"{len(measured(day.plan, day.folder, 'bench', day.until(BENCH)))} measurements",
    )
    for x in day.runs:
        if time() < day.until():
            day.attempt(x.label, lambda x=x: train(x, day.until()) or "done")
        day.attempt("tables", lambda: kept(day))
        day.page("summary")


def ladder(day: Day) -> None:
    """The base models, then those runs that start from one that passes the gate."""
    bases = [x for x in day.runs if x.optim.steps == 0]
    day.attempt("base models", lambda: side_by_side(bases, day.until(), day.workers))
    good = {x.seed for x in bases if passes(day, x)}
    rest = [x for x in day.runs if x.optim.steps > 0 and x.seed in good]
    day.attempt("rows", lambda: side_by_side(rest, day.until(), day.workers))
    if any(map(done, rest)):
        day.attempt("tables", lambda: tables_of_the_ladder(day))
    day.page("ladder")


PROGRAMMES = {"mazes": (mazes, "f_grpo", "gpu"), "ladder": (ladder, "study", "ladder")}


def tested(day: Day, name: str, words: Sequence[str]) -> str:
    """Run tests in a process of their own and return their last line."""
    needed = ("pytest", "verl", "vllm") if name == "tests/cluster" else ("pytest",)
    if lacking := [package for package in needed if util.find_spec(package) is None]:
        return f"not run without {', '.join(lacking)}"
    log = day.folder / f"{name.replace('/', '_')}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as output:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", *words],
            cwd=ROOT,
            env=os.environ | {"CLUSTER_TESTS": "cuda"},
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=max(60.0, day.until(TESTS) - time()),
        )
    last = (log.read_text().strip().splitlines() or ["no output"])[-1]
    require(done.returncode == 0, "tests", last, f"see {log}")
    return last


def side_by_side(runs: list[Experiment], end: float, workers: int) -> None:
    """Train `runs` until the time `end`, or continue their training, in `workers` processes that
    share the GPU; one worker is this process. Raises UserError that names the failed ones."""
    left = [x for x in runs if not done(x)]
    if workers > 1 and left:
        run_all([Call(x.run_id, train, (x, end)) for x in left], min(workers, len(left)))
    else:
        for x in left:
            train(x, end)


def passes(day: Day, x: Experiment) -> bool:
    """Return whether a base model passes the gate (START), and tell if it does not."""
    path = x.path / "eval" / "step-00000.csv"
    if not path.exists():
        day.tell(f"{x.run_id}: no base model yet")
        return False
    rows = pd.read_csv(path).set_index(["benchmark", "metric"])["value"]
    value = rows["dev_natural", "pass@1"]
    if not START[0] <= value <= START[1]:
        day.tell(f"{x.run_id}: FAILED, pass@1 {value:.1f} % on dev prompts is outside {START}")
        return False
    return True


def kept(day: Day) -> None:
    """Write the rows, counts and provenance of the finished mazes to <folder>/<paper>/<scope>/."""
    from common.comparison.gather import Gathering, gather

    paper, scope = day.runs[0].paper, day.runs[0].scope
    found = gather(Path(day.runs[0].results_dir), paper).scopes
    Gathering({scope: found[scope]} if scope in found else {}).write(day.folder, paper)


def tables_of_the_ladder(day: Day) -> None:
    """Write the ladder's rows, counts and tables to <folder>/study_ladder/."""
    from papers.study.figures import tabulate

    paper = day.runs[0].paper
    tabulate(Path(day.runs[0].results_dir), paper, day.folder)
    tables = day.folder / paper / "laptop"  # with runs.csv they would ask for run folders
    (tables / "runs.csv").rename(day.folder / "ladder_runs.csv")


def progress(runs: list[Experiment]) -> str:
    """Return a table with a line per row: how many of its seeds are finished, and the furthest."""
    rows: dict[tuple, list[Experiment]] = {}
    for x in runs:
        rows.setdefault((x.table, x.label, x.optim.steps), []).append(x)
    lines = []
    for named, found in rows.items():
        curves = (x.path / "metrics.jsonl" for x in found)
        furthest = max(len(read_jsonl(curve)) if curve.exists() else 0 for curve in curves)
        lines.append([*named, furthest, f"{sum(map(done, found))} of {len(found)}"])
    return markdown(["table", "row", "steps", "furthest", "seeds finished"], lines, "llrrr")


if __name__ == "__main__":
    guard(lambda: main(sys.argv[1:]))
