"""Samples of a checkpoint, their counts (n, c per problem), and the result rows made from these."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

import pandas as pd

from common.config.schema import Evaluation
from common.metrics.passk import report
from common.models.load import input_ids
from common.models.teacher_forcing import Pair
from common.rollout.local import draw
from common.types import Prompt, Verify

CUT_OFF = 0.2  # share of cut-off responses above which a warning is given
COLUMNS = "problem_id sample response outcome parsed tokens log_prob stopped ids".split()  # noqa: SIM905


@dataclass(frozen=True)
class Sampled:
    """One benchmark's samples, one row (COLUMNS) per response: log_prob is the sum over its tokens,
    in nats; ids are its tokens as drawn, which the same text may not give again."""

    benchmark: str
    rows: pd.DataFrame

    def counts(self) -> pd.DataFrame:
        """Return benchmark, problem_id, n, c, distinct (different right answers)."""
        correct = self.rows.outcome == "correct"
        problems = self.rows.problem_id
        counts = pd.DataFrame(
            {
                "n": correct.groupby(problems, sort=False).size(),
                "c": correct.groupby(problems, sort=False).sum(),
                "distinct": self.rows.parsed.where(correct).groupby(problems, sort=False).nunique(),
            }
        ).reset_index()
        counts.insert(0, "benchmark", self.benchmark)
        return counts


def scored(prompts: list[Prompt], n: int, drawn: list[tuple], verify: Verify) -> pd.DataFrame:
    """Return an engine's rows with their verdicts: COLUMNS, sorted by problem and sample."""
    owners = [prompts[i // n] for i in range(len(drawn))]
    verdicts = verify([(row[0], owner.reference) for row, owner in zip(drawn, owners, strict=True)])
    rows = [
        (owner.id, i % n, text, verdict.outcome, verdict.parsed, *rest)
        for i, (owner, (text, *rest), verdict) in enumerate(
            zip(owners, drawn, verdicts, strict=True)
        )
    ]
    return pd.DataFrame(rows, columns=COLUMNS).sort_values(
        ["problem_id", "sample"], kind="stable", ignore_index=True
    )


def sample(
    model,
    tokenizer,
    prompts: list[Prompt],
    verify: Verify,
    *,
    benchmark: str,
    n: int,
    settings: Evaluation,
    seed: tuple,
) -> Sampled:
    """Return `n` verified responses to every prompt."""
    drawn = draw(model, tokenizer, prompts, n, settings, (*seed, benchmark))
    return Sampled(benchmark, scored(prompts, n, drawn, verify))


def pairs(rows: list[dict], texts: dict[str, str], tokenizer) -> list[Pair]:
    """Return the token ids of each row's prompt and of its response, as they were drawn."""
    if not rows:
        return []
    asked = list(dict.fromkeys(row["problem_id"] for row in rows))
    encoded = input_ids(tokenizer, [texts[name] for name in asked])
    prompts = dict(zip(asked, encoded, strict=True))
    return [(prompts[row["problem_id"]], row["ids"]) for row in rows]


def metric_rows(sampled: Sampled, ks: list[int]) -> pd.DataFrame:
    """Return the result rows of one benchmark: pass@k for k up to its n, then `sample_rows`."""
    counts = sampled.counts()
    frame = report(counts, [k for k in ks if k <= int(counts.n.iloc[0])])
    return pd.concat([frame, sample_rows(sampled)], ignore_index=True)


def sample_rows(sampled: Sampled) -> pd.DataFrame:
    """Return result rows on the diversity and validity of one benchmark's samples.

    token_entropy     mean of -log p over all sampled tokens, nats: a token's entropy by sampling
    sequence_entropy  mean of -log p of whole responses, nats
    distinct_correct  different right answers among a problem's n, order and brackets apart
    valid             percent of responses that are an expression at all
    truncated         percent cut off by max_tokens
    response_length   tokens, the end token included

    Without log_prob, as at temperature 0, the entropies are left out.
    """
    rows, counts = sampled.rows, sampled.counts()
    by_problem = rows.groupby("problem_id")
    row = partial(result_row, sampled.benchmark, n_samples=int(counts.n.iloc[0]))
    percent = lambda flags: 100 * flags.groupby(rows.problem_id).mean()  # noqa: E731
    found = []
    if rows.log_prob.notna().all():
        log_prob, tokens = by_problem.log_prob.sum(), by_problem.tokens.sum()
        pooled = {"value": -log_prob.sum() / tokens.sum()}
        found.append(row("token_entropy", -log_prob / tokens, "nats") | pooled)
        found.append(row("sequence_entropy", -by_problem.log_prob.mean(), "nats"))
    found += [
        row("distinct_correct", counts.distinct, "answers"),
        row("valid", percent(rows.outcome.isin(["correct", "wrong"])), "percent"),
        row("truncated", percent(~rows.stopped.astype(bool)), "percent"),
        row("response_length", by_problem.tokens.mean(), "tokens"),
    ]
    return pd.DataFrame(found)


def result_row(
    benchmark: str, metric: str, values: pd.Series, unit: str, *, n_samples: int
) -> dict:
    size = len(values)
    stderr = values.std() / size**0.5 if size > 1 else None
    row = {"benchmark": benchmark, "metric": metric, "value": values.mean(), "unit": unit}
    return row | {"stderr": stderr, "n_problems": size, "n_samples": n_samples}


def warn_cut_off(share: float, key: str, limit: int) -> None:
    """Warn on stderr if more than CUT_OFF of the responses reached `key`=`limit`."""
    if share > CUT_OFF:
        print(
            f"warning: {100 * share:.0f} % of the responses were cut off at {key}={limit} and are "
            f"therefore mostly wrong; raise {key}",
            file=sys.stderr,
            flush=True,
        )
