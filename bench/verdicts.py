"""How the verifiers judge labelled cases.

    rlvr verdicts [data=../shared/data]

Writes results/verifiers/outcomes.csv: the number of cases of each source by verifier, label and
outcome. A case brings its own label, "right" or "wrong"; programs have pass, fail, timeout,
not_pass or any.
"""

import importlib
from collections import Counter
from pathlib import Path

import pandas as pd

from common.config.files import ROOT
from common.config.words import options
from common.results.files import read_jsonl, write_csv
from common.verifiers.command import DEADLINES, completed, verdicts_of
from common.verifiers.pool import Pool

FILES = {  # verifier -> file of cases, file of problems that complete them
    "math": ("verifier_cases", None),
    "choice": ("verifier_cases", None),
    "synlogic": ("synlogic_cases", "synlogic_sample"),
    "code": ("code_cases", "code_samples"),
    "ifeval": ("ifeval_gpt4_responses", "ifeval"),
}


def main(words: list[str]) -> None:
    folder = Path(options(words, {"data": "../shared/data"})["data"])
    counts = Counter()
    for name, (cases, problems) in FILES.items():
        rows = read_jsonl(folder / f"{cases}.jsonl")
        if cases == "verifier_cases":
            rows = [row for row in rows if (row["kind"] == "mcq") == (name == "choice")]
        rows = completed(rows, problems and str(folder / f"{problems}.jsonl"))
        module = importlib.import_module(f"common.verifiers.{name}")
        node = {"_target_": f"common.verifiers.{name}.verify"}
        with Pool(node, workers=2, deadline=DEADLINES.get(name, 10.0), memory_gb=4.0) as pool:
            verdicts = verdicts_of(rows, module, pool)
        for row, verdict in zip(rows, verdicts, strict=True):
            source = row.get("data_source", row["source"] if problems is None else cases)
            counts[name, source, label(row), verdict.outcome] += 1
    table = pd.Series(counts).rename_axis(["verifier", "source", "label", "outcome"])
    table = table.rename("rows").sort_index().reset_index()
    write_csv(ROOT / "results" / "verifiers" / "outcomes.csv", table)
    print(table.to_string(index=False))


def label(row: dict) -> str:
    if "expect" in row:
        return row["expect"]
    right = row.get("correct", row.get("prompt_strict"))
    return "right" if right else "wrong"
