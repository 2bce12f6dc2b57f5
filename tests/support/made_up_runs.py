"""Finished run folders of numbers that were made up, for the tests of the comparison."""

import numpy as np
import pandas as pd

from common.metrics.passk import report
from common.results.columns import COLUMNS
from common.results.files import write_csv, write_jsonl_gz
from common.results.run import Run

MATH = ("AIME24", "AIME25", "AMC", "MATH500", "Minerva", "Olympiad")


def cluster_run(
    root, method="GRPO", seed=1, shares=None, *, table="table1", model="Qwen2.5-7B", n=256, step=10
):
    """A run of the paper's row: 20 problems a benchmark, each with its share of right samples, and
    one stored sample."""
    rng = np.random.default_rng([seed, *map(ord, method)])
    shares = shares or {"AIME24": 0.1}
    counts = pd.concat(
        pd.DataFrame(
            {
                "benchmark": benchmark,
                "problem_id": [f"{benchmark}-{i}" for i in range(20)],
                "n": n,
                "c": rng.binomial(n, share, 20),
                "distinct": 1,
            }
        )
        for benchmark, share in shares.items()
    )
    config = {"scope": "cluster", "table": table, "label": method, "model": {"name": model}}
    run = Run(root, "f_grpo", f"{method.replace(' ', '_')}-s{seed}", config)
    rows = report(counts, [1, 256]).assign(
        table=table, model=model, method=method, seed=seed, step=step, run_id=run.run_id
    )
    write_csv(run.path / "metrics.csv", rows[COLUMNS])
    write_csv(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
    write_csv(run.path / "counts.csv", counts)
    write_jsonl_gz(run.path / "samples" / "AIME24.jsonl.gz", [{"problem_id": "AIME24-0"}])
    run.finish()
    return run.path


def cell(result, method="GRPO", benchmark="AIME24", metric="pass@1", table="table1"):
    """One printed cell of the 7B model."""
    x = result.cells
    hit = x[
        (x["table"] == table)
        & (x["model"] == "Qwen2.5-7B")
        & (x["method"] == method)
        & (x["benchmark"] == benchmark)
        & (x["metric"] == metric)
    ]
    assert len(hit) == 1
    return hit.iloc[0]
