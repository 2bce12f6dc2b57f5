"""A launch of verl (common/backends/verl/process.py) with another program in verl's place."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from common.backends.verl import process


def launched(
    work: Path, monkeypatch, program: str, on_step: Callable = lambda *_: None
) -> Iterator[dict]:
    """process.launch, as a generator, of `program`; in it METRICS is the file of metrics."""
    code = "import os; METRICS = os.environ['VERL_FILE_LOGGER_PATH']\n" + program
    real = subprocess.Popen
    monkeypatch.setattr(
        process.subprocess, "Popen", lambda args, **k: real([sys.executable, "-c", code], **k)
    )
    with open(work / "lock", "w") as lock:
        given = dict(threads=1, keep_open=lock.fileno(), on_step=on_step)
        yield from process.launch(work / "verl.yaml", work, **given)
