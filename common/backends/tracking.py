"""The optional mirror of a training run's `metrics.jsonl` in wandb.

A run that resumes keeps its wandb run. wandb drops rows whose step is not above the last step, as
after a checkpoint, so rows are sent without wandb's own step, and `step` is only the x axis.
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

        remedy = "there is no key; run `wandb login`, or use wandb=offline and `wandb sync` later"
        require(bool(wandb.api.api_key), "wandb", mode, remedy)


def mirror(x: Experiment, folder: Path, start: int) -> Callable[[dict], None]:
    """Return a function that sends one row of the run in `folder` to wandb, or does nothing with
    x.wandb "off". "offline" writes below results_dir/wandb; a run that resumes from step `start`
    writes a new file with the rows until then, because `wandb sync` does not join two files."""
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
    """Return the stored id if the run resumes, else a new one of at most 64 characters."""
    file = folder / ID
    if start == 0 or not file.exists():
        write(file, f"{run_id[:50]}-{secrets.token_hex(4)}\n")
    return file.read_text().strip()
