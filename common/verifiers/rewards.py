"""From responses to verdicts, and from verdicts to rewards."""

import torch

from common.types import Prompt, RolloutBatch, Verdict, Verify


def verify_batch(
    batch: RolloutBatch, prompts: list[Prompt], tokenizer, verify: Verify
) -> tuple[list[str], list[Verdict]]:
    """Return the text and the verdict of every row of the batch, in order."""
    ids = [
        row[: int(length)]
        for row, length in zip(batch.response_ids.tolist(), batch.mask.sum(1).tolist(), strict=True)
    ]
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    references = [prompts[row // batch.group_size].reference for row in range(len(texts))]
    return texts, verify(list(zip(texts, references, strict=True)))


def rewards(verdicts: list[Verdict], group_size: int, correct: float, wrong: float) -> torch.Tensor:
    """Return the rewards (P, G): R_c * score + R_w * (1 - score), which is exactly R_c or R_w for a
    score of 1 or 0 (F-GRPO Eq. 1)."""
    scores = torch.tensor([verdict.reward for verdict in verdicts]).view(-1, group_size)
    return correct * scores + wrong * (1 - scores)
