"""What a run takes: its minutes, and the most memory that its process held."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from common.results.files import write_json

if TYPE_CHECKING:
    from common.experiment import Experiment

PEAK = "VmHWM:"  # of /proc/self/status: the most resident memory, in KiB


def measured(x: Experiment, end: float | None = None) -> str | None:
    """Run `x` as `train` does, and store beside its folder what it took. A run that was finished
    before, or that resumes, is not measured, since the rest of a run takes less than a run."""
    from common.sweeps.reproduce import train

    path = Path(x.results_dir) / x.paper / x.run_id
    whole, began = not path.exists(), time.monotonic()
    _forget_peak()
    became = train(x, end)
    if whole and became is None:
        took = {"minutes": (time.monotonic() - began) / 60, "gb": _peak_gb(), "device": _device()}
        write_json(_file(path), took | {"threads": x.threads})
    return became


def table(home: Path, runs: list[Experiment]) -> pd.DataFrame:
    """Return method, seed, run_id, minutes, gb, device, threads of the finished runs; what was not
    measured is missing."""
    rows = []
    for x in runs:
        if not (home / x.run_id / "DONE").exists():
            continue
        file = _file(home / x.run_id)
        kept = pd.read_json(file, typ="series").to_dict() if file.exists() else {}
        rows.append({"method": x.label, "seed": x.seed, "run_id": x.run_id, **kept})
    columns = ["method", "seed", "run_id", "minutes", "gb", "device", "threads"]
    return pd.DataFrame(rows).reindex(columns=columns)


def _file(run: Path) -> Path:
    return run.with_name(f"{run.name}.took.json")


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def _forget_peak() -> None:
    """Reset the peak of memory, since one process runs several runs (Linux:
    proc_pid_clear_refs(5))."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak_gb() -> float | None:
    """Return the peak of the GPU where there is one, else of the process; None where the system
    does not tell."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 1e9
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next(
        (int(line.split()[1]) * 1024 / 1e9 for line in lines if line.startswith(PEAK)), None
    )
