"""The table at the end of a run."""

import json

import pandas as pd
import yaml

from common.results.summary import summary


def made(folder, *, steps: int, values: tuple, size: int = 6, trained: bool = True):
    folder.mkdir()
    config = {
        "model": {"name": "m"},
        "eval": {"n": 8},
        "data": {"benchmarks": {"b": {"size": size}}},
    }
    config["optim"] = {"lr": 1.0, "steps": steps, "mini_batches": 1}
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    rows = [("b", "pass@1", 99.0, 1.0, steps - 1)] if steps else []
    rows += [("b", "pass@1", values[0], 1.25, steps)]
    rows += [("b", "pass@4", 50.0, 2.0, steps), ("b", "pass@16", values[1], 2.5, steps)]
    rows += [("b", "valid", 100.0, 0.0, steps)]
    frame = pd.DataFrame(rows, columns=["benchmark", "metric", "value", "stderr", "step"])
    frame.assign(n_problems=6).to_csv(folder / "metrics.csv", index=False)
    (folder / "DONE").write_text("{}")
    if trained:
        (folder / "metrics.jsonl").write_text("{}")
    return folder


def test_the_last_step_stands_beside_the_base_model(tmp_path):
    run = made(tmp_path / "run", steps=5, values=(12.34, 60.0))
    assert "no run of it" in summary(run, "next")
    made(tmp_path / "other", steps=0, values=(1.0, 2.0), size=7)  # other prompts
    assert "no run of it" in summary(run, "next")
    made(tmp_path / "base", steps=0, values=(4.0, 70.0))
    (tmp_path / "unrelated").mkdir()
    (tmp_path / "unrelated" / "DONE").touch()  # a folder that no run of ours left
    lines = summary(run, "the next command").splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["b", "6", "12.3", "+-", "1.2", "60.0", "+-", "2.5", "(k=16)"],
        ["base", "model", "6", "4.0", "+-", "1.2", "70.0", "+-", "2.5", "(k=16)"],
    ]
    assert max(map(len, lines[:3])) <= 80
    assert lines[-1] == "next:  the next command"


def test_an_evaluation_has_no_base_model(tmp_path):
    run = made(tmp_path / "run", steps=5, values=(12.0, 60.0), trained=False)
    assert "base model" not in summary(run, "next")


def test_a_training_without_a_gradient_says_so(tmp_path):
    run = made(tmp_path / "run", steps=4, values=(12.0, 60.0))
    curve = run / "metrics.jsonl"

    def said(norms):
        rows = [{"step": i, "grad_norm": x, "reward": 0.5} for i, x in enumerate(norms)]
        curve.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return [line for line in summary(run, "next").splitlines() if "gradient" in line]

    assert "4 of 4 steps, mean reward 0.5" in said([0.0] * 4)[0]
    assert "2 of 4" in said([0.0, 1.0, 0.0, 1.0])[0]
    assert said([0.0, 1.0, 1.0, 1.0]) == []
