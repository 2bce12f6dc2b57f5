from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from late import Late
from scipy.stats import chisquare
from tiny import SIZES, network, unsettled

from common.models import pretrain
from common.models.llama import rotated
from common.models.policy import log_probs
from common.rollout import local, recorded
from common.rollout.decoder import LlamaDecoder, TransformersDecoder, make_decoder
from common.rollout.local import encode, end_tokens, generate, nucleus

llama = Late("transformers.models.llama.modeling_llama")
VOCABULARY, EOS = SIZES["vocab_size"], 1
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 2.0}
MODELS = {
    "qwen2 tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2 untied": ("qwen2", {"tie_word_embeddings": False}),
    "llama": ("llama", {}),
    "llama head_dim": ("llama", {"head_dim": 16}),
    "mistral": ("mistral", {"sliding_window": None}),
    # What LlamaDecoder does not compute must go the other way:
    "llama dynamic": ("llama", {"rope_parameters": DYNAMIC}),
    "mistral window": ("mistral", {"sliding_window": 4}),
    "qwen2 window": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0},
    ),
    "llama biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama gelu": ("llama", {"hidden_act": "gelu"}),
    "gpt2": ("gpt2", {"num_key_value_heads": 4}),
    "gpt neox": ("gpt_neox", {"num_key_value_heads": 4}),
}
FUSED = {"qwen2 tied", "qwen2 untied", "llama", "llama head_dim", "mistral"}


def make(name: str):
    kind, sizes = MODELS[name]
    return unsettled(network(kind, **sizes))


def left_padded(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(2, VOCABULARY, (len(lengths), max(lengths)))
    mask = (torch.arange(max(lengths)) >= max(lengths) - torch.tensor(lengths)[:, None]).long()
    return torch.where(mask > 0, ids, 0), mask


@torch.no_grad()
def plain(model, sequence: list[int]) -> torch.Tensor:
    """The last position's logits of one unpadded sequence, no cache: the obvious way."""
    return model(input_ids=torch.tensor([sequence]), use_cache=False).logits[0, -1].float()


def assert_logits(model, logits, sequences):
    expected = torch.stack([plain(model, sequence) for sequence in sequences])
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


DECODERS = [(name, how) for name in MODELS for how in ("chosen", "transformers")]


@pytest.mark.parametrize("lengths", [(5, 5, 5), (1, 7, 4)], ids=["equal", "padded"])
@pytest.mark.parametrize(("name", "decoder"), DECODERS)
def test_decoders_agree_with_a_plain_forward(name, decoder, lengths):
    model = make(name)
    cached = make_decoder(model, 8) if decoder == "chosen" else TransformersDecoder(model)
    if decoder == "chosen":
        assert type(cached) is (LlamaDecoder if name in FUSED else TransformersDecoder)
    ids, mask = left_padded(*lengths)
    sequences = [row[keep > 0].tolist() for row, keep in zip(ids, mask, strict=True)]

    assert_logits(model, cached.prefill(ids, mask), sequences)
    cached.repeat(2)
    sequences = [list(sequence) for sequence in sequences for _ in range(2)]

    def step():
        tokens = torch.randint(2, VOCABULARY, (len(sequences),))
        for sequence, token in zip(sequences, tokens.tolist(), strict=True):
            sequence.append(token)
        assert_logits(model, cached.step(tokens), sequences)

    step()
    step()
    step()
    rows = torch.tensor([5, 0, 3])  # a subset, in another order
    cached.keep(rows)
    sequences = [sequences[row] for row in rows]
    step()
    step()
    cached.keep(torch.tensor([1]))
    sequences = [sequences[1]]
    step()
    step()


@pytest.mark.parametrize("network", sorted(FUSED))
@pytest.mark.parametrize("lengths", [(5, 5, 5), (1, 7, 4)], ids=["equal", "padded"])
def test_a_gpus_steps_draw_the_same_tokens(lengths, network, monkeypatch):
    """With shared prompts, windows and seldom looks, where a graph is only a call. Products of
    other sizes round otherwise, so on some processors one response of the 120 has a uniform too
    close to a border."""
    model = make(network)
    ids, mask = left_padded(*lengths)
    settings = dict(group_size=40, max_tokens=100)
    plain_one = sample(model, ids, mask, **settings)
    shapes, windows = [], []

    def decode(*given, **named):
        return recorded.decode(*given, **named, record=lambda step: (step(), step)[1])

    step, keep = recorded.Rows.step, recorded.Rows.keep
    monkeypatch.setattr(local, "_decode", decode)
    monkeypatch.setattr(
        recorded.Rows, "step", lambda rows, window: (windows.append(window), step(rows, window))
    )
    monkeypatch.setattr(
        recorded.Rows,
        "keep",
        lambda rows, *a, **b: (keep(rows, *a, **b), shapes.append(rows.shape)),
    )
    shared = sample(model, ids, mask, **settings)
    sizes = [120, *(prompts * group for prompts, group in shapes)]
    assert all(2 * later <= earlier for earlier, later in pairwise(sizes))
    assert len(sizes) > 1  # rows left
    assert windows == [32 if t < 32 else 64 if t < 64 else 100 for t in range(len(windows))]
    alike = (shared.response_ids == plain_one.response_ids).all(1)
    assert alike.sum() >= 119
    assert torch.equal(shared.mask[alike], plain_one.mask[alike])
    log_probs = shared.log_probs[alike], plain_one.log_probs[alike]
    torch.testing.assert_close(*log_probs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["qwen2 tied", "llama head_dim"])
def test_rotations_are_those_of_transformers_to_the_bit(name):
    """Values and gradients, so that a stored run is trained again byte for byte."""
    model = make(name)
    decoder = make_decoder(model, 8)
    ids, mask = left_padded(1, 7, 4)
    decoder.prefill(ids, mask)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    x = torch.randn(3, 4, 7, decoder.head_dim, requires_grad=True)
    cos, sin = (table[:, None] for table in model.model.rotary_emb(x, positions))
    theirs, _ = llama.apply_rotary_pos_emb(x, x, cos[:, 0], sin[:, 0])
    ours = rotated(x, *decoder.rotations(positions))
    assert torch.equal(ours, theirs)
    upstream = torch.randn_like(x)
    gradients = [torch.autograd.grad(one, x, upstream)[0] for one in (ours, theirs)]
    assert torch.equal(*gradients)


# ---- sampling


def sample(model, ids, mask, *, seed=0, **settings):
    defaults = dict(group_size=4, temperature=1.0, max_tokens=6, eos_id=EOS)
    generator = torch.Generator().manual_seed(seed)
    return generate(model, ids, mask, **(defaults | settings), generator=generator)


@pytest.mark.parametrize("name", ["qwen2 tied", "gpt2"])
@pytest.mark.parametrize(("temperature", "reported"), [(1.0, None), (0.7, None), (0.7, 1.0)])
def test_sampled_frequencies_match_the_exact_distribution(name, temperature, reported):
    model, draws = make(name), 20_000
    ids, mask = left_padded(3, 6)
    given = dict(temperature=temperature, reported=reported, max_tokens=2, seed=11)
    batch = sample(model, ids, mask, group_size=draws, **given)
    for prompt in range(2):
        sequence = ids[prompt][mask[prompt] > 0].tolist()
        own = batch.prompts(prompt, prompt + 1)
        # the first token, then the second given the likeliest first
        first = own.response_ids[:, 0]
        assert_frequencies(first, plain(model, sequence) / temperature)
        common = first[first != EOS].mode().values.item()
        second = own.response_ids[first == common, 1]
        assert len(second) > 1000
        assert_frequencies(second, plain(model, [*sequence, common]) / temperature)


def assert_frequencies(tokens: torch.Tensor, logits: torch.Tensor) -> None:
    expected = torch.softmax(logits.double(), -1).numpy() * len(tokens)
    counts = tokens.bincount(minlength=VOCABULARY).numpy()
    often = expected >= 5  # the others are counted together
    pooled = [[*x[often], x[~often].sum()] for x in (counts, expected)]
    assert chisquare(*[x if pooled[1][-1] > 0 else x[:-1] for x in pooled]).pvalue > 1e-4


@pytest.mark.parametrize(("temperature", "reported"), [(1.0, None), (0.7, None), (0.7, 1.0)])
@pytest.mark.parametrize("name", ["qwen2 tied", "qwen2 untied", "llama", "mistral window", "gpt2"])
def test_log_probs_equal_the_trainers(name, temperature, reported):
    model = make(name)
    ids, mask = left_padded(2, 7, 5)
    batch = sample(model, ids, mask, temperature=temperature, reported=reported, max_tokens=10)
    with torch.no_grad():
        trainers, _ = log_probs(model, batch, reported or temperature)
    torch.testing.assert_close(
        batch.log_probs, trainers * batch.mask, rtol=1e-5, atol=1e-5, check_dtype=False
    )
    assert (batch.log_probs[batch.mask > 0] < 0).all()


@pytest.mark.parametrize("name", ["qwen2 tied", "gpt2"])
def test_a_row_does_not_depend_on_the_rows_beside_it(name):
    model = make(name)
    ids, mask = left_padded(4, 4, 7)
    alone = sample(model, ids, mask, group_size=8, max_tokens=10)
    for prompt in range(3):  # rows before and after it end earlier or later than they did
        others = torch.where(mask > 0, torch.randint_like(ids, 2, VOCABULARY), 0)
        others[prompt] = ids[prompt]
        beside = sample(model, others, mask, group_size=8, max_tokens=10)
        one, two = alone.prompts(prompt, prompt + 1), beside.prompts(prompt, prompt + 1)
        lengths = one.mask.sum(1).long()
        assert torch.equal(lengths, two.mask.sum(1).long())
        for row, length in enumerate(lengths):
            assert torch.equal(one.response_ids[row, :length], two.response_ids[row, :length])
        assert not torch.equal(alone.mask.sum(1), beside.mask.sum(1))  # the others did change


# ---- prompts to ids


def test_encode_pads_on_the_left():
    tokenizer = pretrain.tokenizer()
    ids, mask = encode(tokenizer, ["3 5 = 8", "12 = 12", "1 2 3 4 = 5"], "cpu")
    assert mask.tolist() == [[0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1]]
    assert (ids[mask == 0] == tokenizer.pad_token_id).all()
    assert tokenizer.decode(ids[0][mask[0] > 0]) == "35=8"
    assert tokenizer.decode(ids[1][mask[1] > 0]) == "12=12"


def test_a_response_ends_at_every_token_that_the_model_names():
    """Llama 3.2 Instruct's generation_config.json has three; others repeat the tokenizer's."""
    llama = SimpleNamespace(eos_token_id=128009)
    assert end_tokens(llama, [128001, 128008, 128009]) == [128001, 128008, 128009]
    assert end_tokens(llama, 128001) == [128001, 128009]
    assert end_tokens(llama, None) == [128009]


def drawn(model, **settings):
    torch.manual_seed(5)  # of the prompts
    return sample(model, *left_padded(3, 5), seed=3, **settings)


def test_at_temperature_0_the_likeliest_token_is_taken():
    model = make("llama")
    batch = drawn(model, group_size=1, temperature=0)
    for row in range(2):
        sequence = batch.prompt_ids[row][batch.prompt_mask[row] > 0].tolist()
        for token, log_prob, real in zip(
            batch.response_ids[row], batch.log_probs[row], batch.mask[row], strict=True
        ):
            if real:
                logits = plain(model, sequence)
                assert token == logits.argmax()
                torch.testing.assert_close(log_prob, logits.log_softmax(-1)[token])
                sequence.append(int(token))


def test_a_nucleus_is_the_fewest_tokens_that_are_as_likely():
    p = torch.tensor([[0.1, 0.4, 0.3, 0.2], [0.97, 0.01, 0.01, 0.01]])
    kept = nucleus(p.log(), 1.0, 0.7)
    torch.testing.assert_close(kept, torch.tensor([[0, 0.4, 0.3, 0], [0.97, 0, 0, 0]]))
    hot = nucleus(p[:1].log(), 0.5, 0.5)  # squares: 0.16 of 0.30 is above a half
    torch.testing.assert_close(hot, torch.tensor([[0, 0.16 / 0.30, 0, 0]]))


def test_what_is_drawn_with_top_p_lies_in_the_nucleus():
    model = make("llama")
    batch = drawn(model, group_size=40, temperature=1.0, top_p=0.3, max_tokens=1)
    for row in range(80):
        prompt = row // 40
        sequence = batch.prompt_ids[prompt][batch.prompt_mask[prompt] > 0].tolist()
        logits = plain(model, sequence)
        token = int(batch.response_ids[row, 0])
        assert nucleus(logits[None], 1.0, 0.3)[0, token] > 0
        torch.testing.assert_close(batch.log_probs[row, 0], logits.log_softmax(-1)[token])
    assert len(set(batch.response_ids[:40, 0].tolist())) > 1


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("ends", [{EOS}, {EOS, 7, 9}])
def test_a_response_ends_at_each_end_token_and_only_the_limit_cuts_it_off(name, ends):
    model, limit = make(name), 12
    never = drawn(model, group_size=40, eos_id=VOCABULARY, max_tokens=limit)
    batch = drawn(model, group_size=40, more_ends=sorted(ends), max_tokens=limit)
    assert batch.group_size == 40
    lengths = batch.mask.sum(1).int().tolist()
    width = batch.mask.shape[1]
    assert width == max(lengths)
    for row, length in enumerate(lengths):
        tokens = never.response_ids[row].tolist()
        assert length == next((i + 1 for i, token in enumerate(tokens) if token in ends), limit)
        assert batch.mask[row].tolist() == [1.0] * length + [0.0] * (width - length)
        assert batch.response_ids[row, :length].tolist() == tokens[:length]
        assert batch.stopped[row] == (tokens[length - 1] in ends)
    assert 5 < batch.stopped.sum() < 80  # both ends were seen
