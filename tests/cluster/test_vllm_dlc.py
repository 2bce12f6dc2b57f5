"""DLC in a real vLLM, on CPU: the joint model samples from the exact calibrated distribution, the
memory's weights can be renewed, and every process of an engine knows the model."""

from importlib.util import find_spec

import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.stats import chisquare
from tiny import network
from transformers import AutoConfig

from common.config.schema import Sampler
from common.models import pretrain, store
from common.rollout import vllm, vllm_dlc
from common.rollout.dlc import MemoryNetwork, memory_network
from common.types import Prompt

pytestmark = pytest.mark.skipif(
    find_spec("vllm") is None, reason="vLLM is not installed here: make test-cluster runs these"
)
MU, TEMPERATURE = 0.5, 1.3
LONG = " ".join(map(str, [*range(1, 99), *range(1, 50)]))  # a whole block of cached tokens
PROMPTS = [Prompt("a", "3 5 7 12 = 41", ""), Prompt("b", LONG, "")]


def trained(memory: MemoryNetwork, seed: int) -> MemoryNetwork:
    """The memory with opinions of its own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in memory.model.parameters():
            parameter.add_(0.4 * (torch.rand(parameter.shape, generator=generator) - 0.5))
    return memory


def sizes(tokenizer) -> dict:
    return dict(
        vocab_size=len(tokenizer),
        intermediate_size=64,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        initializer_range=0.16,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """(policy with a tied head, tokenizer, memory of half the width with a head of its own)."""
    tokenizer = pretrain.tokenizer()
    policy = network(**sizes(tokenizer), hidden_size=128, tie_word_embeddings=True)
    memory = MemoryNetwork(policy, mu=MU, lr=1e-2, start="random", shrink=2, seed=0)
    return policy, tokenizer, trained(memory, 1)


@pytest.fixture(scope="module")
def llm(parts, tmp_path_factory):
    policy, tokenizer, memory = parts
    path = tmp_path_factory.mktemp("dlc")
    vllm_dlc.save(policy, memory, tokenizer, path / "joint")
    vllm_dlc.register()
    settings = {"temperature": TEMPERATURE, "device": "cpu", "threads": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CACHE_ROOT", str(path / "cache"))
        yield vllm.engine(str(path / "joint"), **settings, worker_extension_cls=vllm_dlc.SYNC)


def drawn(llm, tokenizer, prompts: list[Prompt], n: int, max_tokens: int) -> list:
    sampling = {"temperature": TEMPERATURE, "top_p": 1.0, "max_tokens": max_tokens}
    return vllm._sample(llm, tokenizer, prompts, (0,), n=n, **sampling)


@torch.no_grad()
def calibrated(policy, memory, rows: list[list[int]], mu: float = MU) -> torch.Tensor:
    """Log-probabilities at every position, (len(rows), T, V), from plain forward passes."""
    both = (m(input_ids=torch.tensor(rows)).logits.double() for m in (policy, memory.model))
    f, g = both
    return torch.log_softmax((f - mu * g) / TEMPERATURE, -1)


def errors(parts, samples: list[tuple[int, list[int], list[float]]], mu: float = MU) -> float:
    """Largest |reported - exact| log-probability of samples (prompt, tokens, log-probs)."""
    policy, tokenizer, memory = parts
    prompts = vllm.prompt_ids(tokenizer, [prompt.text for prompt in PROMPTS])
    worst = 0.0
    for i, tokens, reported in samples:
        exact = calibrated(policy, memory, [prompts[i] + tokens], mu)[0, len(prompts[i]) - 1 : -1]
        exact = exact.gather(1, torch.tensor(tokens)[:, None])[:, 0]
        worst = max(worst, (exact - torch.tensor(reported)).abs().max().item())
    return worst


def triples(completions: list, n: int) -> list[tuple[int, list[int], list[float]]]:
    return [
        (i // n, list(one.token_ids), vllm.token_log_probs(one))
        for i, one in enumerate(completions)
    ]


def test_log_probs_are_those_of_plain_forward_passes(llm, parts):
    samples = triples(drawn(llm, parts[1], PROMPTS, 8, 12), 8)
    assert errors(parts, samples) < 1e-4
    assert errors(parts, samples, mu=0.0) > 0.1  # the test could tell the two apart


def test_two_tokens_follow_the_exact_calibrated_distribution(llm, parts):
    """Chi-square of 12,000 samples against softmax((f - mu m) / T), enumerated."""
    policy, tokenizer, memory = parts
    n, end = 12_000, tokenizer.eos_token_id
    prompt = vllm.prompt_ids(tokenizer, [PROMPTS[0].text])[0]
    first = calibrated(policy, memory, [prompt])[0, -1].exp().tolist()
    rows = [[*prompt, token] for token in range(len(first))]
    second = calibrated(policy, memory, rows)[:, -1].exp().tolist()
    cells = {}
    for a, p in enumerate(first):
        cells |= {(a, end): p} if a == end else {(a, b): p * q for b, q in enumerate(second[a])}
    counts = dict.fromkeys(cells, 0)
    for one in drawn(llm, tokenizer, PROMPTS[:1], n, 2):
        a, b = (*one.token_ids, end)[:2]
        counts[a, b] += 1
    frequent = [cell for cell, p in cells.items() if p * n >= 8]
    observed = [counts[cell] for cell in frequent]
    expected = [cells[cell] * n for cell in frequent]
    assert len(frequent) > 200
    rest = [n - sum(observed)], [n - sum(expected)]
    assert chisquare(observed + rest[0], expected + rest[1]).pvalue > 1e-3
    alone = calibrated(policy, memory, [prompt], mu=0.0)[0, -1].exp()
    assert (alone - torch.tensor(first)).abs().sum() > 0.2


def test_new_weights_of_the_memory_take_effect_also_on_cached_prompts(llm, parts):
    _, tokenizer, memory = parts
    drawn(llm, tokenizer, PROMPTS, 2, 4)  # prompt b's block is in the cache
    trained(memory, 2)
    stale = triples(drawn(llm, tokenizer, PROMPTS, 2, 4), 2)
    assert errors(parts, stale) > 0.1
    vllm_dlc.send(llm, memory)
    fresh = triples(drawn(llm, tokenizer, PROMPTS, 2, 4), 2)
    assert errors(parts, fresh) < 1e-4


@pytest.mark.parametrize("memory_tied", [True, False])
def test_verl_can_build_it_from_the_policy_and_send_the_weights_later(parts, tmp_path, memory_tied):
    """A policy with an untied head, and a memory of another architecture from a checkpoint; the
    other tests have a tied policy with either memory."""
    tokenizer = parts[1]
    policy = network(**sizes(tokenizer), hidden_size=128, tie_word_embeddings=False)
    tied = dict(tie_word_embeddings=memory_tied)
    other = network("qwen3", **sizes(tokenizer), hidden_size=64, head_dim=32, **tied)
    store.save(policy, tokenizer, tmp_path / "policy")
    store.save(other, tokenizer, tmp_path / "memory")
    given = Sampler(MU, 1e-2, "checkpoint", 1, None, str(tmp_path / "memory"))
    memory = trained(memory_network(given, policy, tokenizer, seed=0), 4)
    described = [AutoConfig.from_pretrained(tmp_path / name) for name in ("policy", "memory")]
    llm = vllm.engine(
        str(tmp_path / "policy"),
        temperature=TEMPERATURE,
        device="cpu",
        threads=1,
        hf_overrides=vllm_dlc.description(*described, MU),
        load_format="dummy",
        worker_extension_cls=vllm_dlc.SYNC,
    )
    sent = load_file(tmp_path / "policy" / "model.safetensors")
    # verl sends a tied head under both of its names
    for name, tensor in memory.model.state_dict().items():
        sent[vllm_dlc.PREFIX + name] = tensor.clone()
    save_file(sent, tmp_path / "sent.safetensors")
    llm.collective_rpc("load_memory", args=(str(tmp_path / "sent.safetensors"),))
    assert llm.reset_prefix_cache()
    made = (policy, tokenizer, memory)
    both = triples(drawn(llm, tokenizer, PROMPTS, 2, 4), 2)
    assert errors(made, both) < 1e-4
    llm.collective_rpc("set_memory_weight", args=(0.0,))
    alone = triples(drawn(llm, tokenizer, PROMPTS, 2, 4), 2)
    assert errors(made, alone, mu=0.0) < 1e-4
    assert errors(made, alone) > 0.1
