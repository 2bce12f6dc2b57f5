"""Fig. 3's erroneous pieces of code, counted in the stored samples of the cluster runs."""

import re
from pathlib import Path

import pandas as pd

from common.metrics.passk import mean_and_stderr
from common.results.files import read_jsonl

CASES, METHODS = "AMC 2023", ("GRPO", "GRPO-N")  # the benchmark and methods of Fig. 3
OUTPUT = re.compile(r"```output\s*\n(.*?)(?:```|\Z)", re.DOTALL)  # as Qwen2.5-Math writes it
CODE = re.compile(r"```python\b")
FAULT = re.compile(r"\b[A-Za-z]*(?:Error|Exception)\b")
COUNTS = ["code", "erroneous_code"]


def samples(root: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the stored samples of METHODS on the benchmark CASES, for the runs whose folders are
    there: problem_id, sample, response, outcome, parsed, and the run's table, model, method, seed,
    step, run_id."""
    mine = rows[(rows["benchmark"] == CASES) & rows["method"].isin(METHODS)]
    names = ["table", "model", "method", "seed", "step", "run_id"]
    parts = []
    for run in mine[mine["metric"] == "pass@1"][names].drop_duplicates("run_id").to_dict("records"):
        files = sorted((root / "two_stage" / run["run_id"] / "samples").glob("*.jsonl.gz"))
        drawn = [row for file in files for row in read_jsonl(file)]
        if drawn and "response" in drawn[0]:
            kept = ["problem_id", "sample", "response", "outcome", "parsed"]
            parts.append(pd.DataFrame(drawn)[kept].assign(**run))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def pieces(response: str) -> tuple[int, int]:
    """Return how many pieces of code, and how many outputs that name an error, a response has."""
    faulty = sum(FAULT.search(output) is not None for output in OUTPUT.findall(response))
    return len(CODE.findall(response)), faulty


def code_rows(root: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Return result rows of table "TABLE, samples": the pieces of code and the erroneous ones per
    response, averaged within each problem and then over problems. Sec 4.3 gives no measure; this
    one is ours."""
    drawn = samples(root, rows)
    if drawn.empty:
        return drawn
    drawn[COUNTS] = [pieces(text) for text in drawn["response"]]
    key = ["table", "model", "method", "seed", "step", "run_id"]
    found = []
    for names, run in drawn.groupby(key, sort=False, dropna=False):
        means = run.groupby("problem_id")[COUNTS].mean()
        about = dict(zip(key, names, strict=True)) | {"benchmark": CASES}
        about |= {"table": f"{names[0]}, samples", "n_problems": len(means)}
        about |= {"n_samples": len(run) // len(means)}
        numbers = zip(COUNTS, *mean_and_stderr(means.to_numpy()), strict=True)
        found += [
            about | {"metric": metric, "value": value, "stderr": stderr, "unit": "pieces"}
            for metric, value, stderr in numbers
        ]
    return pd.DataFrame(found)
