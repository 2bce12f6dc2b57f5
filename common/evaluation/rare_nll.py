"""Delta NLL on base-rare correct answers (F-GRPO App. F.2): what training takes from the rare
solutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import yaml

from common.config.schema import Evaluation, Model
from common.config.strict import strict
from common.errors import UserError
from common.evaluation.config import Evaluate
from common.evaluation.samples import sample
from common.evaluation.store import stored
from common.results.columns import COLUMNS
from common.results.files import config_hash, read_jsonl, write_csv, write_jsonl_gz
from common.results.run import Run
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
        rows = rarest(drawn, {prompt.id: prompt.text for prompt in prompts}, SHARE)
        pairs = [(row["prompt"], row["response"]) for row in rows]
        values = response_log_probs(base, tokenizer, pairs, settings.batch)
        for row, value in zip(rows, values, strict=True):
            row["nll"] = -float(value)
        write_jsonl_gz(path, rows)
    return read_jsonl(path)


def rarest(drawn: pd.DataFrame, texts: dict[str, str], share: float) -> list[dict]:
    """prompt, response of the right and finished ones among a base model's samples that have the
    highest length-normalised NLL, `share` of them, one at least. texts: of the prompts, by id."""
    right = drawn[(drawn["outcome"] == "correct") & drawn["stopped"].astype(bool)]
    nll = (-right["log_prob"] / right["tokens"]).sort_values(ascending=False, kind="stable")
    chosen = right.loc[nll.index[: max(1, round(share * len(right)))]]
    return [
        {"prompt": texts[row.problem_id], "response": row.response} for row in chosen.itertuples()
    ]


def score(x: Evaluate, run: Run, step: int, on_chunk: Callable[[], None] = lambda: None) -> Path:
    """The NLL of a trained model on the rare right answers among the samples `x.row.base` of its
    base model, less the base model's own, both in float32 by transformers: one result row of the
    benchmark, at `step`; returns the run folder. The texts are tokenised again, an end token after
    each. Raises UserError where those samples are not finished or none of them is right."""
    import torch

    from common.models.load import load_model

    assert x.row is not None
    root = Path(x.results_dir)
    home = root / x.row.paper / str(x.row.base)
    if not (home / "DONE").exists():
        raise UserError(f"{home}: is not finished; Delta NLL waits for the base model's samples")
    texts = {row["id"]: row["text"] for row in read_jsonl(home / "problems.jsonl.gz")}
    rare = rarest(stored(home, with_response=True), texts, x.eval.rare_share or SHARE)
    if not rare:
        raise UserError(f"{home}: no right answer among the samples; raise n={x.n}")
    config = yaml.safe_load((root / x.row.paper / x.row.trained / "config.yaml").read_text())
    cuda = x.device == "cuda" or (x.device == "auto" and torch.cuda.is_available())
    pairs = [(row["prompt"], row["response"]) for row in rare]
    for key, of in (("nll", strict(Model, config["model"])), ("trained_nll", x.model)):
        on_chunk()
        model, tokenizer = load_model(of, root, "cuda" if cuda else "cpu")
        values = response_log_probs(model, tokenizer, pairs, 1)  # one whole response fits anywhere
        rare = [row | {key: -float(value)} for row, value in zip(rare, values, strict=True)]
        del model
    write_jsonl_gz(run.path / "rare.jsonl.gz", rare)
    rows = change_row(rare, [row["trained_nll"] for row in rare], x.row.benchmark)
    named = {"table": x.row.table, "model": x.label, "method": x.row.method, "seed": x.row.seed}
    rows = rows.assign(**named, step=step, run_id=run.run_id)
    write_csv(run.path / "metrics.csv", rows.reindex(columns=[*COLUMNS, "low", "high"]))
    run.finish()
    return run.path


def delta_nll(model, tokenizer, rare: list[dict], settings: Evaluation) -> pd.DataFrame:
    """One result row: mean NLL under `model` minus under the base model, nats a token (higher: more
    lost). No row where the base model had no right answer."""
    if not rare:
        return pd.DataFrame()
    pairs = [(row["prompt"], row["response"]) for row in rare]
    now = -response_log_probs(model, tokenizer, pairs, settings.batch).double().numpy()
    return change_row(rare, now, "rare-correct set")


def change_row(rare: list[dict], now, benchmark: str) -> pd.DataFrame:
    """The result row of NLL `now` of the rare answers, whose `nll` is the base model's."""
    change = pd.Series(now) - pd.Series([row["nll"] for row in rare])
    return pd.DataFrame(
        [
            {
                "benchmark": benchmark,
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
