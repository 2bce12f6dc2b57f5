"""`python -m bench.gpu_day` to the folder that is committed, at the smallest sizes."""

import json

import pandas as pd
import pytest
from refuses import refuses

from bench import gpu_day, gpu_rows

pytestmark = [pytest.mark.trains, pytest.mark.process]


def test_a_day_runs_whole_and_goes_on(tmp_path, capsys, monkeypatch):
    words = ["minutes=60", "size=smallest", f"results_dir={tmp_path}"]
    gpu_day.main(words)
    said = capsys.readouterr().out
    assert "FAILED" not in said
    (folder,) = (tmp_path / "reference" / "gpu").iterdir()
    made = {path.name for path in folder.iterdir()}
    assert made >= {"summary.md", "machine.json", "bench.csv", "metrics.csv", "curves.csv"}
    states = pd.read_csv(folder / "runs.csv")
    assert list(states.state) == ["done"] * 3
    assert list(states.step) == [0, 2, 2]
    assert " passed" in (folder / "tests_gpu.txt").read_text()
    hashes = json.loads((folder / "samples.json").read_text())
    assert {name.split("/")[0] for name in hashes} == set(states.run_id)
    assert set(pd.read_csv(folder / "metrics.csv").run_id) == set(states.run_id)
    assert "pass@256" in (folder / "summary.md").read_text()
    monkeypatch.setattr(gpu_day.Day, "tests", lambda day: None)
    monkeypatch.setattr(gpu_day.Day, "bench", lambda day: None)
    gpu_day.main(words)  # everything is found
    assert "FAILED" not in capsys.readouterr().out
    pd.testing.assert_frame_equal(pd.read_csv(folder / "runs.csv"), states)


def test_what_is_missing_is_said_before_any_compute():
    with refuses("size", "huge"):
        gpu_day.main(["size=huge"])
    with refuses("minutes", "soon"):
        gpu_day.main(["minutes=soon"])


def test_the_ladder_waits_for_its_gate_and_goes_on(tmp_path, capsys, monkeypatch):
    words = ["programme=ladder", "minutes=60", "size=smallest", "workers=1"]
    words += [f"results_dir={tmp_path}"]
    monkeypatch.setattr(gpu_rows, "START", (99.0, 100.0))
    with refuses("parts that failed", 3):
        gpu_day.main(words)  # no base model is so good
    assert "FAILED" in capsys.readouterr().out
    monkeypatch.setattr(gpu_rows, "START", (0.0, 100.0))
    gpu_day.main(words)
    assert "FAILED" not in capsys.readouterr().out
    (folder,) = (tmp_path / "reference" / "gpu").iterdir()
    tables = folder / "study_ladder"
    found = pd.read_csv(tables / "methods.csv")
    asked = found[(found.method == "F-GRPO (gamma=0.5)") & (found.against == "GRPO lr 1e-5")]
    assert set(asked.n_seeds) >= {3}
    assert len(list((tmp_path / "smoke" / "study_ladder").glob("*/DONE"))) == 9
    before = (tables / "laptop" / "counts.csv.gz").read_bytes()
    gpu_day.main(words)  # everything is found
    assert (tables / "laptop" / "counts.csv.gz").read_bytes() == before
