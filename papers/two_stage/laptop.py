"""What the two-stage paper measures of laptop runs beyond their result rows: Table 4's entropies
from stored samples, Fig. 2's training curves, and what a run's problems gained and lost.

`measure` writes <root>/two_stage/laptop/{entropies,training}.csv from the run folders; where these
are not there, tables that came without them are kept.
"""

from pathlib import Path

import pandas as pd

from common.comparison import training
from common.comparison.gather import LAPTOP, Gathered, by_run
from common.metrics.passk import pass_at_k
from common.metrics.samples import answer_entropy, token_entropy
from common.results.columns import COLUMNS
from common.results.files import read_jsonl

LOGGED = ["entropy", "reward"]  # entropy: nats a token, exact, of the rollouts' policy
CURVES = ["table", "method", "seed", "step", *LOGGED]
MOVED = ["table", "method", "benchmark", "seed", "step"]
ENTROPIES = {"answer_level_entropy": "bits", "token_level_entropy": "nats"}


def measure(root: Path, runs: Gathered) -> None:
    """Measure every finished run."""
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
    training.keep(target / "entropies.csv", measured, COLUMNS)
    training.keep(target / "training.csv", curves, CURVES)


def entropies(samples: Path) -> pd.DataFrame:
    """Two result rows, answer-level (bits) and token-level (nats) entropy of one file of samples
    (App. C.5): mean over problems.

    Answers that differ in the order of terms or in brackets count as one; samples without an
    expression count together as one answer. Both are of the distribution that was sampled from,
    so of the evaluation's temperature.
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
    """A table that `measure` wrote; empty if there is none."""
    columns = CURVES if name == "training" else COLUMNS
    return training.kept(root / "two_stage" / LAPTOP / f"{name}.csv", columns)


def boundary(counts: pd.DataFrame, k: int) -> pd.DataFrame:
    """How far the boundary moved in and out along training: table, method, benchmark, seed, step,
    gained, lost, in percent of problems.

    gained = mean over problems of max(0, pass@k - pass@k of the base model), lost = the same with
    the sign turned; gained - lost is the difference of the two pass@k. Sampling noise adds to both
    alike: `k` equal to the number of samples makes it largest. Base and run must have the same
    problems and at least k samples; steps with fewer are left out.
    """
    known = counts[counts["n"] >= k].copy()
    known["value"] = pass_at_k(known["c"].to_numpy(), known["n"].to_numpy(), [k])[:, 0]
    problem = ["benchmark", "problem_id"]
    if known.empty:
        return known.reindex(columns=[*MOVED, "gained", "lost"])
    base = known[known["method"] == "base"].groupby(problem)["value"].mean().rename("base")
    joined = known[known["method"] != "base"].join(base, on=problem, how="inner")
    change = 100 * (joined["value"] - joined["base"])
    joined = joined.assign(gained=change.clip(lower=0), lost=-change.clip(upper=0))
    return joined.groupby(MOVED, sort=False)[["gained", "lost"]].mean().reset_index()
