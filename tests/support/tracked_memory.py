"""The memory of one GPU in a training pass of verl's FSDP2 engine at true size: counted without a
GPU, and measured on one.

To count it, PyTorch's FSDP2 and its memory tracker run on fake tensors and a fake process group:
every allocation is counted, none is made. The wrapping is verl 0.9.1's (utils/fsdp_utils.py).
Flash-attention, flash-attn's cross entropy and the entropy that torch.compile fuses do not run
without a GPU; functions that use the same memory replace them. Fragmentation, NCCL's buffers and
what the kernels take for themselves are not counted. To measure it, the same pass runs on one GPU
with PyTorch's own flash-attention; the last two functions are replaced there too.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AttentionInterface, AutoConfig

from common.models.hf import AutoModelForCausalLM

# The config.json of three models, as far as memory depends on it.
_ALL = dict(num_key_value_heads=8, max_position_embeddings=131_072, rms_norm_eps=1e-6) | dict(
    head_dim=128, hidden_act="silu", torch_dtype="bfloat16"
)
SHAPES = {
    "Qwen/Qwen2.5-1.5B": _ALL
    | dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", tie_word_embeddings=True)
    | dict(hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, vocab_size=151_936)
    | dict(num_attention_heads=12, num_key_value_heads=2),
    "Qwen/Qwen2.5-7B": _ALL
    | dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", tie_word_embeddings=False)
    | dict(hidden_size=3584, intermediate_size=18_944, num_hidden_layers=28, vocab_size=152_064)
    | dict(num_attention_heads=28, num_key_value_heads=4),
    "Qwen/Qwen3-14B": _ALL
    | dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", tie_word_embeddings=False)
    | dict(hidden_size=5120, intermediate_size=17_408, num_hidden_layers=40, vocab_size=151_936)
    | dict(num_attention_heads=40),
}


class _Attention(torch.autograd.Function):
    """A function that uses the memory of flash-attention, which keeps q, k, v, its output and one
    float32 per query and head."""

    @staticmethod
    def forward(ctx, q, k, v):
        out, scale = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32)
        ctx.save_for_backward(q, k, v, out, scale)
        return out

    @staticmethod
    def backward(ctx, grad):
        return tuple(torch.empty_like(one) for one in ctx.saved_tensors[:3])


class _OfLogits(torch.autograd.Function):
    """A function of the logits that returns one float32 per token. It keeps the logits, and its
    gradient takes their place (`in_place`) or new memory."""

    @staticmethod
    def forward(ctx, logits, in_place):
        ctx.save_for_backward(logits)
        ctx.in_place = in_place
        return torch.empty(len(logits), dtype=torch.float32)

    @staticmethod
    def backward(ctx, grad):
        logits = ctx.saved_tensors[0]
        return logits if ctx.in_place else torch.empty_like(logits), None


def _attention(module, q, k, v, mask, **rest):
    if q.device.type == "cuda":
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    else:
        out = _Attention.apply(q, k, v)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("packed_like", _attention)


def peak_gb(
    shape: dict, *, gpus: int, tokens: int, bonus: bool = False, tempered: bool = False
) -> float:
    """Return the most GB that one of `gpus` GPUs holds during a training pass over `tokens` packed
    tokens, with both moments and the gradients of an earlier pass. `shape` is one of
    SHAPES; `bonus`: the loss has an entropy bonus; `tempered`: the temperature is not
    1."""
    with _group("cpu", gpus) as mesh, FakeTensorMode():
        model = _sharded(shape, mesh)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        tracker = FSDPMemTracker(model, optimizer)
        ids = torch.zeros(1, tokens, dtype=torch.long)
        tracker.track_inputs((ids,))
        with tracker:
            _learn(model, optimizer, ids, bonus, tempered)
        (held,) = tracker.get_tracker_snapshot("peak").values()
    return held["Total"] / 1e9


def held_gb(
    shape: dict, *, tokens: int, bonus: bool = False, tempered: bool = False
) -> tuple[float, float]:
    """Run the same pass on the one GPU of this machine. Return the most GB that its tensors took,
    and the most GB that PyTorch's allocator took for them. What the libraries of both threads (of
    the pass and of its gradient) take for themselves is taken beforehand and not counted."""
    gc.collect()  # a model has reference cycles
    torch.cuda.empty_cache()
    torch.nn.Linear(64, 64, device="cuda", dtype=torch.bfloat16)(
        torch.ones(64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    ).sum().backward()
    before = torch.cuda.memory_allocated()
    with _group("cuda", 1) as mesh, torch.device("cuda"):
        model = _sharded(shape, mesh)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        ids = torch.randint(0, shape["vocab_size"], (1, tokens))
        torch.cuda.reset_peak_memory_stats()
        _learn(model, optimizer, ids, bonus, tempered)
        torch.cuda.synchronize()
    held = torch.cuda.max_memory_allocated() - before
    return held / 1e9, torch.cuda.max_memory_reserved() / 1e9


@contextmanager
def _group(device: str, gpus: int) -> Iterator[DeviceMesh]:
    real = device == "cuda" and dist.is_nccl_available()
    store, backend = (dist.HashStore(), "nccl") if real else (FakeStore(), "fake")
    dist.init_process_group(backend, store=store, rank=0, world_size=gpus)
    try:
        yield init_device_mesh(device, (gpus,))  # "cpu": tensors that need no GPU
    finally:
        dist.destroy_process_group()


def _sharded(shape: dict, mesh: DeviceMesh) -> torch.nn.Module:
    config = AutoConfig.for_model(**shape)
    model = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="packed_like"
    )
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=True)
    parts = [*model.model.layers]
    if not config.tie_word_embeddings:
        parts += [model.model.embed_tokens, model.lm_head]
    for part in [*parts, model]:
        fully_shard(part, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    return model


def _learn(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    ids: torch.Tensor,
    bonus: bool,
    tempered: bool,
) -> None:
    """Run a training pass with both moments and the gradients of an earlier pass."""
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()  # makes the moments
    with torch.autocast(ids.device.type, dtype=torch.bfloat16):
        places = torch.arange(ids.shape[1], device=ids.device)[None]
        output = model(input_ids=ids, position_ids=places, use_cache=False)
        logits = output.logits.squeeze(0)
        if tempered:
            logits = logits / torch.ones(len(logits), 1).to(logits.dtype)
        parts = [_OfLogits.apply(logits, not bonus)]
        parts += [_OfLogits.apply(logits, False)] if bonus else []
        loss = sum(part.sum() for part in parts)
    del output, logits, parts
    loss.backward()
