"""Cached decoding: one prefill, then one token per step for many rows at once.

`LlamaDecoder` runs the Llama family of transformers (Llama, Qwen2, Mistral) with fused projections
and a preallocated cache, `TransformersDecoder` any other causal LM through its own forward. Both
return float32 logits from the same four methods:

    prefill(ids, mask) -> (P, V)   logits after the prompt; ids, mask are (P, T_p), left-padded
    repeat(G)                      every prompt row becomes G rows, its cache included
    step(tokens) -> (B, V)         append one token per row
    keep(rows)                     continue with these rows only

On a GPU the steps of `LlamaDecoder` are those of rollout/recorded.py, after its prefill.
"""

import copy

import torch
import torch.nn.functional as F

from common.models.llama import (
    attend,
    block,
    causal,
    causal_after_padding,
    fused_weights,
    is_plain_llama,
    norm,
    signed,
)


def make_decoder(model, max_tokens: int, dtype: torch.dtype | None = None):
    """Return the fastest decoder for `model`; `dtype` lowers the precision of its weights' copy."""
    if is_plain_llama(model):
        return LlamaDecoder(model, max_tokens, dtype or model.dtype)
    if dtype not in (None, model.dtype):
        model = copy.deepcopy(model).to(dtype)
    return TransformersDecoder(model)


class LlamaDecoder:
    def __init__(self, model, max_tokens: int, dtype: torch.dtype):
        config, body = model.config, model.model
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.eps, self.max_tokens, self.dtype = config.rms_norm_eps, max_tokens, dtype
        self.rotary, self.embedding = body.rotary_emb, body.embed_tokens.weight.to(dtype)
        self.norm, self.head = body.norm.weight.to(dtype), model.lm_head.weight.to(dtype)
        self.layers = [fused_weights(layer, config, dtype) for layer in body.layers]
        self.head_dim = body.layers[0].self_attn.o_proj.weight.shape[1] // self.heads
        self.cache: torch.Tensor | None = None

    @torch.no_grad()
    def prefill(
        self, ids: torch.Tensor, mask: torch.Tensor, room: int | None = None
    ) -> torch.Tensor:
        """The cache has `room` places after the prompt, by default `max_tokens`."""
        rows, length = ids.shape
        places = length + (self.max_tokens if room is None else room)
        shape = (len(self.layers), 2, rows, self.kv_heads, places, self.head_dim)
        self.cache = None  # frees the previous rollout's: both would not fit
        self.cache = torch.empty(shape, dtype=self.dtype, device=ids.device)
        self.length = 0
        real = mask.bool()
        self.hidden = None  # (P, 1, 1, T), True where no later token sees a place of the cache
        if not real.all():
            self.hidden = F.pad(~real, (0, self.max_tokens))[:, None, None, :]
        places = torch.arange(length + self.max_tokens, device=ids.device)
        cos, sin = self.rotary(self.embedding[:1], places[None])
        self.turns = [cos[0, :, None], signed(sin)[0, :, None]]  # (length, 1, D) each
        self.position = mask.sum(1)  # the next token's position, padding not counted
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        seen = causal(length, ids.device) if self.hidden is None else causal_after_padding(real)
        return self._forward(ids, positions, seen)[:, -1].float()

    @torch.no_grad()
    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self._forward(tokens[:, None], self.position[:, None], None)[:, 0].float()
        self.position = self.position + 1
        return logits

    def repeat(self, times: int) -> None:
        if times == 1:
            return
        layers, two, rows, *rest = self.cache.shape
        grown = self.cache.new_empty(layers, two, rows * times, *rest)
        for new, old in self._parts(grown, self.cache):
            new.copy_(old.repeat_interleave(times, 0))
        self.cache = grown
        self._select(lambda tensor: tensor.repeat_interleave(times, 0))

    def keep(self, rows: torch.Tensor) -> None:
        """Work in place, layer by layer: two large caches would not fit."""
        kept = self.cache[:, :, : len(rows)]
        for new, old in self._parts(kept, self.cache):
            new.copy_(old.index_select(0, rows))
        self.cache = kept
        self._select(lambda tensor: tensor.index_select(0, rows))

    def _parts(self, *caches: torch.Tensor):
        for layers in zip(*caches, strict=True):
            for parts in zip(*layers, strict=True):
                yield [part[:, :, : self.length] for part in parts]

    def _select(self, choose) -> None:
        self.position = choose(self.position)
        self.hidden = None if self.hidden is None else choose(self.hidden)

    def rotations(self, positions):
        """Return cos and signed sin of `positions` (B, new), (B, 1, new, D) each."""
        return [table[positions].transpose(1, 2) for table in self.turns]

    def _forward(self, ids, positions, seen):
        rows, new = ids.shape
        end = self.length + new
        x = self.embedding[ids]
        cos, sin = self.rotations(positions)
        for layer, (keys, values) in zip(self.layers, self.cache, strict=True):

            def attention(qk, v, keys=keys, values=values):
                keys[:, :, self.length : end] = qk[:, self.heads :]
                values[:, :, self.length : end] = v
                q, k, v = qk[:, : self.heads], keys[:, :, :end], values[:, :, :end]
                h = attend(q, k, v, seen) if new > 1 else self._one(q, k, v)
                return h.transpose(1, 2).reshape(rows, new, -1)

            x = block(x, layer, cos, sin, attention)
        self.length = end
        return F.linear(norm(x[:, -1:], self.norm, self.eps), self.head)

    def _one(self, q, k, v):
        """Return the attention of one query per row. Two batched products take half the time of
        scaled_dot_product_attention on a CPU, and in float32 on an H200 a fifth of it
        (results/reference/gpu/nvidia-h200/decoding.txt)."""
        rows = q.shape[0]
        q = q.reshape(rows, self.kv_heads, -1, self.head_dim)
        scores = (q @ k.transpose(-1, -2)).mul_(self.head_dim**-0.5)
        if self.hidden is not None:
            scores.masked_fill_(self.hidden[..., : k.shape[2]], -torch.inf)
        h = torch.softmax(scores.float(), -1).to(q.dtype) @ v
        return h.view(rows, self.heads, 1, self.head_dim)


class TransformersDecoder:
    def __init__(self, model):
        self.model = model

    @torch.no_grad()
    def prefill(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        from common.models.hf import DynamicCache

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
