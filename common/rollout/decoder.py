"""Cached decoding: one prefill, then one token a step for many rows at once.

Two decoders with the same four methods. `LlamaDecoder` runs the Llama family of transformers
(Llama, Qwen2, Mistral) straight from the module's own weights, with fused projections and a
preallocated cache; `TransformersDecoder` runs any other causal LM through its own forward. Both
return float32 logits.

    prefill(ids, mask) -> (P, V)   logits after the prompt; ids, mask are (P, T_p), left-padded
    repeat(G)                      every prompt row becomes G rows, its cache included
    step(tokens) -> (B, V)         append one token a row
    keep(rows)                     go on with these rows only
"""

import torch
import torch.nn.functional as F

from common.models.llama import is_plain_llama, rotate_half


def make_decoder(model, max_tokens: int, dtype: torch.dtype | None = None):
    """The fastest decoder for `model`; `dtype` lowers the precision of LlamaDecoder's copy of the
    weights."""
    if is_plain_llama(model):
        return LlamaDecoder(model, max_tokens, dtype or model.dtype)
    return TransformersDecoder(model)


class LlamaDecoder:
    def __init__(self, model, max_tokens: int, dtype: torch.dtype):
        config, body = model.config, model.model
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.eps, self.max_tokens, self.dtype = config.rms_norm_eps, max_tokens, dtype
        self.rotary, self.embedding = body.rotary_emb, body.embed_tokens.weight.to(dtype)
        self.norm, self.head = body.norm.weight.to(dtype), model.lm_head.weight.to(dtype)
        self.layers = [_fused(layer, dtype) for layer in body.layers]
        self.head_dim = self.layers[0]["o"].shape[1] // self.heads

    @torch.no_grad()
    def prefill(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows, length = ids.shape
        shape = (len(self.layers), 2, rows, self.kv_heads, length + self.max_tokens, self.head_dim)
        self.cache = torch.empty(shape, dtype=self.dtype, device=ids.device)
        self.length = 0
        self.padding = None if mask.bool().all() else mask.bool()
        self.position = mask.sum(1)  # the next token's position, padding not counted
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        causal = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()
        attend = causal if self.padding is None else causal & self.padding[:, None, None, :]
        if self.padding is not None:  # a padding row must attend to something, or softmax gives nan
            attend = attend | torch.eye(length, dtype=torch.bool, device=ids.device)
        return self._forward(ids, positions, attend)[:, -1].float()

    @torch.no_grad()
    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        attend = None
        if self.padding is not None:
            ones = self.padding.new_ones(len(tokens), self.length + 1 - self.padding.shape[1])
            attend = torch.cat([self.padding, ones], 1)[:, None, None, :]
        logits = self._forward(tokens[:, None], self.position[:, None], attend)[:, 0].float()
        self.position = self.position + 1
        return logits

    def repeat(self, times: int) -> None:
        self._select(lambda tensor, dim: tensor.repeat_interleave(times, dim))

    def keep(self, rows: torch.Tensor) -> None:
        self._select(lambda tensor, dim: tensor.index_select(dim, rows))

    def _select(self, choose) -> None:
        grown = choose(self.cache[..., : self.length, :], 2)
        self.cache = torch.empty(
            *grown.shape[:4],
            self.cache.shape[4],
            self.head_dim,
            dtype=self.dtype,
            device=grown.device,
        )
        self.cache[..., : self.length, :] = grown
        self.position = choose(self.position, 0)
        self.padding = None if self.padding is None else choose(self.padding, 0)

    def _forward(self, ids, positions, attend):
        rows, new = ids.shape
        end = self.length + new
        x = self.embedding[ids]
        cos, sin = (t.unsqueeze(1) for t in self.rotary(x, positions))  # (B, 1, new, D)
        for layer, (keys, values) in zip(self.layers, self.cache, strict=True):
            h = F.rms_norm(x, x.shape[-1:], layer["norm1"], self.eps)
            qkv = F.linear(h, layer["qkv"], layer["qkv_bias"])
            qkv = qkv.view(rows, new, self.heads + 2 * self.kv_heads, self.head_dim).transpose(1, 2)
            qk, v = qkv[:, : self.heads + self.kv_heads], qkv[:, self.heads + self.kv_heads :]
            qk = qk * cos + rotate_half(qk) * sin
            keys[:, :, self.length : end] = qk[:, self.heads :]
            values[:, :, self.length : end] = v
            k, v = keys[:, :, :end], values[:, :, :end]
            h = self._attention(qk[:, : self.heads], k, v, attend)
            x = x + F.linear(h.transpose(1, 2).reshape(rows, new, -1), layer["o"])
            h = F.rms_norm(x, x.shape[-1:], layer["norm2"], self.eps)
            gate, up = F.linear(h, layer["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        self.length = end
        return F.linear(F.rms_norm(x[:, -1:], x.shape[-1:], self.norm, self.eps), self.head)

    def _attention(self, q, k, v, attend):
        if q.shape[2] > 1 or q.device.type != "cpu":
            grouped = self.heads != self.kv_heads
            return F.scaled_dot_product_attention(q, k, v, attn_mask=attend, enable_gqa=grouped)
        # One query a row: on CPU two batched products take half the time of the fused kernel.
        rows = q.shape[0]
        q = q.reshape(rows, self.kv_heads, -1, self.head_dim)
        scores = q @ k.transpose(-1, -2) * self.head_dim**-0.5
        if attend is not None:
            scores = scores.masked_fill(~attend, -torch.inf)
        h = torch.softmax(scores.float(), -1).to(q.dtype) @ v
        return h.view(rows, self.heads, 1, self.head_dim)


class TransformersDecoder:
    def __init__(self, model):
        self.model = model

    @torch.no_grad()
    def prefill(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        from transformers import DynamicCache

        self.mask, self.cache = mask, DynamicCache(config=self.model.config)
        return self._forward(ids, (mask.cumsum(1) - 1).clamp(min=0))

    @torch.no_grad()
    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        position = self.mask.sum(1, keepdim=True)
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], 1)
        return self._forward(tokens[:, None], position)

    def repeat(self, times: int) -> None:
        self.cache.batch_repeat_interleave(times)
        self.mask = self.mask.repeat_interleave(times, 0)

    def keep(self, rows: torch.Tensor) -> None:
        self.cache.batch_select_indices(rows)
        self.mask = self.mask[rows]

    def _forward(self, ids, positions):
        return (
            self.model(
                input_ids=ids,
                attention_mask=self.mask,
                position_ids=positions,
                past_key_values=self.cache,
                use_cache=True,
                logits_to_keep=1,
            )
            .logits[:, -1]
            .float()
        )


def _fused(layer, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    attention, mlp = layer.self_attn, layer.mlp
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    bias = None
    if parts[0].bias is not None:
        bias = torch.cat([part.bias for part in parts]).detach().to(dtype)
    fused = {
        "norm1": layer.input_layernorm.weight,
        "norm2": layer.post_attention_layernorm.weight,
        "qkv": torch.cat([part.weight for part in parts]),
        "o": attention.o_proj.weight,
        "gate_up": torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
        "down": mlp.down_proj.weight,
    }
    return {name: tensor.detach().to(dtype) for name, tensor in fused.items()} | {"qkv_bias": bias}
