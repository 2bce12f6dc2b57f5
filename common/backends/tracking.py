"""The optional mirror of a training run in wandb. `metrics.jsonl` is authoritative; wandb repeats
its rows.

One training run is one wandb run, however often it resumes; a training run that begins at the first
step gets a new one. wandb drops a row whose step is not above the last step, and the rows after a
checkpoint are such rows when a run resumes. So rows are sent without wandb's own step, and `step`
is only the x axis of the plots.
"""

import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from common.errors import require
from common.experiment import Experiment
from common.results.files import whole_rows, write

ID = "wandb_id.txt"  # in the run folder


def check(mode: str) -> None:
    """Raise UserError, before any compute, where wandb="online" has no login."""
    if mode == "online":
        import wandb

        remedy = "there is no key; run `wandb login`, or set wandb=offline and `wandb sync` later"
        require(bool(wandb.api.api_key), "wandb", mode, remedy)


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
    earlier = whole_rows(folder / "metrics.jsonl") if x.wandb == "offline" else []
    for row in earlier:
        if row["step"] <= start:
            tracked.log(row)
    return tracked.log


def _id(run_id: str, folder: Path, start: int) -> str:
    """Return the id of the wandb run: the stored id if the run resumes, else a new one. wandb takes
    at most 64 characters."""
    file = folder / ID
    if start == 0 or not file.exists():
        write(file, f"{run_id[:50]}-{secrets.token_hex(4)}\n")
    return file.read_text().strip()
