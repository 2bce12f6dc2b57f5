"""The second version's Figs 8 to 10: the curves of a method and its focal variant."""

import json

import pandas as pd
import pytest

from papers.f_grpo.cluster_figures import DENSE, dynamics

LOG = [
    {"step": 1, "reward": 0.0, "entropy": 0.5, "response_length": 900.0},
    {"step": 2, "reward": 1.0, "entropy": 0.25, "response_length": 800.0},
]


def test_a_pair_is_drawn_with_the_moving_average_of_its_reward(tmp_path):
    parts = []
    for method in ("DAPO", "F-DAPO"):
        path = tmp_path / "f_grpo" / method / "metrics.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in LOG))
        about = {"table": "table1_v2", "model": "Qwen3-4B-Base", "method": method, "seed": 1}
        of = {"run_id": method, "benchmark": DENSE, "metric": "pass@1", "step": 153}
        parts.append(about | of | {"value": 12.5})
    rows = pd.DataFrame(parts)
    made = dynamics(tmp_path, rows, 9, "DAPO")
    assert not made.left_out
    assert "Fig. 9" in made.caption
    drawn = pd.read_csv(tmp_path / "f_grpo" / "figures" / f"{made.name}.csv")
    of = drawn[drawn["method"] == "F-DAPO"].groupby("curve")["value"].agg(list)
    assert of["reward"] == pytest.approx([0.0, 0.08])
    assert of["entropy (nats a token)"] == [0.5, 0.25]
    assert of["AIME25 pass@1 (%)"] == [12.5]
    assert "F-DAPO" in dynamics(tmp_path, rows[:1], 9, "DAPO").left_out
