"""The layers of the Llama family, as this project's two forward passes compute them: training, over
packed tokens with gradient (policy.py), and decoding, with a cache (common/rollout/decoder.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

LLAMA_FAMILY = ("LlamaForCausalLM", "Qwen2ForCausalLM", "MistralForCausalLM")


def is_plain_llama(model) -> bool:
    """Return whether our own forward passes cover all that `model` computes: SiLU, full attention,
    bias on q, k, v only."""
    if type(model).__name__ not in LLAMA_FAMILY or model.config.hidden_act != "silu":
        return False
    if getattr(model.config, "sliding_window", None):  # Mistral's default; in Qwen2 if it is used
        return False
    if model.model.rotary_emb.rope_type in ("dynamic", "longrope"):
        return False  # a position's rotation depends on the longest one
    biases = [name for name, _ in model.named_parameters() if name.endswith(".bias")]
    return all(name.split(".")[-2] in ("q_proj", "k_proj", "v_proj") for name in biases)


@dataclass(frozen=True)
class Layer:
    """One layer's weights, as functions of hidden states (..., hidden)."""

    norm1: torch.Tensor
    norm2: torch.Tensor
    eps: float
    project: Callable  # -> one tensor or several to be rotated, and last the values
    out: Callable
    mlp: Callable


def block(x, layer: Layer, cos, sin, attention: Callable):
    """Return x + attention, then + MLP, each applied to the normalised x.

    `attention` takes the output of `layer.project`, after rotation, and returns (..., heads x D).
    `sin` is the output of `signed`.
    """
    *turned, values = layer.project(norm(x, layer.norm1, layer.eps))
    turned = [rotated(part, cos, sin) for part in turned]
    x = x + layer.out(attention(*turned, values))
    return x + layer.mlp(norm(x, layer.norm2, layer.eps))


def own_weights(layer, config) -> Layer:
    """Return the module's own weights, with gradient; q (N, heads, D), k and v (N, kv_heads, D)."""
    attention = layer.self_attn
    parts = (
        (attention.q_proj, config.num_attention_heads),
        (attention.k_proj, config.num_key_value_heads),
        (attention.v_proj, config.num_key_value_heads),
    )
    return Layer(
        norm1=layer.input_layernorm.weight,
        norm2=layer.post_attention_layernorm.weight,
        eps=config.rms_norm_eps,
        project=lambda h: [part(h).unflatten(-1, (heads, -1)) for part, heads in parts],
        out=attention.o_proj,
        mlp=layer.mlp,
    )


def fused_weights(layer, config, dtype: torch.dtype) -> Layer:
    """Return copies of the weights in `dtype` without gradient, with one matrix product for
    projections that read the same states. `project` gives queries together with keys, (B,
    heads + kv_heads, T, D), and values (B, kv_heads, T, D)."""
    attention, mlp = layer.self_attn, layer.mlp
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)

    def copied(*weights: torch.Tensor) -> torch.Tensor:
        return (weights[0] if len(weights) == 1 else torch.cat(weights)).detach().to(dtype)

    qkv, o = copied(*(part.weight for part in parts)), copied(attention.o_proj.weight)
    bias = None if parts[0].bias is None else copied(*(part.bias for part in parts))
    gate_up = copied(mlp.gate_proj.weight, mlp.up_proj.weight)
    down = copied(mlp.down_proj.weight)

    def project(h):
        made = F.linear(h, qkv, bias).unflatten(-1, (heads + 2 * kv_heads, -1)).transpose(1, 2)
        return made[:, : heads + kv_heads], made[:, heads + kv_heads :]

    def gated(h):
        gate, up = F.linear(h, gate_up).chunk(2, -1)
        return F.linear(F.silu(gate).mul_(up), down)

    return Layer(
        norm1=copied(layer.input_layernorm.weight),
        norm2=copied(layer.post_attention_layernorm.weight),
        eps=config.rms_norm_eps,
        project=project,
        out=lambda h: F.linear(h, o),
        mlp=gated,
    )


def norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def signed(sin: torch.Tensor) -> torch.Tensor:
    """Return `sin` (..., D) with its first half negated, as `rotated` takes it: swapping a vector's
    halves then needs no negated copy, and the result has the same bits."""
    half = sin.shape[-1] // 2
    return torch.cat([-sin[..., :half], sin[..., half:]], -1)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return x (..., D) with rotary position embedding, of pairs D / 2 apart; `sin` is `signed`."""
    return (x * cos).add_(x.roll(x.shape[-1] // 2, -1).mul_(sin))


def attend(q, k, v, mask):
    """Return the attention of q (B, heads, T, D) to k and v (B, kv_heads, S, D) under `mask`."""
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=grouped)


def causal(length: int, device) -> torch.Tensor:
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def causal_after_padding(real: torch.Tensor) -> torch.Tensor:
    """Return the causal mask of left-padded rows, (B, 1, T, T), from `real` (B, T). A padding token
    sees itself, because softmax over nothing gives nan."""
    length = real.shape[1]
    eye = torch.eye(length, dtype=torch.bool, device=real.device)
    return (causal(length, real.device) & real[:, None, None, :]) | eye
