"""The rows (experiments) of bench/gpu_day.py: training until a given time, and what is kept of the
runs."""

import json
from collections.abc import Callable
from pathlib import Path
from time import time

import pandas as pd

from common.experiment import Experiment
from common.results.files import read_jsonl, sha256, write_csv, write_json
from common.sweeps.chosen import changed
from common.sweeps.plan import experiments, scales_of
from common.sweeps.reproduce import done
from common.sweeps.reproduce import train as trained
from common.sweeps.schedule import Call, run_all

EVERY = 100  # steps between the points of the curve that is kept
START = (10.0, 60.0)  # pass@1 of a base model of the ladder on dev prompts, percent (docs/gpu.md)


def runs(paper: str, scale: str, results: Path) -> list[Experiment]:
    """Return the runs of the scale in their order."""
    config = scales_of(paper, f"scale={scale}", f"results_dir={results}")
    return experiments(changed(config, ["device=cuda"]))


def folder_of(x: Experiment) -> Path:
    return Path(x.results_dir) / x.paper / x.run_id


def steps_done(x: Experiment) -> int:
    curve = folder_of(x) / "metrics.jsonl"
    return len(read_jsonl(curve)) if curve.exists() else 0


def train(x: Experiment, end: float) -> str:
    """Train `x` until the time `end`, or continue its training. Return what became of it as a line.
    An evaluation that has begun is finished."""
    before, start = steps_done(x), time()
    word = trained(x, end) or "done"
    steps, seconds = steps_done(x) - before, time() - start
    per = f", {seconds / steps:.3g} s a step, evaluations among them" if steps else ""
    return f"{x.label}: {word}, step {steps_done(x)} of {x.optim.steps}{per}"


def side_by_side(runs: list[Experiment], end: float, workers: int) -> None:
    """Train `runs` until the time `end`, or continue their training, in `workers` processes that
    share the GPU; one worker is this process. Raises UserError that names the failed ones."""
    left = [x for x in runs if not done(x)]
    if workers > 1 and left:
        run_all([Call(x.run_id, trained, (x, end)) for x in left], min(workers, len(left)))
    else:
        for x in left:
            trained(x, end)


def started(runs: list[Experiment], tell: Callable[[str], None]) -> set[int]:
    """Return the seeds whose base model passes the gate (START), and tell each that does not."""
    good = set()
    for x in runs:
        path = folder_of(x) / "eval" / "step-00000.csv"
        if not path.exists():
            tell(f"{x.run_id}: no base model yet")
            continue
        rows = pd.read_csv(path).set_index(["benchmark", "metric"])["value"]
        value = rows["dev_natural", "pass@1"]
        if START[0] <= value <= START[1]:
            good.add(x.seed)
        else:
            tell(f"{x.run_id}: FAILED, pass@1 {value:.1f} % on dev prompts is outside {START}")
    return good


def gather_ladder(runs: list[Experiment], folder: Path) -> str:
    """Write the ladder's rows, counts and tables to <folder>/study_ladder/, and return the table of
    the page: how many seeds of each row are finished."""
    from papers.study.figures import tabulate

    if any(x.optim.steps and done(x) for x in runs):
        tabulate(Path(runs[0].results_dir), runs[0].paper, folder)
        tables = folder / runs[0].paper / "laptop"  # with runs.csv they would ask for run folders
        (tables / "runs.csv").rename(folder / "ladder_runs.csv")
    states: dict[tuple, list[int]] = {}
    for x in runs:
        states.setdefault((x.table, x.label, x.optim.steps), []).append(done(x))
    lines = ["| table | row | steps | seeds finished |", "| --- | --- | ---: | ---: |"]
    for named, found in states.items():
        lines.append(f"| {' | '.join(map(str, named))} | {sum(found)} of {len(found)} |")
    return "\n".join(lines)


def gather(runs: list[Experiment], folder: Path) -> str:
    """Write runs.csv, metrics.csv, curves.csv and samples.json of the runs that exist, and return
    the table of the page."""
    states, metrics, curves, hashes = [], [], [], {}
    for x in runs:
        run = folder_of(x)
        if not run.exists():
            continue
        states.append(
            dict(row=x.label, run_id=x.run_id, step=steps_done(x), steps=x.optim.steps)
            | dict(state="done" if done(x) else "unfinished")
        )
        for path in sorted((run / "eval").glob("step-?????.csv")):
            metrics.append(pd.read_csv(path))
            counts = path.with_name(f"{path.stem}-counts.csv")
            hashes[f"{x.run_id}/{counts.name}"] = sha256(counts.read_bytes())
        for path in sorted((run / "samples").glob("*")):
            hashes[f"{x.run_id}/samples/{path.name}"] = sha256(path.read_bytes())
        if steps_done(x):
            curve = pd.DataFrame(read_jsonl(run / "metrics.jsonl")).assign(run_id=x.run_id)
            curves.append(curve[(curve.step % EVERY == 0) | (curve.step == curve.step.max())])
        if (run / "meta.json").exists():
            write_json(folder / f"{x.run_id}.json", json.loads((run / "meta.json").read_text()))
    table = pd.DataFrame(states, columns=["row", "run_id", "step", "steps", "state"])
    write_csv(folder / "runs.csv", table)
    write_json(folder / "samples.json", hashes)
    for name, frames in (("metrics", metrics), ("curves", curves)):
        if frames:
            write_csv(folder / f"{name}.csv", pd.concat(frames, ignore_index=True))
    return page(table, pd.concat(metrics, ignore_index=True) if metrics else None)


def page(table: pd.DataFrame, metrics: pd.DataFrame | None) -> str:
    """Return a table with a line per row: how far it is, and pass@k of its last evaluation in
    percent."""
    lines = ["| row | step | state | last evaluation |", "| --- | --- | --- | --- |"]
    for row in table.itertuples():
        said = ""
        if metrics is not None and (mine := metrics[metrics.run_id == row.run_id]).size:
            last = mine[(mine.step == mine.step.max()) & mine.metric.str.startswith("pass@")]
            found = [f"{one.metric} {one.value:.1f}" for one in last.itertuples()]
            said = f"step {last.step.max()}: {', '.join(found)}"
        lines.append(f"| {row.row} | {row.step} of {row.steps} | {row.state} | {said} |")
    return "\n".join(lines)
