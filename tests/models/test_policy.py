import pytest
import torch
from plain_forward import plain_scores
from tiny import network, unsettled

from common.models.policy import log_probs
from common.types import RolloutBatch

VOCABULARY = 19
MODELS = {
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "mistral window": ("mistral", {"sliding_window": 4}),
    "gpt2": ("gpt2", {"num_key_value_heads": 4, "initializer_range": 0.02}),
}


@pytest.fixture
def make(float64):
    def make(name: str):
        kind, sizes = MODELS[name]
        small = dict(vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24)
        return unsettled(float64(network(kind, **small | sizes)))

    return make


def batch(prompts: list[list[int]], responses: list[list[int]], left: int = 0, right: int = 0):
    """The rectangle of ragged prompts and responses, with extra padding on either side."""
    longest = max(map(len, prompts)) + left
    width = max(map(len, responses)) + right
    prompt_ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    prompt_mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    ids = torch.tensor([r + [1] * (width - len(r)) for r in responses])
    mask = torch.tensor([[1.0] * len(r) + [0.0] * (width - len(r)) for r in responses])
    stopped = torch.ones(len(responses), dtype=torch.bool)
    return RolloutBatch(prompt_ids, prompt_mask, ids, mask, torch.zeros_like(mask), stopped)


def ragged(lengths: list[int], response_lengths: list[int]):
    torch.manual_seed(1)
    draw = lambda size: torch.randint(2, VOCABULARY, (size,)).tolist()  # noqa: E731
    return [draw(size) for size in lengths], [draw(size) for size in response_lengths]


def naive(model, prompts, responses, temperature):
    """Log-probability and entropy of every response token, one unpadded sequence at a time."""
    group, scores = len(responses) // len(prompts), []
    for row, response in enumerate(responses):
        scores.append(plain_scores(model, prompts[row // group], response, temperature))
    return [torch.cat(part) for part in zip(*scores, strict=True)]


def loss_and_gradients(model, chosen, entropy):
    """A loss in which every token has weights of its own, and its gradient for each parameter."""
    torch.manual_seed(5)
    weights = torch.randn(2, len(chosen), dtype=torch.float64)
    loss = (weights[0] * chosen + weights[1] * entropy).sum()
    return loss, torch.autograd.grad(loss, list(model.parameters()))


def assert_equal(one, two):
    torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("name", MODELS)
def test_shared_prompts_equal_full_sequences_and_so_do_the_gradients(make, name, temperature):
    model = make(name)
    prompts, responses = ragged([3, 7, 1], [4, 1, 6, 2, 5, 6])
    chosen, entropy = naive(model, prompts, responses, temperature)
    expected = loss_and_gradients(model, chosen, entropy)
    for extra in ({}, {"left": 3}, {"right": 4}, {"left": 1, "right": 2}):  # padding is nothing
        rectangle = batch(prompts, responses, **extra)
        mask = rectangle.mask > 0
        shared = log_probs(model, rectangle, temperature)
        assert all(out.shape == rectangle.mask.shape for out in shared)
        real = [out[mask] for out in shared]
        assert_equal(real, [chosen, entropy])
        assert_equal(loss_and_gradients(model, *real), expected)


def test_what_stands_on_padding_does_not_matter(make):
    model = make("qwen2")
    prompts, responses = ragged([3, 6], [2, 4, 5, 1])
    one = batch(prompts, responses, left=2, right=2)
    two = batch(prompts, responses, left=2, right=2)
    two.prompt_ids[two.prompt_mask == 0] = 7
    two.response_ids[two.mask == 0] = 9
    mask = one.mask > 0
    for a, b in zip(log_probs(model, one, 1.0), log_probs(model, two, 1.0), strict=True):
        assert_equal(a[mask], b[mask])


@pytest.mark.parametrize("group", [1, 3])
def test_responses_of_one_token(make, group):
    model = make("qwen2")
    prompts, responses = ragged([3, 2], [1] * 2 * group)
    chosen, entropy = naive(model, prompts, responses, 1.0)
    shared = log_probs(model, batch(prompts, responses), 1.0)
    assert_equal([out[:, 0] for out in shared], [chosen, entropy])
