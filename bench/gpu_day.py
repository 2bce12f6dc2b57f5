"""The first half hour on one GPU, and every further one.

    python -m bench.gpu_day [programme=mazes] [minutes=30] [workers=8] [results_dir=DIR]

`make gpu-day` calls it. programme=mazes runs the tests of tests/gpu and, where verl and vLLM are
installed, those of tests/cluster that take a GPU; bench.gpu; vLLM's benchmark on 1, 2 and 4 GPUs;
then the mazes of F-GRPO's second version (Table 4), cheapest row (experiment) first.
programme=ladder trains the study's Countdown at 10 M parameters, `workers` runs side by side. The
same command goes on where it stopped. Commit RESULTS/reference/gpu/<device>/ (docs/gpu.md). It
needs one NVIDIA GPU, the packages that docs/gpu.md names, and no network.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import util
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time

import pandas as pd
import torch
from transformers import Qwen2Config

from bench.command import circumstances
from bench.gpu import NAMES, ON_GPU, Plan, device, measured, require_gpu
from common.cli import guard
from common.config.files import ROOT
from common.config.words import options
from common.errors import one_of, require
from common.experiment import Experiment
from common.results.files import read_jsonl, write, write_csv, write_json
from common.results.tables import markdown
from common.sweeps.chosen import changed
from common.sweeps.plan import experiments, scales_of
from common.sweeps.reproduce import done, train
from common.sweeps.schedule import Scheduled, run_all

SUITES = {  # name -> arguments of pytest
    "tests/gpu": ("tests/gpu", "--ignore=tests/gpu/test_day.py"),
    "tests/cluster": ("tests/cluster/test_verl_on_cuda.py", "tests/cluster/test_verl_run.py"),
}
TESTS, BENCH, VLLM = 0.2, 0.4, 0.6  # shares of the time after which these parts have ended
START = (10.0, 60.0)  # pass@1 of a base model of the ladder on dev prompts, percent (docs/gpu.md)
# What vLLM's benchmark times: Qwen2.5-7B's sizes with random weights
SIZES = dict(zip(NAMES, (152_064, 3584, 28, 28, 4, 18_944), strict=True))
QWEN_7B = Qwen2Config(**SIZES, architectures=["Qwen2ForCausalLM"])
BATCHES = (1, 256)  # sequences at once
LATENCY = "bench latency --input-len=256 --output-len=256 --num-iters=3 --num-iters-warmup=1 "
LATENCY += "--load-format=dummy --dtype=bfloat16 --skip-tokenizer-init --disable-detokenize"


def main(words: list[str]) -> None:
    known = dict(programme="mazes", minutes="30", workers="8", results_dir="results")
    given = options(words, known)
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
    day.tell(f"commit {day.folder} (docs/gpu.md); the same command continues")
    failed = sum("FAILED" in line for line in day.said)
    require(not failed, "parts that failed", failed, f"see {day.folder}")


@dataclass
class Day:
    """One call of the command. At any moment `folder` has what the call has found so far."""

    runs: list[Experiment]
    results: Path  # below it is the folder to commit
    seconds: float
    workers: int
    plan: Plan  # of bench.gpu

    def __post_init__(self):
        self.start, self.said, self.about = time(), list[str](), device(self.plan)
        name = "".join(c if c.isalnum() else "-" for c in self.about["device"].lower()).strip("-")
        self.folder = self.results / "reference" / "gpu" / name
        self.tell(f"{self.about['device']}, {self.seconds / 60:.0f} minutes")

    def until(self, share: float = 1.0) -> float:
        """Return the time (Unix seconds) when this share of the call's time is over."""
        return self.start + share * self.seconds

    def tell(self, line: str) -> None:
        minutes, seconds = divmod(int(time() - self.start), 60)
        self.said.append(f"{minutes:3d}:{seconds:02d}  {line}")
        print(self.said[-1], flush=True)

    def attempt(self, what: str, part: Callable[..., str | None], *given) -> None:
        """Run one part and tell what it returns, or that it failed: the others have their time."""
        try:
            if said := part(*given):
                self.tell(f"{what}: {said}")
        except Exception as error:  # of any kind: the rest of the half hour must not be lost
            said = (str(error).splitlines() or [""])[0][:300]
            self.tell(f"{what}: FAILED, {type(error).__name__}: {said}")
        torch.cuda.empty_cache()

    def page(self, name: str) -> None:
        write_json(self.folder / f"{name}.json", circumstances() | self.about)
        said = "\n".join(f"    {line}" for line in self.said)
        page = f"# One GPU\n\n{progress(self.runs)}\nThe last call:\n\n{said}\n"
        write(self.folder / f"{name}.md", page)


def mazes(day: Day, suites: dict[str, Sequence[str]] = SUITES) -> None:
    for name, words in suites.items():
        day.attempt(name, tested, day, name, words)
    given = (day.plan, day.folder, "bench", day.until(BENCH))
    day.attempt("bench.gpu", lambda: f"{len(measured(*given))} measurements")
    day.attempt("vLLM", widths, day)
    for x in day.runs:
        if time() < day.until():
            day.attempt(x.label, lambda x=x: train(x, day.until()) or "done")
        day.attempt("tables", kept, day)
        day.page("summary")


def ladder(day: Day) -> None:
    """The base models, then those runs that start from one that passes the gate."""
    bases = [x for x in day.runs if x.optim.steps == 0]
    day.attempt("base models", side_by_side, bases, day.until(), day.workers)
    good = {x.seed for x in bases if passes(day, x)}
    rest = [x for x in day.runs if x.optim.steps > 0 and x.seed in good]
    day.attempt("rows", side_by_side, rest, day.until(), day.workers)
    if any(map(done, rest)):
        day.attempt("tables", tables_of_the_ladder, day)
    day.page("ladder")


PROGRAMMES = {"mazes": (mazes, "f_grpo", "gpu"), "ladder": (ladder, "study", "ladder")}


def tested(day: Day, name: str, words: Sequence[str]) -> str:
    needed = ("pytest", "verl", "vllm") if name == "tests/cluster" else ("pytest",)
    if lacking := [package for package in needed if util.find_spec(package) is None]:
        return f"not run without {', '.join(lacking)}"
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", *words]
    return called(day, name, command, TESTS)


def called(day: Day, name: str, command: Sequence[str], share: float) -> str:
    """Run a command until this share of the time is over and return its last line."""
    log = day.folder / f"{name.replace('/', '_')}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    env, limit = os.environ | {"CLUSTER_TESTS": "cuda"}, max(60.0, day.until(share) - time())
    with open(log, "w") as out:
        done = subprocess.run(command, cwd=ROOT, env=env, stdout=out, stderr=out, timeout=limit)
    last = (log.read_text().strip().splitlines() or ["no output"])[-1]
    require(done.returncode == 0, name, last, f"see {log}")
    return last


def widths(day: Day) -> str:
    """Time how long vLLMs on 1, 2 and 4 GPUs decode one sequence and many, with weights of 7B, to
    predict how many GPUs share an engine (common/sweeps/cost.py)."""
    program, rows = Path(sys.executable).with_name("vllm"), []
    if not program.exists():
        return "not run without vllm"
    with TemporaryDirectory() as folder:
        QWEN_7B.save_pretrained(folder)
        for width in (n for n in (1, 2, 4) if n <= torch.cuda.device_count()):
            for batch in BATCHES if time() < day.until(VLLM) else ():
                words = [f"--tensor-parallel-size={width}", f"--batch-size={batch}"]
                words += [f"--model={folder}", f"--output-json={folder}/took.json"]
                called(day, "vllm", [str(program), *LATENCY.split(), *words], VLLM)
                took = json.loads(Path(folder, "took.json").read_text())["avg_latency"]
                rows.append({"gpus": width, "sequences": batch, "seconds": took})
                write_csv(day.folder / "vllm.csv", pd.DataFrame(rows))
    return f"{len(rows)} measurements"


def side_by_side(runs: list[Experiment], end: float, workers: int) -> None:
    """Train `runs`, or continue them, until the time `end`, in `workers` processes that share the
    GPU; one worker is this process. Raises UserError that names the failed ones."""
    left = [x for x in runs if not done(x)]
    if workers > 1 and left:
        calls = [Scheduled(x.run_id, call=partial(train, x, end)) for x in left]
        run_all(calls, min(workers, len(left)))
    else:
        for x in left:
            train(x, end)


def passes(day: Day, x: Experiment) -> bool:
    path = x.path / "eval" / "step-00000.csv"
    if not path.exists():
        day.tell(f"{x.run_id}: no base model yet")
        return False
    value = pd.read_csv(path, index_col=["benchmark", "metric"])["value"]["dev_natural", "pass@1"]
    good = START[0] <= value <= START[1]
    if not good:
        day.tell(f"{x.run_id}: FAILED, pass@1 {value:.1f} % on dev prompts is outside {START}")
    return good


def kept(day: Day) -> None:
    """Write the rows, counts and provenance of the finished mazes to <folder>/<paper>/<scope>/."""
    from common.comparison.gather import Gathering, gather

    paper, scope = day.runs[0].paper, day.runs[0].scope
    found = gather(Path(day.runs[0].results_dir), paper).scopes
    Gathering({scope: found[scope]} if scope in found else {}).write(day.folder, paper)


def tables_of_the_ladder(day: Day) -> None:
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
