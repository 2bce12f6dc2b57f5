import sys
from dataclasses import replace
from types import SimpleNamespace

from refuses import refuses
from tiny import TINY

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


def test_offline_a_resumed_training_is_whole_in_its_newest_file(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", fake := Wandb())
    x = replace(load(TINY, "f_grpo"), wandb="offline", results_dir=str(tmp_path))
    tracking.mirror(x, tmp_path, 0)
    old = tmp_path / "wandb" / "wandb" / f"offline-run-1-{fake.asked[0]['id']}"
    old.mkdir(parents=True)
    rows = "".join(f'{{"step": {step}}}\n' for step in (1, 2, 3))
    (tmp_path / "metrics.jsonl").write_text(rows + '{"step": 4')  # killed while it wrote
    tracking.mirror(x, tmp_path, 2)({"step": 3})
    assert [row["step"] for row in fake.rows] == [1, 2, 3]
    assert not old.exists()
    assert fake.asked[0]["id"] == fake.asked[1]["id"]


def test_online_without_a_key_is_said_at_once(monkeypatch, tmp_path):
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with refuses("wandb", "online"):
        tracking.check("online")
