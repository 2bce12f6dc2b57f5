"""Decoding on a GPU: each step is recorded as a CUDA graph and replayed, because launching its
kernels one by one from Python takes longer than they run.

A step draws a token for every row (response), stores it, and computes the next logits. A prompt's
rows share its keys and values, read once for all. A step reads a window of each row's own tokens
that doubles when it is full. When enough rows have finished, the others move to smaller tensors and
the step is recorded again.
"""

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F

from common.models.llama import block, norm
from common.rollout.decoder import LlamaDecoder

WINDOW = 32  # own places that a row reads at first
LOOK = 8  # tokens between two counts of the rows that are left; a count waits for the GPU


def cuda_graph(function: Callable[[], None]) -> Callable[[], None]:
    """Call `function` once and return a function that replays its kernels, on the same tensors."""
    current, side = torch.cuda.current_stream(), _side()
    side.wait_stream(current)
    try:
        with torch.cuda.stream(side):
            function()  # libraries choose kernels and take workspaces in it
            try:
                return _graph(function).replay
            except torch.OutOfMemoryError:
                # A recording cannot take memory that is held without being used.
                torch.cuda.empty_cache()
                return _graph(function).replay
    finally:  # also after an error: what it frees may still be in use
        current.wait_stream(side)


def _graph(function: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """torch.cuda.graph would give all unused memory back first, which takes longer than
    recording."""
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    try:
        function()
    finally:
        graph.capture_end()
    return graph


@cache
def _side() -> torch.cuda.Stream:
    """The only stream on which steps are recorded: each stream keeps memory for itself."""
    return torch.cuda.Stream()


@torch.no_grad()
def decode(
    decoders: list[LlamaDecoder],
    prompt_ids: torch.Tensor,
    prompt_mask: torch.Tensor,
    uniforms: torch.Tensor,
    *,
    tokens: Callable,
    ends: torch.Tensor,
    record: Callable = cuda_graph,
) -> list[torch.Tensor]:
    """Return token ids, mask and log-probabilities, as `_decode` of rollout/local.py does.

    decoders   of the policy and, if there is one, of the memory network
    uniforms   (T, rows)
    tokens     (logits of each decoder, uniforms (B,)) -> token ids (B,) and the list of their
               log-probabilities, one (B,) for each kind
    record     calls a function and returns one that repeats its kernels
    """
    rows = Rows(decoders, prompt_ids, prompt_mask, uniforms, tokens=tokens, ends=ends)
    most = len(uniforms)
    window, step = min(WINDOW, most), None
    for t in range(most):
        if t and t % LOOK == 0:
            left = rows.left()
            if left is None:
                break
            if left != rows.shape:
                step = None  # its memory is given back before the smaller tensors are made
                rows.keep(*left, places=t)
        if t == window:
            window, step = min(2 * window, most), None
        if step is None:
            step = record(lambda window=window: rows.step(window))
        else:
            step()
    return [one.view_as(uniforms) for one in rows.out]


class Rows:
    """The rows still being decoded, (P, G). All tensors that a step reads or writes stay at their
    addresses until `keep`."""

    def __init__(self, decoders, prompt_ids, prompt_mask, uniforms, *, tokens, ends):
        (most, self.total), prompts = uniforms.shape, len(prompt_ids)
        group, device = self.total // prompts, uniforms.device
        self.shape, self.tokens, self.ends = (prompts, group), tokens, ends
        self.decoders, self.uniforms = decoders, uniforms.flatten()
        prefilled = [one.prefill(prompt_ids, prompt_mask, room=0) for one in decoders]
        self.logits = [one.repeat_interleave(group, 0) for one in prefilled]
        self.prompts = [list(one.cache) for one in decoders]  # of each layer (2, P, kv, T_p, D)
        # Of each layer (2, P, kv, G, T, D); zeros, because 0 times unused memory may be nan.
        self.own = [
            [kv.new_zeros(2, prompts, kv.shape[2], group, most, kv.shape[4]) for kv in layers]
            for layers in self.prompts
        ]
        self.hidden = prompt_mask[:, None, None, None] == 0  # (P, 1, 1, 1, T_p)
        self.index = torch.arange(self.total, device=device)  # of a row's next token in `out`
        self.position = prompt_mask.sum(1).repeat_interleave(group)
        self.place = torch.zeros(1, dtype=torch.long, device=device)
        self.running = torch.ones(self.total, dtype=torch.bool, device=device)
        blank = torch.zeros(most * self.total, device=device)
        ids = ends[0].expand(len(blank)).clone()
        self.out = [ids, blank.clone(), *(blank.clone() for _ in decoders)]

    def step(self, window: int) -> None:
        uniforms = self.uniforms.index_select(0, self.index)
        token, log_probs = self.tokens(self.logits, uniforms)
        values = [one * self.running for one in (torch.ones_like(uniforms), *log_probs)]
        values = [torch.where(self.running, token, self.ends[0]), *values]
        for out, value in zip(self.out, values, strict=True):
            out.index_copy_(0, self.index, value)
        self.running &= ~torch.isin(token, self.ends)
        for logits, *network in zip(
            self.logits, self.decoders, self.prompts, self.own, strict=True
        ):
            logits.copy_(self.forward(token, window, *network))
        self.index += self.total
        self.position += 1
        self.place += 1

    def forward(self, token, window: int, decoder: LlamaDecoder, prompts, own) -> torch.Tensor:
        (count, group), heads = self.shape, decoder.heads
        later = torch.arange(window, device=token.device) > self.place
        later = later.expand(*self.hidden.shape[:4], window)
        hidden = torch.cat([self.hidden, later], -1)
        x = decoder.embedding[token[:, None]]
        cos, sin = decoder.rotations(self.position[:, None])

        def grouped(part):  # (B, kv x n, 1, D) -> (P, kv, G, n, D)
            return part.reshape(count, group, decoder.kv_heads, -1, part.shape[-1]).transpose(1, 2)

        for layer, (keys, values), (own_keys, own_values) in zip(
            decoder.layers, prompts, own, strict=True
        ):

            def attention(qk, v, keys=keys, values=values, k_own=own_keys, v_own=own_values):
                k_own.index_copy_(3, self.place, grouped(qk[:, heads:]))
                v_own.index_copy_(3, self.place, grouped(v))
                q = (grouped(qk[:, :heads]) * decoder.head_dim**-0.5).contiguous()
                scores = q.flatten(2, 3) @ keys.transpose(-1, -2)
                scores = scores.unflatten(2, (group, -1))
                mine = q @ k_own[..., :window, :].transpose(-1, -2)
                scores = torch.cat([scores, mine], -1).masked_fill_(hidden, -torch.inf)
                p = torch.softmax(scores, -1)
                of_prompt, mine = p.split([keys.shape[2], window], -1)
                h = mine @ v_own[..., :window, :]
                h += (of_prompt.flatten(2, 3) @ values).view_as(h)
                return h.transpose(1, 2).reshape(len(token), 1, -1)

            x = block(x, layer, cos, sin, attention)
        return F.linear(norm(x[:, -1], decoder.norm, decoder.eps), decoder.head)

    def left(self) -> tuple[list[int], int] | tuple[int, int] | None:
        """Return which prompts have unfinished rows, and the most that one of them has; the present
        shape if that is more than half of the rows; None if no row is left."""
        counts = self.running.view(self.shape).sum(1).tolist()
        prompts = [number for number, count in enumerate(counts) if count]
        if not prompts:
            return None
        fewer = 2 * len(prompts) * max(counts) <= len(self.running)
        return (prompts, max(counts)) if fewer else self.shape

    def keep(self, prompts: list[int], group: int, *, places: int) -> None:
        """Go on with these prompts and `group` rows of each: the unfinished rows, filled up with
        finished ones. `places` own places of each have been written."""
        old = self.shape
        chosen = torch.tensor(prompts, device=self.index.device)
        running = self.running.view(old)[chosen].int()
        which = running.argsort(dim=1, descending=True, stable=True)[:, :group].sort(1).values
        rows = (chosen[:, None] * old[1] + which).flatten()
        self.shape = (len(prompts), group)
        for layers, own in zip(self.prompts, self.own, strict=True):
            for i in range(len(layers)):
                layers[i] = layers[i].index_select(1, chosen)
                written = own[i][..., :places, :][:, chosen[:, None], :, which]
                two, _, heads, _, most, size = own[i].shape
                own[i] = own[i].new_zeros(two, len(prompts), heads, group, most, size)
                own[i][..., :places, :] = written.permute(2, 0, 3, 1, 4, 5)
        self.logits = [one.index_select(0, rows) for one in self.logits]
        self.hidden = self.hidden.index_select(0, chosen)
        for name in ("index", "position", "running"):
            setattr(self, name, getattr(self, name).index_select(0, rows))
