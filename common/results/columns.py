"""The columns of a result row, in the order in which every table has them."""

from __future__ import annotations

COLUMNS = ["table", "model", "method", "benchmark", "metric", "k", "value", "unit", "stderr"]
COLUMNS += ["n_problems", "n_samples", "seed", "step", "run_id"]

SCORE = "pass@1/"  # before a benchmark's name: its column in metrics.jsonl, in percent

KEY = ["table", "model", "method", "benchmark", "metric", "k", "seed", "step", "run_id"]
