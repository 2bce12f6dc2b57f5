"""Responses to verdicts to rewards."""

import torch

from common.types import Prompt, RolloutBatch, Verdict


def verify_batch(
    batch: RolloutBatch, prompts: list[Prompt], tokenizer, verifier
) -> tuple[list[str], list[Verdict]]:
    """The text and the verdict of every row, in order. Equal responses to one prompt are verified
    once."""
    ids = [
        row[: int(length)]
        for row, length in zip(batch.response_ids.tolist(), batch.mask.sum(1).tolist(), strict=True)
    ]
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    known: dict[tuple[str, str], Verdict] = {}
    verdicts = []
    for row, text in enumerate(texts):
        reference = prompts[row // batch.group_size].reference
        if (text, reference) not in known:
            known[text, reference] = verifier(text, reference)
        verdicts.append(known[text, reference])
    return texts, verdicts


def rewards(verdicts: list[Verdict], group_size: int, correct: float, wrong: float) -> torch.Tensor:
    """Rewards (P, G): R_c * score + R_w * (1 - score), exactly R_c or R_w for a score of 1 or 0
    (F-GRPO Eq. 1)."""
    scores = torch.tensor([verdict.reward for verdict in verdicts]).view(-1, group_size)
    return correct * scores + wrong * (1 - scores)
