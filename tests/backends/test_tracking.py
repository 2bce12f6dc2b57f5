"""wandb: imported only when it is on, and given the rows of metrics.jsonl, one run a training."""

import json
import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from tiny import ROOT, TINY

from common.backends import tracking
from common.backends.local import train
from common.experiment import load
from common.results.files import read_jsonl


def test_wandb_is_not_imported_when_it_is_off(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # importing it would raise
    path = train(tiny("optim.steps=1"), progress=False)
    assert (path / "DONE").exists()
    assert not (path / tracking.ID).exists()


def test_wandb_gets_the_rows_of_metrics_jsonl(tiny, monkeypatch):
    sent = []
    monkeypatch.setattr(tracking, "mirror", lambda *_: sent.append)
    path = train(tiny("optim.steps=3"), progress=False)
    *steps, last = sent
    assert last.keys() == {"step", "pass@1/natural", "pass@1/rare"}
    assert [*steps[:2], steps[2] | last] == read_jsonl(path / "metrics.jsonl")


class Wandb:
    """Stands for the module: remembers what it is asked, and drops rows as wandb's runs do."""

    Table = staticmethod(lambda columns, data: [dict(zip(columns, row)) for row in data])  # noqa: B905

    def __init__(self):
        self.asked, self.axes, self.rows = [], [], []

    def init(self, **given):
        self.asked.append(given)
        return SimpleNamespace(define_metric=self._axis, log=self._log)

    def _axis(self, name, step_metric=None):
        self.axes.append((name, step_metric))

    def _log(self, row, step=None):
        if step is None or step > len(self.rows):
            self.rows.append(row)


def test_a_resumed_training_is_one_run_and_no_row_of_it_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", fake := Wandb())
    x = replace(load(TINY, "f_grpo"), wandb="online", results_dir=str(tmp_path))
    for start, steps in ((0, [1, 2, 3, 4]), (2, [3, 4, 5]), (0, [1])):  # the last: from scratch
        send = tracking.mirror(x, tmp_path, start)
        for step in steps:
            send({"step": step})
    assert [row["step"] for row in fake.rows] == [1, 2, 3, 4, 3, 4, 5, 1]
    first, second, third = (asked["id"] for asked in fake.asked)
    assert first == second != third
    assert (tmp_path / tracking.ID).read_text() == third + "\n"
    assert all(asked["resume"] == "allow" for asked in fake.asked)
    assert all(asked["name"] == x.run_id for asked in fake.asked)
    assert max(len(asked["id"]) for asked in fake.asked) <= 64
    assert set(fake.axes) == {("step", None), ("*", "step")}


def test_wandb_gets_pass_at_k_of_every_evaluation_and_responses_of_the_last(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", fake := Wandb())
    x = replace(tiny("optim.steps=2", "eval.every=1"), wandb="offline")
    path = train(x, progress=False)
    *_, before, last = fake.rows
    rows = pd.read_csv(path / "metrics.csv").query("benchmark == 'rare' and step == 2")
    for k in x.eval.k:
        value = rows[rows["metric"] == f"pass@{k}"]["value"].item()
        assert last[f"pass@{k}/rare"] == pytest.approx(value)
        assert f"pass@{k}/rare" in fake.rows[0] or k > x.eval.curve_n
    assert "samples" not in before
    rare = [row for row in last["samples"] if row["benchmark"] == "rare"]
    stored = read_jsonl(path / "samples" / "rare.jsonl.gz")[: tracking.SHOWN]
    assert [row["response"] for row in rare] == [row["response"] for row in stored]


ATTEMPT = """
import json, os, sys
from dataclasses import replace
from pathlib import Path
from tiny import TINY
from common.backends.tracking import mirror
from common.experiment import load
root = Path(sys.argv[1])
x = replace(load(TINY, "f_grpo"), wandb="offline", results_dir=str(root))
for words in sys.argv[2:]:
    name, start, last = words.split()
    folder = root / "f_grpo" / name
    folder.mkdir(parents=True, exist_ok=True)
    send = mirror(x, folder, int(start))
    with open(folder / "metrics.jsonl", "a") as curve:
        for step in range(int(start) + 1, int(last) + 1):
            send({"step": step, "reward": step / 10})
            curve.write(json.dumps({"step": step, "reward": step / 10}) + "\\n")
        curve.write('{"step": 9')  # killed while it wrote
"""


@pytest.mark.process
def test_wandb_offline_holds_each_training_whole_in_one_file_without_network(tmp_path):
    """Two attempts of one training, in processes of their own; the second process does two runs."""
    quiet = {"WANDB_SILENT": "true", "WANDB_BASE_URL": "http://127.0.0.1:9", "HOME": str(tmp_path)}
    quiet |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])}

    # the checkpoint was at 2: steps 3 and 4 are made again
    for words in (["one 0 4"], ["one 2 5", "two 0 1"]):
        command = [sys.executable, "-c", ATTEMPT, str(tmp_path), *words]
        subprocess.run(command, env=os.environ | quiet, cwd=tmp_path, check=True, timeout=300)
    for name, steps in (("one", [1, 2, 3, 4, 5]), ("two", [1])):
        own = (tmp_path / "f_grpo" / name / tracking.ID).read_text().strip()
        (file,) = tmp_path.glob(f"wandb/wandb/offline-run-*/run-{own}.wandb")
        assert [row["step"] for row in history(file)] == steps
        assert [row["reward"] for row in history(file)] == [step / 10 for step in steps]
    assert len(list(tmp_path.glob("wandb/wandb/offline-run-*"))) == 2


def history(file: Path) -> list[dict]:
    """The rows in a file of wandb: LevelDB's log format after a header, of protobuf messages."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole, rows = file.read_bytes(), 7, b"", []
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # too little for a header is left of a block
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        whole, at = whole + data[at + 7 : at + 7 + length], at + 7 + length
        if kind in (1, 4):  # full, last
            record = wandb_internal_pb2.Record.FromString(whole)
            whole = b""
            if record.HasField("history"):
                items = record.history.item
                rows.append({i.key or i.nested_key[0]: json.loads(i.value_json) for i in items})
    return rows
