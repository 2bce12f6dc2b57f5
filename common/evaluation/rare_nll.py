"""Delta NLL on the base model's rare right answers (F-GRPO App. F.2): how much they lose."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pandas as pd

from common.config.schema import Evaluation
from common.evaluation.samples import pairs, result_row, sample
from common.models.teacher_forcing import Pair, scores
from common.results.files import config_hash, read_jsonl, write_jsonl_gz
from common.types import Prompt

SHARE = 0.01  # the paper's top 1 %


def rare_correct(
    base, tokenizer, prompts: list[Prompt], verify, settings: Evaluation, cache: Path
) -> list[dict]:
    """Return the 1 % of the base model's right answers with the highest length-normalised NLL:
    problem_id, sample, prompt, response, ids, nll. `settings.rare_nll_samples` responses are drawn
    per prompt (the paper: 800 on 256 training prompts); duplicates stay. `cache` keeps them."""
    drawn_with = asdict(settings)
    for name in ("n", "k", "every", "curve_n", "also_at", "full_at"):  # of other samples
        del drawn_with[name]
    key = config_hash({"prompts": [asdict(prompt) for prompt in prompts], "settings": drawn_with})
    path = cache / f"rare-correct-ids-{key}.jsonl.gz"
    if not path.exists():
        drawn = sample(
            base,
            tokenizer,
            prompts,
            verify,
            benchmark="rare-correct",
            n=settings.rare_nll_samples,
            settings=settings,
            seed=(0,),
        ).rows
        texts = {prompt.id: prompt.text for prompt in prompts}
        chosen = rarest(drawn, SHARE)[["problem_id", "sample", "response", "ids"]]
        rows = chosen.assign(prompt=chosen["problem_id"].map(texts)).to_dict("records")
        values = nll(base, pairs(rows, texts, tokenizer))
        rows = [row | {"nll": value} for row, value in zip(rows, values, strict=True)]
        write_jsonl_gz(path, rows)
    return read_jsonl(path)


def rarest(drawn: pd.DataFrame, share: float) -> pd.DataFrame:
    """Return the `share` of right, finished samples with the highest NLL a token; at least one."""
    right = drawn[(drawn["outcome"] == "correct") & drawn["stopped"].astype(bool)]
    surprise = (-right["log_prob"] / right["tokens"]).sort_values(ascending=False, kind="stable")
    return right.loc[surprise.index[: max(1, round(share * len(right)))]]


def delta_nll(model, tokenizer, rare: list[dict]) -> pd.DataFrame:
    """Return a row: the rare answers' mean NLL minus the base model's, in nats per token."""
    if not rare:
        return pd.DataFrame()
    texts = {row["problem_id"]: row["prompt"] for row in rare}
    return change_row(rare, nll(model, pairs(rare, texts, tokenizer)), "rare-correct set")


def change_row(rare: list[dict], now, benchmark: str) -> pd.DataFrame:
    """Return the result row of rare answers with NLL `now`, and `nll` under the base model."""
    change = pd.Series(now) - pd.Series([row["nll"] for row in rare])
    row = result_row(benchmark, "delta_NLL_rare", change, "nats", n_samples=len(rare))
    return pd.DataFrame([row | {"n_problems": len({row["problem_id"] for row in rare})}])


def nll(model, sequences: list[Pair]) -> list[float]:
    """Return the mean -log p per token of each response, the end token included."""
    return [-float(log_prob.mean()) for log_prob, _ in scores(model, sequences)]
