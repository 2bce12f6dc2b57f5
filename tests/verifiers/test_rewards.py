"""Verdicts to rewards, and equal responses verified once."""

import torch

from common.models import pretrain
from common.types import Prompt, RolloutBatch, Verdict
from common.verifiers.rewards import rewards, verify_batch


def test_rewards_are_exactly_the_two_values():
    verdicts = [Verdict("correct", 1.0), Verdict("wrong", 0.0), Verdict("unparsed", 0.0)] * 2
    assert torch.equal(rewards(verdicts, 3, 0.1, -0.6), torch.tensor([[0.1, -0.6, -0.6]] * 2))


def test_equal_responses_are_verified_once_a_reference():
    tokenizer = pretrain.tokenizer()
    texts = ["3+5", "3+5", "5", "3+5"]
    ids = tokenizer([text + "<eos>" for text in texts], add_special_tokens=False)["input_ids"]
    width = max(map(len, ids))
    response = torch.tensor([row + [0] * (width - len(row)) for row in ids])
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (width - len(row)) for row in ids])
    batch = RolloutBatch(
        torch.ones(2, 1), torch.ones(2, 1), response, mask, mask * 0, torch.ones(4).bool()
    )
    calls = []

    def verify(pairs):
        calls.extend(pairs)
        return [Verdict("wrong", 0.0, f"{text} {reference}") for text, reference in pairs]

    prompts = [Prompt("a", "", "one"), Prompt("b", "", "two")]
    out, verdicts = verify_batch(batch, prompts, tokenizer, verify)
    assert out == texts
    assert [v.parsed for v in verdicts] == ["3+5 one", "3+5 one", "5 two", "3+5 two"]
    assert calls == [("3+5", "one"), ("3+5", "one"), ("5", "two"), ("3+5", "two")]
