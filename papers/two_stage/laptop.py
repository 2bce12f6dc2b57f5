"""What the two-stage paper measures beyond the result rows of the laptop runs: Table 4's entropies
from stored samples, and Fig. 2's training curves.

`measure` writes <root>/two_stage/laptop/{entropies,training}.csv.gz from the run folders. Where
there are none, existing tables (such as committed ones) are left as they are.
"""

from pathlib import Path

import pandas as pd

from common.comparison import training
from common.comparison.gather import LAPTOP, Gathered, by_run
from common.metrics.samples import answer_entropy, token_entropy
from common.results.columns import COLUMNS
from common.results.files import read_jsonl

LOGGED = ["entropy", "reward"]  # entropy: exact, nats a token, of the rollouts' policy
CURVES = ["table", "method", "seed", "step", *LOGGED]
ENTROPIES = {"answer_level_entropy": "bits", "token_level_entropy": "nats"}


def measure(root: Path, runs: Gathered) -> None:
    """Write the entropies and the training curves of every finished run."""
    rows = runs.rows
    measured = []
    for run_id, run in by_run(rows).iterrows():
        for file in sorted((root / "two_stage" / run_id / "samples").glob("*.jsonl.gz")):
            named = entropies(file).assign(**run, run_id=run_id)
            measured.append(named.reindex(columns=COLUMNS))
    curves = [
        training.blocks(log, LOGGED).assign(**run[["table", "method", "seed"]])
        for run, log in training.logs(root, "two_stage", rows)
    ]
    target = root / "two_stage" / LAPTOP
    training.keep(target / "entropies.csv.gz", measured, COLUMNS)
    training.keep(target / "training.csv.gz", curves, CURVES)


def entropies(samples: Path) -> pd.DataFrame:
    """Return two result rows for one file of samples: answer-level (bits) and token-level (nats)
    entropy, as means over problems (App. C.5).

    Answers that differ only in the order of terms or in brackets count as one. All samples without
    an expression count together as one answer. Both entropies are of the distribution that was
    sampled from, so they depend on the temperature of the evaluation.
    """
    rows = pd.DataFrame(read_jsonl(samples))
    answers = rows["parsed"].where(rows["outcome"].isin(["correct", "wrong"]), None).tolist()
    problems = rows["problem_id"].tolist()
    values = {
        "answer_level_entropy": answer_entropy(problems, answers),
        "token_level_entropy": token_entropy(problems, rows["log_prob"], rows["tokens"]),
    }
    measures = []
    for metric, value in values.items():
        row = {"benchmark": samples.name.removesuffix(".jsonl.gz"), "metric": metric}
        row |= {"value": value.mean(), "unit": ENTROPIES[metric], "n_problems": len(value)}
        row |= {"stderr": value.std(ddof=1) / len(value) ** 0.5 if len(value) > 1 else None}
        measures.append(row | {"n_samples": len(rows) // len(value)})
    return pd.DataFrame(measures)


def read(root: Path, name: str) -> pd.DataFrame:
    """Return a table that `measure` wrote; empty if there is none."""
    columns = CURVES if name == "training" else COLUMNS
    return training.kept(root / "two_stage" / LAPTOP / f"{name}.csv.gz", columns)
