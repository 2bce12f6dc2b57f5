"""The dry run's picture of vLLM's cache beside vLLM's own arithmetic and scheduler, no model."""

import json

import pytest

from common.backends.verl.cache import lengths, preemptions
from common.backends.verl.layout import BATCHED, BLOCK, SEQUENCES, token_bytes
from common.models.size import Size

SIZE = Size(7.62e9, 28, 3584, 512, 152_064, 131_072)
PROMPT, LIMIT, VOCAB = 96, 8192, 1000


@pytest.fixture
def config(tmp_path):
    """vLLM's, of a 7B as far as its cache depends on it."""
    from vllm.config import (
        CacheConfig,
        DeviceConfig,
        ModelConfig,
        ParallelConfig,
        SchedulerConfig,
        VllmConfig,
    )

    shape = {"hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4}
    shape |= {"num_hidden_layers": 28, "intermediate_size": 18_944, "vocab_size": VOCAB}
    kind = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "bfloat16"}
    (tmp_path / "config.json").write_text(json.dumps(kind | shape | {"rms_norm_eps": 1e-6}))
    length, folder = PROMPT + LIMIT, str(tmp_path)
    model = ModelConfig(folder, tokenizer=folder, skip_tokenizer_init=True, max_model_len=length)
    scheduler = SchedulerConfig(
        max_num_seqs=SEQUENCES,
        max_num_batched_tokens=BATCHED,
        max_model_len=length,
        enable_chunked_prefill=True,
        is_encoder_decoder=False,
    )
    cache = CacheConfig(block_size=BLOCK, enable_prefix_caching=True)
    made = VllmConfig(
        model_config=model,
        cache_config=cache,
        scheduler_config=scheduler,
        parallel_config=ParallelConfig(),
        device_config=DeviceConfig("cpu"),
    )
    cache.block_size, cache.kv_cache_layout = BLOCK, "NHD"
    return made


def caches(config, available: float):
    import torch
    from vllm.v1.core.kv_cache_utils import get_kv_cache_configs
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    one = FullAttentionSpec(block_size=BLOCK, num_kv_heads=4, head_size=128, dtype=torch.bfloat16)
    layers = {f"model.layers.{i}.self_attn.attn": one for i in range(SIZE.layers)}
    return get_kv_cache_configs(config, [layers], [int(available)])


def drawn(config, found, asked: list[int]) -> int:
    """Preemptions of vLLM's scheduler, where every response ends after so many tokens."""
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import (
        generate_scheduler_kv_cache_config,
        get_request_block_hasher,
        init_none_hash,
    )
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.request import Request
    from vllm.v1.structured_output import StructuredOutputManager

    kept = generate_scheduler_kv_cache_config(found)
    config.cache_config.num_gpu_blocks = kept.num_blocks
    scheduler = Scheduler(config, kept, StructuredOutputManager(config), block_size=BLOCK)
    init_none_hash(sha256)
    hashes = get_request_block_hasher(BLOCK, sha256)
    requests = []
    for i, length in enumerate(asked):
        ids = [(i + j) % VOCAB for j in range(PROMPT)]
        limit = SamplingParams(max_tokens=length, ignore_eos=True)
        more = {"sampling_params": limit, "pooling_params": None, "block_hasher": hashes}
        requests.append(Request(str(i), ids, **more))
        scheduler.add_request(requests[-1])
    while scheduler.has_unfinished_requests():
        step = scheduler.schedule()
        names = list(step.num_scheduled_tokens)
        running = [scheduler.requests[name] for name in names]
        sampled = [[7] if r.num_computed_tokens >= r.num_tokens else [] for r in running]
        places = {name: i for i, name in enumerate(names)}
        scheduler.update_from_output(step, ModelRunnerOutput(names, places, sampled))
    return sum(request.num_preemptions for request in requests)


def test_a_cache_has_as_many_blocks_as_in_vllm(config):
    (found,) = caches(config, 28e9)
    assert found.num_blocks == int(28e9 / (BLOCK * token_bytes(SIZE)))


@pytest.mark.parametrize(("tokens", "responses", "mean"), [(20_000, 96, 600), (60_000, 128, 300)])
def test_preemptions_are_those_of_vllms_scheduler(config, tokens, responses, mean):
    found = caches(config, tokens * token_bytes(SIZE))
    asked = lengths(responses, mean, 1500)
    ours = preemptions(responses, mean, 1500, PROMPT, tokens)
    theirs = drawn(config, found, asked)
    assert ours == pytest.approx(theirs, rel=0.05)
