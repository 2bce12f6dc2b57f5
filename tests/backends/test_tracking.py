"""wandb: imported only when it is on, and given the rows of metrics.jsonl."""

import os
import subprocess
import sys

import pytest
from tiny import ROOT

from common.backends import local
from common.backends.local import train
from common.results.files import read_jsonl


def test_wandb_is_not_imported_when_it_is_off(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # importing it would raise
    path = train(tiny("optim.steps=1"), progress=False)
    assert (path / "DONE").exists()


def test_wandb_gets_the_rows_of_metrics_jsonl(tiny, monkeypatch):
    sent = []
    monkeypatch.setattr(local, "mirror", lambda *_: sent.append)
    path = train(tiny("optim.steps=3"), progress=False)
    assert sent == read_jsonl(path / "metrics.jsonl")
    assert len(sent) == 3


@pytest.mark.process
def test_wandb_offline_writes_every_run_of_a_process_without_network(tmp_path):
    program = (
        "from pathlib import Path\n"
        "from common.backends.tracking import mirror\n"
        "for run in ('one', 'two'):\n"
        f"    send = mirror('offline', 'f_grpo', run, {{}}, Path({str(tmp_path)!r}))\n"
        "    send({'step': 1, 'reward': f'first row of {run}'})\n"
        "    send({'step': 2, 'reward': f'second row of {run}'})\n"
    )
    quiet = {"WANDB_SILENT": "true", "WANDB_BASE_URL": "http://127.0.0.1:9", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=os.environ | quiet, check=True)
    for run in ("one", "two"):
        (file,) = tmp_path.rglob(f"run-{run}.wandb")
        for row in ("first", "second"):
            assert f"{row} row of {run}".encode() in file.read_bytes()
