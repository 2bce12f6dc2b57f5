"""Delta NLL on base-rare correct answers (F-GRPO App. F.2): what training takes from the rare
solutions."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from common.config.schema import Evaluation
from common.evaluation.samples import sample
from common.results.files import config_hash, read_jsonl, write_jsonl_gz
from common.types import Prompt

if TYPE_CHECKING:
    import torch

SHARE = 0.01  # the paper's top 1 %


def rare_correct(
    base, tokenizer, prompts: list[Prompt], verify, settings: Evaluation, cache: Path
) -> list[dict]:
    """Right answers of the base model with its highest length-normalised NLL: prompt, response,
    nll.

    `settings.rare_nll_samples` responses a prompt (the paper: 800 on 256 training prompts); of all
    right ones the 1 % with the highest NLL, duplicates kept as drawn. Cached in `cache`.
    """
    drawn_with = asdict(settings)
    for name in ("n", "k", "every", "curve_n"):  # of other samples, without a part in these
        del drawn_with[name]
    key = config_hash({"prompts": [asdict(prompt) for prompt in prompts], "settings": drawn_with})
    path = cache / f"rare-correct-{key}.jsonl.gz"
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
        right = drawn[(drawn.outcome == "correct") & drawn.stopped].copy()
        right["nll"] = -right.log_prob / right.tokens
        right = right.sort_values("nll", ascending=False, kind="stable")
        texts = {prompt.id: prompt.text for prompt in prompts}
        chosen = right.head(max(1, round(SHARE * len(right))))
        rows = [
            {"prompt": texts[row.problem_id], "response": row.response}
            for row in chosen.itertuples()
        ]
        pairs = [(row["prompt"], row["response"]) for row in rows]
        values = response_log_probs(base, tokenizer, pairs, settings.batch)
        for row, value in zip(rows, values, strict=True):
            row["nll"] = -float(value)
        write_jsonl_gz(path, rows)
    return read_jsonl(path)


def delta_nll(model, tokenizer, rare: list[dict], settings: Evaluation) -> pd.DataFrame:
    """One result row: mean NLL under `model` minus under the base model, nats a token (higher: more
    lost). No row where the base model had no right answer."""
    if not rare:
        return pd.DataFrame()
    pairs = [(row["prompt"], row["response"]) for row in rare]
    now = -response_log_probs(model, tokenizer, pairs, settings.batch).double().numpy()
    change = pd.Series(now - pd.Series([row["nll"] for row in rare]).to_numpy())
    return pd.DataFrame(
        [
            {
                "benchmark": "rare-correct set",
                "metric": "delta_NLL_rare",
                "value": change.mean(),
                "unit": "nats",
                "stderr": change.std() / len(change) ** 0.5 if len(change) > 1 else None,
                "n_problems": len({row["prompt"] for row in rare}),
                "n_samples": len(rare),
            }
        ]
    )


def response_log_probs(model, tokenizer, pairs: list[tuple[str, str]], batch: int) -> torch.Tensor:
    """Mean log-probability a token of each (prompt text, response text), end token included,
    (len,)."""
    import torch

    device, values = next(model.parameters()).device, [torch.zeros(0)]
    for start in range(0, len(pairs), batch):
        values.append(_mean_log_prob(model, tokenizer, pairs[start : start + batch], device))
    return torch.cat(values)


def _mean_log_prob(model, tokenizer, pairs, device) -> torch.Tensor:
    import torch

    from common.models.policy import log_probs
    from common.rollout.local import encode
    from common.types import RolloutBatch

    prompt_ids, prompt_mask = encode(tokenizer, [prompt for prompt, _ in pairs], device)
    answers = [
        [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        for _, text in pairs
    ]
    width = max(map(len, answers))
    ids = torch.full((len(pairs), width), tokenizer.eos_token_id, device=device)
    mask = torch.zeros(len(pairs), width, device=device)
    for i, answer in enumerate(answers):
        ids[i, : len(answer)] = torch.tensor(answer, device=device)
        mask[i, : len(answer)] = 1
    stopped = torch.ones(len(pairs), dtype=torch.bool, device=device)
    batch = RolloutBatch(prompt_ids, prompt_mask, ids, mask, torch.zeros_like(mask), stopped)
    with torch.no_grad():
        chosen, _ = log_probs(model, batch, temperature=1.0)
    return ((chosen * mask).sum(1) / mask.sum(1)).cpu()
