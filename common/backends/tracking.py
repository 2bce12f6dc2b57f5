"""The optional mirror: `metrics.jsonl` is the truth, wandb repeats it when asked."""

from collections.abc import Callable
from pathlib import Path


def mirror(
    mode: str, paper: str, run_id: str, config: dict, folder: Path
) -> Callable[[dict], None]:
    """A function that sends one row to wandb; with mode "off" it does nothing and wandb is not
    imported.

    "offline" writes below `folder`/wandb and needs no network; "online" needs a wandb login.
    """
    if mode == "off":
        return lambda row: None
    import wandb

    (folder / "wandb").mkdir(parents=True, exist_ok=True)
    tracked = wandb.init(
        project=paper,
        id=run_id,
        resume="allow",
        reinit="finish_previous",  # a worker does several runs; the default continues the first
        mode=mode,
        config=config,
        dir=str(folder / "wandb"),
    )
    return lambda row: tracked.log(row, step=row["step"])
