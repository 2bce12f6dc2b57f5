"""Finished run folders of numbers that were made up, for the tests of the comparison."""

import json

import numpy as np
import pandas as pd

from common.claims.file import load
from common.comparison import compare
from common.comparison.published import published_checked
from common.config.files import ROOT
from common.metrics.passk import report
from common.results.columns import COLUMNS
from common.results.files import write_csv, write_jsonl_gz
from common.results.run import Run

MATH = {  # F-GRPO's sets and their problems
    "AIME24": 30,
    "AIME25": 30,
    "AMC": 40,
    "MATH500": 500,
    "Minerva": 272,
    "Olympiad": 675,
}


def made_up_counts(shares: dict, draw, *, problems: int, n: int, ids: str = "{i}") -> pd.DataFrame:
    """Counts of so many problems a benchmark: `draw(share)` has how many of the n samples of each
    are right, `ids` is the format of their names."""
    frames = [
        pd.DataFrame(
            {
                "benchmark": benchmark,
                "problem_id": [ids.format(i=i, benchmark=benchmark) for i in range(problems)],
                "n": n,
                "c": draw(share),
                "distinct": 1,
            }
        )
        for benchmark, share in shares.items()
    ]
    return pd.concat(frames)


def made_up_run(
    root,
    paper: str,
    name: str,
    about: dict,  # table, model, method and seed of its rows
    by_step: dict[int, pd.DataFrame],  # the counts of its evaluations
    ks: list[int],
    *,
    config: dict | None = None,
    log: list[dict] | None = None,  # the rows of metrics.jsonl
    samples: dict[str, list[dict]] | None = None,
    meta: dict | None = None,  # of its meta.json
):
    """The folder of a finished run; its pass@k are those of the counts."""
    run = Run(root, paper, name, {"scope": "laptop"} | (config or {}))
    frames = []
    for step, counts in by_step.items():
        drawn = report(counts, [k for k in ks if k <= counts["n"].max()])
        frames.append(drawn.assign(**about, step=step, run_id=run.run_id))
        write_csv(run.path / "eval" / f"step-{step:05d}-counts.csv", counts)
    write_csv(run.path / "metrics.csv", pd.concat(frames)[COLUMNS])
    write_csv(run.path / "counts.csv", counts)
    if log is not None:
        text = "".join(json.dumps(row) + "\n" for row in log)
        (run.path / "metrics.jsonl").write_text(text)
    for benchmark, rows in (samples or {}).items():
        write_jsonl_gz(run.path / "samples" / f"{benchmark}.jsonl.gz", rows)
    run.finish(**(meta or {}))
    return run.path


def cluster_run(
    root, method="GRPO", seed=1, shares=None, *, table="table1", model="Qwen2.5-7B", n=256, step=10
):
    """A run of the paper's row: every problem of a benchmark, each with its share of right samples,
    and one stored sample."""
    rng = np.random.default_rng([seed, *map(ord, method)])
    counts = pd.concat(
        made_up_counts(
            {benchmark: share},
            lambda share, problems=MATH[benchmark]: rng.binomial(n, share, problems),
            problems=MATH[benchmark],
            n=n,
            ids="{benchmark}-{i}",
        )
        for benchmark, share in (shares or {"AIME24": 0.1}).items()
    )
    return made_up_run(
        root,
        "f_grpo",
        f"{method.replace(' ', '_')}-s{seed}",
        {"table": table, "model": model, "method": method, "seed": seed},
        {step: counts},
        [1, 256],
        config={"scope": "cluster", "table": table, "label": method, "model": {"name": model}},
        samples={"AIME24": [{"problem_id": "AIME24-0"}]},
    )


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


def few_cells(monkeypatch) -> None:
    """Compare the cells of F-GRPO's Tables 1 and 2 and five claims alone, because a comparison
    takes the time of its cells and claims."""
    monkeypatch.setattr(compare, "load", lambda path: load(path)[:5])
    printed, left_out = published_checked(ROOT / "papers" / "f_grpo" / "published")
    cells = printed[printed["table"].isin(["table1", "table2"])], left_out
    monkeypatch.setattr(compare, "published_checked", lambda home: cells)


def named(*lines) -> pd.DataFrame:
    """Printed cells that name runs: (table, method, table and method of the run, benchmark)."""
    columns = ["table", "method", "of_table", "of_method", "benchmark"]
    cells = pd.DataFrame(lines, columns=columns)
    return cells.assign(model="m", metric="pass@1", run=cells["of_method"], several=False)
