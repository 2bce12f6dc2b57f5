import json

import pandas as pd

from common.comparison import training

ROWS = pd.DataFrame(
    {
        "table": "t",
        "model": "m",
        "method": ["base", "A", "A", "gone"],
        "seed": [1, 1, 1, 1],
        "step": [0, 5, 15, 5],
        "run_id": ["base", "a-s1", "a-s1", "gone-s1"],
    }
)


def log(root, run_id: str, rows: list[dict]) -> None:
    path = root / "paper" / run_id / "metrics.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_logs_are_of_the_trained_runs_whose_folders_are_there(tmp_path):
    log(tmp_path, "base", [])
    log(tmp_path, "a-s1", [{"step": 1, "entropy": 0.5}, {"step": 2, "entropy": 0.25}])
    log(tmp_path, "nobody-s1", [{"step": 1, "entropy": 9.0}])
    ((run, read),) = training.logs(tmp_path, "paper", ROWS)
    assert run.name == "a-s1"
    assert run.to_dict() == {"table": "t", "model": "m", "method": "A", "seed": 1, "step": 15}
    assert read.to_dict("list") == {"step": [1, 2], "entropy": [0.5, 0.25]}


def test_blocks_are_means_under_their_last_step():
    steps = range(1, 16)
    rows = pd.DataFrame({"step": steps, "entropy": [float(i) for i in steps], "lr": 1.0})
    rows["reward"] = [1.0] * 10 + [3.0] * 5
    curve = training.blocks(rows, ["entropy", "reward"])
    assert curve.to_dict("list") == {"step": [10, 15], "entropy": [5.5, 13.0], "reward": [1.0, 3.0]}
