"""A rollout takes the memory that is there: split, it says the same; too large, it says what to
change."""

import copy

import pytest
import torch
from refuses import refuses
from tiny import network

from common.rollout import fit, local
from common.rollout.dlc import MemoryNetwork

PROMPTS, GROUP, LENGTH, TOKENS = 3, 4, 5, 8


def test_parts_hold_every_row_once_in_order():
    sizes = [(3, 4, 12), (3, 4, 11), (3, 4, 4), (3, 4, 3), (1, 7, 2), (5, 1, 2)]
    for prompts, group, rows in sizes:
        made = fit.parts(prompts, group, rows)
        order = torch.arange(prompts * group).view(prompts, group)
        pieces = [order[some, of].flatten() for some, of in made]
        assert torch.cat(pieces).tolist() == list(range(prompts * group))
        assert max(map(len, pieces)) <= rows
    assert fit.parts(3, 4, 12) == [(slice(0, 3), slice(0, 4))]


def sample(model, device, memory=None, **settings):
    ids = torch.randint(2, 23, (PROMPTS, LENGTH), generator=torch.Generator().manual_seed(1))
    ids = ids.to(device)
    return local.generate(
        model.to(device),
        ids,
        torch.ones_like(ids),
        group_size=GROUP,
        temperature=1.0,
        max_tokens=TOKENS,
        eos_id=1,
        generator=torch.Generator().manual_seed(2),
        memory=memory,
        **settings,
    )


def leave(monkeypatch, models, rows: float) -> list[int]:
    """Let memory hold so many rows; returns the rows of each part, as they come to be decoded."""
    each = sum(fit.row_bytes(model, LENGTH + TOKENS, torch.float32) for model in models)
    monkeypatch.setattr(fit, "free_bytes", lambda device: (rows + 1) * each / fit.SHARE + 1)
    decode, sizes = local._decode, []

    def counted(decoder, ids, mask, uniforms, **settings):
        sizes.append(uniforms.shape[1])
        return decode(decoder, ids, mask, uniforms, **settings)

    monkeypatch.setattr(local, "_decode", counted)
    return sizes


@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
@pytest.mark.parametrize(
    ("rows", "expected"), [(12, [12]), (9, [8, 4]), (4, [4, 4, 4]), (3, [3, 1] * 3), (1, [1] * 12)]
)
def test_a_split_batch_says_the_same(monkeypatch, kind, rows, expected):
    model = network(kind, num_key_value_heads=2 if kind == "qwen2" else 4)
    whole = sample(model, "cpu")
    sizes = leave(monkeypatch, [model], rows)
    split = sample(model, "cpu")
    assert sizes == expected
    for field in ("response_ids", "mask", "stopped"):
        assert torch.equal(getattr(split, field), getattr(whole, field))
    torch.testing.assert_close(split.log_probs, whole.log_probs, rtol=1e-5, atol=1e-5)
    assert whole.mask.sum() > 12  # more than a token a row


def test_a_memory_network_is_counted_and_split_too(monkeypatch):
    model = network()
    memory = MemoryNetwork(copy.deepcopy(model), mu=0.5, lr=1e-3)
    whole = sample(model, "cpu", memory)
    sizes = leave(monkeypatch, [model, memory.model], 5)
    split = sample(model, "cpu", memory)
    assert sizes == [4, 4, 4]
    assert torch.equal(split.response_ids, whole.response_ids)
    torch.testing.assert_close(split.sampler_log_probs, whole.sampler_log_probs)


def test_not_even_one_row_names_the_key_before_any_compute(monkeypatch):
    model = network()
    leave(monkeypatch, [model], 0.9)
    monkeypatch.setattr(model, "forward", None)
    with refuses("sampling.max_tokens", 8) as one:
        sample(model, "cpu")
    assert "\n" not in str(one.value)
    with refuses("eval.max_tokens", 8):
        sample(model, "cpu", key="eval.max_tokens")


def test_bytes_of_a_row_are_those_of_its_cache():
    decoder = local.make_decoder(network(), TOKENS)
    ids = torch.ones(1, LENGTH, dtype=torch.long)
    decoder.prefill(ids, ids)
    logits = 4 * fit.LOGITS * 23
    cache = decoder.cache.numel() * decoder.cache.itemsize
    assert fit.row_bytes(network(), LENGTH + TOKENS, torch.float32) == cache + logits
    assert fit.row_bytes(network(), LENGTH + TOKENS, torch.bfloat16) == cache // 2 + logits
