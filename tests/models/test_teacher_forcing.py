import pytest
import torch
from plain_forward import plain_scores
from tiny import network

from common.models import teacher_forcing

VOCAB = 97
# a second family whose logits are capped and whose first layer sees few tokens
FAMILIES = {"qwen2": {}, "gemma2": {"head_dim": 8, "sliding_window": 7}}


@pytest.fixture(scope="module", params=FAMILIES)
def given(request):
    """A random model, and prompts and responses of unlike lengths."""
    sizes = FAMILIES[request.param]
    model = network(request.param, vocab_size=VOCAB, max_position_embeddings=128, **sizes)
    lengths = [(1, 1), (5, 1), (1, 9), (3, 30), (8, 12), (2, 30), (40, 2)]
    ids = lambda n: torch.randint(1, VOCAB, (n,)).tolist()  # noqa: E731
    return model, [(ids(prompt), ids(response)) for prompt, response in lengths]


@pytest.mark.parametrize(
    "bounds",
    [{}, {"tokens": 60, "logits": 3 * VOCAB}, {"tokens": 1, "logits": 1}],
    ids=["whole", "in parts", "one by one"],
)
@torch.no_grad()
def test_scores_are_those_of_plain_forward_passes(given, bounds):
    model, pairs = given
    found = teacher_forcing.scores(model, pairs, **bounds)
    for (prompt, response), both in zip(pairs, found, strict=True):
        for mine, exact in zip(both, plain_scores(model, prompt, response), strict=True):
            assert mine.shape == (len(response),)
            assert (mine - exact).abs().max() < 2e-5
    spread = torch.cat([entropy for _, entropy in found])
    assert spread.max() - spread.min() > 0.1  # no uniform model


def test_no_more_logits_than_allowed_are_there_at_once(given, monkeypatch):
    model, pairs = given
    seen, forward = [], model.forward

    def watched(**inputs):
        out = forward(**inputs)
        seen.append(out.logits.numel())
        return out

    monkeypatch.setattr(model, "forward", watched)
    teacher_forcing.scores(model, pairs, tokens=80, logits=10 * VOCAB)
    assert max(seen) <= 10 * VOCAB
    assert len(seen) > 10
    seen.clear()
    teacher_forcing.scores(model, pairs[-1:])  # a long prompt: of the response alone
    assert seen == [2 * VOCAB]


def test_batches_are_by_length_and_within_the_bound():
    lengths = [5, 30, 2, 9, 30, 4]
    found = teacher_forcing.batches(lengths, 40)
    assert sorted(i for batch in found for i in batch) == list(range(6))
    assert found[0] == [2, 5, 0, 3]  # four padded to nine tokens
    assert all(len(b) * max(lengths[i] for i in b) <= 40 for b in found)
    assert teacher_forcing.batches([100], 40) == [[0]]


def test_a_sequence_without_tokens_is_refused(given):
    with pytest.raises(ValueError, match="no token"):
        teacher_forcing.scores(given[0], [([1], [])])
