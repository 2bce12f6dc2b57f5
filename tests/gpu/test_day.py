"""`python -m bench.gpu_day` to the folder that is committed, at the smallest sizes."""

import shutil
from dataclasses import replace
from functools import partial

import pandas as pd
import pytest
from refuses import refuses

from bench import gpu_day
from bench.gpu import SMOKE

pytestmark = [pytest.mark.trains, pytest.mark.process]


@pytest.fixture
def day(tmp_path, monkeypatch):
    """Runs the command at the smallest sizes; returns the folder to commit."""
    (tmp_path / "test_passes.py").write_text("def test_passes(): ...")
    suite = {"tests/gpu": (str(tmp_path / "test_passes.py"),)}
    small = {
        "mazes": (partial(gpu_day.mazes, suites=suite), "f_grpo", "gpu_smoke"),
        "ladder": (gpu_day.ladder, "study", "ladder_smoke"),
    }
    monkeypatch.setattr(gpu_day, "PROGRAMMES", small)
    monkeypatch.setattr(gpu_day, "ON_GPU", replace(SMOKE, device="cuda"))
    every = gpu_day.experiments

    def some(config):  # the cheapest two of the mazes
        found = every(config)
        return found[:2] if config.paper == "f_grpo" else found

    monkeypatch.setattr(gpu_day, "experiments", some)

    def runs(*words: str):
        gpu_day.main(["minutes=60", f"results_dir={tmp_path}", "workers=1", *words])
        (folder,) = (tmp_path / "reference" / "gpu").iterdir()
        return folder

    return runs


def test_a_day_runs_whole_and_goes_on_whatever_fails(day, capsys, monkeypatch):
    folder = day()
    assert "FAILED" not in capsys.readouterr().out
    made = {path.name for path in folder.iterdir()}
    assert made >= {"summary.md", "summary.json", "bench.csv", "tests_gpu.txt"}
    assert (folder / "summary.md").read_text().count(" | 1 of 1 |\n") == 2
    assert "1 passed" in (folder / "tests_gpu.txt").read_text()
    (tables,) = (folder / "f_grpo").iterdir()
    found = {path.name: path.read_bytes() for path in tables.iterdir()}
    assert pd.read_csv(tables / "runs.csv")["run_id"].nunique() == 2
    assert {"pass@1", "pass@256"} <= {*pd.read_csv(tables / "metrics.csv.gz")["metric"]}
    shutil.rmtree(folder)
    monkeypatch.setattr(gpu_day, "tested", lambda *_: 1 / 0)
    monkeypatch.setattr(gpu_day, "measured", lambda *_: [])
    with refuses("parts that failed", 1):
        day()  # what fails costs the other parts nothing; finished runs are found
    assert {path.name: path.read_bytes() for path in tables.iterdir()} == found


def test_vllm_is_timed_on_as_many_gpus_as_there_are(tmp_path, monkeypatch):
    says = 'for word; do case "$word" in --output-json=*) out=${word#*=} ;; --batch-size=*) '
    says += """n=${word#*=} ;; esac; done; echo "{\\"avg_latency\\": $n}" > "$out"; echo "$@\""""
    (tmp_path / "vllm").write_text(f"#!/bin/sh\n{says}\n")
    (tmp_path / "vllm").chmod(0o755)
    monkeypatch.setattr(gpu_day.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(gpu_day.torch.cuda, "device_count", lambda: 3)
    day = gpu_day.Day([], tmp_path, 3600.0, 1, SMOKE)
    assert gpu_day.widths(day) == "4 measurements"
    rows = pd.read_csv(day.folder / "vllm.csv")
    assert rows.to_numpy().tolist() == [[1, 1, 1], [1, 256, 256], [2, 1, 1], [2, 256, 256]]
    assert "--tensor-parallel-size=2 --batch-size=256" in (day.folder / "vllm.txt").read_text()


def test_what_is_missing_is_said_before_any_compute():
    for word in ("programme=huge", "minutes=soon"):
        with refuses(*word.split("=")):
            gpu_day.main([word])


def test_the_ladder_waits_for_its_gate_and_goes_on(day, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(gpu_day, "START", (99.0, 100.0))
    with refuses("parts that failed", 1):
        day("programme=ladder")  # no base model is so good
    assert "FAILED" in capsys.readouterr().out
    monkeypatch.setattr(gpu_day, "START", (0.0, 100.0))
    tables = day("programme=ladder") / "study_ladder"
    assert "FAILED" not in capsys.readouterr().out
    found = pd.read_csv(tables / "methods.csv")
    asked = found[(found.method == "F-GRPO (gamma=0.5)") & (found.against == "GRPO lr 1e-5")]
    assert set(asked.n_seeds) >= {1}
    assert len(list((tmp_path / "smoke" / "study_ladder").glob("*/DONE"))) == 3
