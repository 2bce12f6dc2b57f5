"""The optional mirror of a training run in wandb. `metrics.jsonl` is authoritative; wandb repeats
it, with pass@k of every evaluation and some responses of the last evaluation.

One training run is one wandb run, however often it resumes; a training run that begins at the first
step gets a new one. wandb drops a row whose step is not above the last step, and the rows after a
checkpoint are such rows when a run resumes. So rows are sent without wandb's own step, and `step`
is only the x axis of the plots.
"""

import json
import secrets
import shutil
import socket
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd

from common.errors import UserError, require
from common.experiment import Experiment
from common.results.files import read_csv, read_jsonl, write

ID = "wandb_id.txt"  # in the run folder
SHOWN = 32  # responses of each benchmark in the table
COLUMNS = ("problem_id", "sample", "outcome", "parsed", "response")


def check(mode: str) -> None:
    """Raise UserError, before any compute, where wandb="online" has no login or no network."""
    if mode != "online":
        return
    import wandb

    remedy = "or set wandb=offline and `wandb sync` later"
    require(bool(wandb.api.api_key), "wandb", mode, f"there is no key; run `wandb login`, {remedy}")
    url = urlsplit(wandb.Settings().base_url)
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    try:
        socket.create_connection((url.hostname, port), timeout=10).close()
    except OSError as error:
        raise UserError(f"wandb={mode}: {url.hostname} cannot be reached; {remedy}") from error


def mirror(x: Experiment, folder: Path, start: int) -> Callable[[dict], None]:
    """Return a function that sends one row to wandb; with x.wandb "off" it does nothing, and wandb
    is not imported. `folder` is the run folder, and the run resumes from step `start`.

    "offline" writes below results_dir/wandb and needs no network. A resumed run begins a new file
    there with the rows until `start`. It replaces the old file, because `wandb sync` does not join
    two files. "online" needs a wandb login.
    """
    if x.wandb == "off":
        return lambda row: None
    import wandb

    place = Path(x.results_dir).resolve() / "wandb"
    place.mkdir(parents=True, exist_ok=True)
    name = _id(x.run_id, folder, start)
    if x.wandb == "offline":
        for old in place.glob(f"wandb/offline-run-*-{name}"):
            shutil.rmtree(old, ignore_errors=True)
    tracked = wandb.init(
        project=x.paper,
        id=name,
        name=x.run_id,
        resume="allow" if x.wandb == "online" else None,
        reinit="finish_previous",  # a worker does several runs; the default continues the first
        mode=x.wandb,
        config=asdict(x),
        dir=str(place),
    )
    tracked.define_metric("step")
    tracked.define_metric("*", step_metric="step")

    def send(row: dict) -> None:
        row = row | passes(folder, row["step"])
        if row["step"] == x.optim.steps and (found := responses(folder)):
            row["samples"] = wandb.Table(columns=["benchmark", *COLUMNS], data=found)
        tracked.log(row)

    if x.wandb == "offline":
        for row in _until(folder / "metrics.jsonl", start):
            send(row)
    return send


def passes(folder: Path, step: int) -> dict[str, float]:
    """Return {"pass@8/BENCHMARK": percent} for each k of the step's evaluation, empty if there was
    none."""
    file = folder / "eval" / f"step-{step:05d}.csv"
    rows = read_csv(file) if file.exists() else pd.DataFrame(columns=["metric"])
    rows = rows[rows["metric"].str.fullmatch(r"pass@\d+")]
    return {f"{row.metric}/{row.benchmark}": float(row.value) for row in rows.itertuples()}


def responses(folder: Path) -> list[list]:
    """Return the first SHOWN responses to each benchmark as rows of the table; none before the end
    of the run."""
    return [
        [file.name.removesuffix(".jsonl.gz"), *(row[name] for name in COLUMNS)]
        for file in sorted((folder / "samples").glob("*.jsonl.gz"))
        for row in read_jsonl(file)[:SHOWN]
    ]


def _id(run_id: str, folder: Path, start: int) -> str:
    """Return the id of the wandb run: the stored id if the run resumes, else a new one. wandb takes
    at most 64 characters."""
    file = folder / ID
    if start == 0 or not file.exists():
        write(file, f"{run_id[:50]}-{secrets.token_hex(4)}\n")
    return file.read_text().strip()


def _until(path: Path, step: int) -> list[dict]:
    """Return the rows of a training curve until `step`. Later rows may end in a line that a killed
    process has cut short."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            break
        rows += [row] if row["step"] <= step else []
    return rows
