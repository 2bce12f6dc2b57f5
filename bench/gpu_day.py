"""The first half hour on one GPU, and every further one.

    python -m bench.gpu_day [programme=mazes] [minutes=30] [size=full] [workers=8] [results_dir=DIR]

`make gpu-day` calls it. programme=mazes runs three parts in this order: the tests of tests/gpu and,
where verl and vLLM are installed, those of tests/cluster that take a GPU (a whole run of
backend=verl with its evaluation); bench.gpu; then the mazes of F-GRPO's second version (Table 4),
cheapest row (experiment) first. programme=ladder trains the study's Countdown at 10 M parameters,
`workers` runs side by side. All runs save checkpoints, so that the same command goes on where it
stopped. The folder to commit (docs/gpu.md) is RESULTS/reference/gpu/<device>/, with summary.md or
ladder.md, speeds, versions, metrics and the samples' hashes.

It needs one NVIDIA GPU and the packages that docs/gpu.md names, but no network.
size=smallest runs all of it in a minute or two; none of its numbers means anything.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import util
from pathlib import Path
from time import time

import torch

from bench.command import circumstances
from bench.gpu import ON_GPU, SMOKE, Plan, device, measured, require_gpu
from bench.gpu_rows import gather, gather_ladder, runs, side_by_side, started, train
from common.backends.prompts import prompts
from common.cli import guard
from common.config.files import ROOT
from common.config.words import options
from common.errors import one_of, require
from common.results.files import write, write_json

WITH_VERL = ("tests/cluster/test_verl_on_cuda.py", "tests/cluster/test_verl_run.py")
TESTS, BENCH = 0.2, 0.45  # shares of the time after which tests and bench.gpu have ended


@dataclass(frozen=True)
class Size:
    scales: dict[str, str]  # programme -> a scale of the reproduce.yaml of its paper
    plan: Plan  # plan of bench.gpu
    tests: tuple[str, ...]  # arguments of pytest
    rows: int  # how many rows of the mazes to train at most, the cheapest first


PAPERS = {"mazes": "f_grpo", "ladder": "study"}  # programme -> paper
SIZES = {
    "full": Size(
        {"mazes": "gpu", "ladder": "ladder"},
        ON_GPU,
        ("tests/gpu", "--ignore=tests/gpu/test_day.py"),
        19,
    ),
    "smallest": Size(
        {"mazes": "gpu_smoke", "ladder": "ladder_smoke"},
        replace(SMOKE, device="cuda"),
        ("tests/gpu/test_training.py", "-k", "several"),
        3,
    ),
}


def main(words: list[str]) -> None:
    given = options(
        words,
        dict(programme="mazes", minutes="30", size="full", workers="8", results_dir="results"),
    )
    size = SIZES.get(given["size"])
    require(size is not None, "size", given["size"], f"use one of {', '.join(SIZES)}")
    one_of("programme", given["programme"], [*PAPERS])
    for key in ("minutes", "workers"):
        right = given[key].isdigit() and int(given[key]) > 0
        require(right, key, given[key], "give a whole number")
    require_gpu("bench.gpu_day")
    seconds, workers = 60.0 * int(given["minutes"]), int(given["workers"])
    Day(given["programme"], size, seconds, workers, Path(given["results_dir"])).run()


class Day:
    """One call of the command. At any moment `folder` has what the call has found so far."""

    def __init__(self, programme: str, size: Size, seconds: float, workers: int, results: Path):
        self.programme, self.workers = programme, workers
        self.size, self.seconds, self.start = size, seconds, time()
        about = device(size.plan)
        name = "".join(c if c.isalnum() else "-" for c in about["device"].lower()).strip("-")
        self.folder = results / "reference" / "gpu" / name
        found = runs(PAPERS[programme], size.scales[programme], results)
        self.runs = found[: size.rows] if programme == "mazes" else found
        self.said: list[str] = []

    def run(self) -> None:
        machine = {"mazes": "machine.json", "ladder": "ladder_machine.json"}[self.programme]
        write_json(self.folder / machine, circumstances() | device(self.size.plan))
        self.tell(f"{device(self.size.plan)['device']}, {self.seconds / 60:.0f} minutes")
        {"mazes": self.mazes, "ladder": self.ladder}[self.programme]()
        self.attempt("tables", self.keep)
        self.tell(f"{self.folder}: commit it (docs/gpu.md); the same command goes on")
        failed = [line for line in self.said if "FAILED" in line]
        require(not failed, "parts that failed", len(failed), f"look into {self.folder}")

    def mazes(self) -> None:
        self.attempt("tests/gpu", self.tests)
        self.attempt("bench.gpu", self.bench)
        for x in self.runs:
            self.keep()
            if time() < self.start + self.seconds:
                self.attempt(x.label, lambda x=x: self.tell(train(x, self.start + self.seconds)))

    def ladder(self) -> None:
        """Make the base models, then train from those that pass the gate, side by side."""
        end = self.start + self.seconds
        bases = [x for x in self.runs if x.optim.steps == 0]
        self.attempt("base models", lambda: side_by_side(bases, end, self.workers))
        self.attempt("tables", self.keep)
        good = started(bases, self.tell)
        rest = [x for x in self.runs if x.optim.steps > 0 and x.seed in good]
        self.attempt("rows", lambda: side_by_side(rest, end, self.workers))

    def tell(self, line: str) -> None:
        minutes, seconds = divmod(int(time() - self.start), 60)
        print(f"{minutes:3d}:{seconds:02d}  {line}", flush=True)
        self.said.append(f"{minutes}:{seconds:02d} {line}")

    def attempt(self, what: str, part: Callable[[], None]) -> None:
        """Run one part. If it fails, say so and leave the other parts their time."""
        try:
            part()
        except Exception as error:  # of any kind: the rest of the half hour must not be lost
            said = (str(error).splitlines() or [""])[0][:300]
            self.tell(f"{what}: FAILED, {type(error).__name__}: {said}")
        torch.cuda.empty_cache()

    def tests(self) -> None:
        """Run the tests in a process of their own while this process makes the mazes."""
        if util.find_spec("pytest") is None or not (ROOT / "tests").is_dir():
            self.tell("tests: not run, pytest is not installed")
            return
        suites = {"tests/gpu": self.size.tests}
        if self.size is SIZES["full"] and util.find_spec("verl") and util.find_spec("vllm"):
            suites["tests/cluster"] = WITH_VERL
        for name, words in suites.items():
            command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", *words]
            log = self.folder / f"{name.replace('/', '_')}.txt"
            with open(log, "w") as output:
                child = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=os.environ | {"CLUSTER_TESTS": "cuda"},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            try:
                prompts(self.runs[-1])  # the training mazes of all rows, kept for training
                child.wait(max(60.0, self.start + TESTS * self.seconds - time()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                self.tell(f"{name}: stopped, their share of the time is over")
                return
            lines = log.read_text().strip().splitlines() or ["no output"]
            self.tell(f"{name}: {'ok' if child.returncode == 0 else 'FAILED'}, {lines[-1]}")

    def bench(self) -> None:
        rows = measured(self.size.plan, self.folder, "bench", self.start + BENCH * self.seconds)
        self.tell(f"bench.gpu: {len(rows)} measurements")

    def keep(self) -> None:
        """Write what a reader needs of the runs so far, and the summary page."""
        name, kept = {
            "mazes": ("summary.md", gather),
            "ladder": ("ladder.md", gather_ladder),
        }[self.programme]
        page = kept(self.runs, self.folder)
        said = "\n".join(f"    {line}" for line in self.said)
        write(self.folder / name, f"# One GPU\n\n{page}\n\nThe last call:\n\n{said}\n")


if __name__ == "__main__":
    guard(lambda: main(sys.argv[1:]))
