"""The columns of a result row, in the order in which every table has them."""

from __future__ import annotations

CELL = ["table", "model", "method", "benchmark", "metric"]  # name a number
# name one evaluation, whose counts belong together
EVALUATION = ["table", "model", "method", "benchmark", "seed", "step"]
COLUMNS = [*CELL, "k", "value", "unit", "stderr", "n_problems", "n_samples"]
COLUMNS += ["seed", "step", "run_id"]
KEY = [*CELL, "k", "seed", "step", "run_id"]

SCORE = "pass@1/"  # before a benchmark's name: its column in metrics.jsonl, in percent
