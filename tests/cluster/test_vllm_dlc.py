"""DLC in a real vLLM, on CPU: the joint model reports the exact calibrated log-probabilities,
and the memory's weights can be renewed."""

from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import speaking
from transformers import AutoConfig

from common.config.schema import MemorySettings
from common.models import pretrain, store
from common.rollout import vllm, vllm_dlc
from common.rollout.dlc import MemoryNetwork, memory_network
from common.rollout.local import token_ids
from common.types import Prompt

pytestmark = pytest.mark.skipif(
    find_spec("vllm") is None, reason="vLLM is not installed here: make test-cluster runs these"
)
MU, TEMPERATURE = 0.5, 1.3
LONG = " ".join(map(str, [*range(1, 99), *range(1, 50)]))  # a whole block of cached tokens
SIZES = dict(intermediate_size=64, max_position_embeddings=256, initializer_range=0.16)
PROMPTS = [Prompt("a", "3 5 7 12 = 41", ""), Prompt("b", LONG, "")]


def trained(memory: MemoryNetwork, seed: int) -> MemoryNetwork:
    """The memory with opinions of its own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in memory.model.parameters():
            parameter.add_(0.4 * (torch.rand(parameter.shape, generator=generator) - 0.5))
    return memory


@pytest.fixture(scope="module")
def parts():
    """(policy with a tied head, tokenizer, memory of half the width with a head of its own)."""
    tokenizer = pretrain.tokenizer()
    policy = speaking(tokenizer, **SIZES, hidden_size=128, tie_word_embeddings=True)
    made = MemorySettings(mu=MU, lr=1e-2, start="random", shrink=2, importance_cap=None)
    memory = memory_network(made, policy, tokenizer, seed=0)
    return policy, tokenizer, trained(memory, 1)


def engine(parts, folder):
    """vLLM's joint model, as verl builds it from the policy's checkpoint; then it sends weights."""
    policy, tokenizer, memory = parts
    store.save(policy, tokenizer, folder / "policy")
    store.save(memory.model, tokenizer, folder / "memory")
    described = [AutoConfig.from_pretrained(folder / name) for name in ("policy", "memory")]
    vllm_dlc.register()
    llm = vllm.engine(
        str(folder / "policy"),
        temperature=TEMPERATURE,
        device="cpu",
        threads=1,
        hf_overrides=vllm_dlc.description(*described, MU),
        load_format="dummy",
        worker_extension_cls="joint_weights.Loaded",
    )
    send(llm, folder, load_file(folder / "policy" / "model.safetensors"), memory)
    return llm


def send(llm, folder, policy: dict, memory: MemoryNetwork) -> None:
    # verl sends a tied head under both of its names
    state = {name: tensor.clone() for name, tensor in memory.model.state_dict().items()}
    named = {vllm_dlc.PREFIX + name: tensor for name, tensor in state.items()}
    save_file(policy | named, folder / "sent.safetensors")
    llm.collective_rpc("load_memory", args=(str(folder / "sent.safetensors"),))
    assert llm.reset_prefix_cache()


@pytest.fixture(scope="module")
def llm(parts, tmp_path_factory):
    path = tmp_path_factory.mktemp("dlc")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CACHE_ROOT", str(path / "cache"))
        yield engine(parts, path)


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
    prompts = token_ids(tokenizer, [prompt.text for prompt in PROMPTS])
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


def test_new_weights_of_the_memory_take_effect_also_on_cached_prompts(llm, parts, tmp_path):
    _, tokenizer, memory = parts
    drawn(llm, tokenizer, PROMPTS, 2, 4)  # prompt b's block is in the cache
    trained(memory, 2)
    stale = triples(drawn(llm, tokenizer, PROMPTS, 2, 4), 2)
    assert errors(parts, stale) > 0.1
    send(llm, tmp_path, {}, memory)
    fresh = triples(drawn(llm, tokenizer, PROMPTS, 2, 4), 2)
    assert errors(parts, fresh) < 1e-4


def test_a_tied_memory_of_another_architecture_and_an_untied_policy(parts, tmp_path):
    tokenizer = parts[1]
    policy = speaking(tokenizer, **SIZES, hidden_size=128, tie_word_embeddings=False)
    shape = dict(hidden_size=64, head_dim=32, tie_word_embeddings=True)
    other = speaking(tokenizer, "qwen3", **SIZES, **shape)
    store.save(other, tokenizer, tmp_path / "other")
    given = MemorySettings(MU, 1e-2, "checkpoint", 1, None, str(tmp_path / "other"))
    made = policy, tokenizer, trained(memory_network(given, policy, tokenizer, seed=0), 4)
    llm = engine(made, tmp_path)
    assert errors(made, triples(drawn(llm, tokenizer, PROMPTS, 2, 4), 2)) < 1e-4
    llm.collective_rpc("set_memory_weight", args=(0.0,))
    alone = triples(drawn(llm, tokenizer, PROMPTS, 2, 4), 2)
    assert errors(made, alone, mu=0.0) < 1e-4
    assert errors(made, alone) > 0.1


def test_mu_reaches_a_model_behind_vllms_cuda_graphs():
    from vllm.compilation.cuda_graph import CUDAGraphWrapper
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    model, worker = SimpleNamespace(mu=MU), vllm_dlc.Sync()
    wrapper, runner = object.__new__(CUDAGraphWrapper), object.__new__(GPUModelRunner)
    wrapper.runnable, runner.model, worker.model_runner = model, wrapper, runner
    worker.set_memory_weight(0.0)
    assert model.mu == 0.0


def test_the_memorys_graphs_do_not_overwrite_the_policys_states():
    """vLLM gives a compiled body's output back to the memory that all of its graphs share."""
    from common.rollout.vllm_dlc_model import CalibratedForCausalLM

    shared = torch.empty(3, 2)
    joint = object.__new__(CalibratedForCausalLM)
    torch.nn.Module.__init__(joint)
    object.__setattr__(joint, "policy", lambda ids, positions: shared.fill_(1.0))
    object.__setattr__(joint, "memory", lambda ids, positions: shared.fill_(2.0))
    assert joint(None, None).tolist() == [[1.0, 1.0, 2.0, 2.0]] * 3
