"""Response tokens per second: common.rollout.local.generate compared with transformers'
`model.generate`.

Both read the same left-padded prompts and sample as many responses per prompt from the plain
softmax with the same limit; both count real tokens, the end token included. 256 sequences are a
training step (32 prompts x 8), 2048 an evaluation batch (8 x 256). Weights are random.

The peer runs in its fastest way on a CPU: sdpa attention and the default, growing cache, under
inference_mode (its static cache takes 2.7 times as long, eager attention 1.4, continuous batching
20 times). It steps finished rows until the last ends; ours drops them.
"""

from dataclasses import replace
from statistics import median

import torch

from bench import alternate, row
from common.config.resolve import resolve
from common.experiment import load
from common.models import pretrain
from common.rollout.local import encode, generate
from common.seeds import generator

SIZES = {256: (32, 8), 2048: (8, 256)}  # sequences: (prompts, responses per prompt)
LIMIT = 32  # response tokens
SMALL = dict(hidden_size=512, layers=4, heads=8, kv_heads=4, intermediate_size=1536)


def run(rounds: int = 3) -> list[dict]:
    """Return rows for the tiny model, with its own ends and at fixed length, and a larger model."""
    x, tokenizer = load([], "f_grpo"), pretrain.tokenizer()
    texts = [prompt.text for prompt in resolve(x.data.train, "data.train")()]
    tiny = pretrain.random_model(x.model.pretrain, tokenizer).eval()
    sizes = replace(x.model.pretrain, initializer_range=0.02, **SMALL)
    small = pretrain.random_model(sizes, tokenizer).eval()
    end, never = tokenizer.eos_token_id, len(tokenizer)  # an id that no model here can produce
    cases = [  # label, model, end token, rounds
        ("tiny model, own ends", tiny, end, rounds),
        (f"tiny model, {LIMIT} tokens", tiny, never, rounds),
        (f"4 layers x 512, {LIMIT} tokens", small, never, max(1, rounds // 3)),
    ]
    rows = []
    for label, model, eos_id, times in cases:
        for sequences, (prompts, group) in SIZES.items():
            given = (model, model, *encode(tokenizer, texts[:prompts], "cpu"))
            limits = dict(group=group, limit=LIMIT, eos_id=eos_id)
            rates = tokens_per_second(*given, rounds=times, **limits)
            name = f"rollout, {sequences} sequences, {label}"
            rows.append(row(name, *rates, "tokens/s", "peer: transformers generate"))
    return rows


def tokens_per_second(
    model, peer, ids, mask, *, rounds: int, group: int, limit: int, eos_id: int, dtype=None
) -> list[float]:
    """Return the median rates of both sides. `dtype` is what ours samples in; None: the model's.
    Each round has other seeds; the first loads kernels and is not counted."""
    counts = {"ours": [], "peer": []}

    def ours():
        batch = generate(
            model,
            ids,
            mask,
            group_size=group,
            temperature=1.0,
            max_tokens=limit,
            eos_id=eos_id,
            generator=generator("bench", len(counts["ours"])),
            dtype=dtype,
        )
        counts["ours"].append(int(batch.mask.sum()))

    @torch.inference_mode()
    def theirs():
        torch.manual_seed(len(counts["peer"]))
        output = peer.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=limit,
            num_return_sequences=group,
            eos_token_id=eos_id,
            pad_token_id=0,
        )
        ended = output[:, ids.shape[1] :] == eos_id
        counts["peer"].append(int((ended.cumsum(1) - ended.int() == 0).sum()))

    seconds = alternate(ours, theirs, rounds + 1)
    return [
        median(count / second for count, second in zip(counted[1:], spent[1:], strict=True))
        for counted, spent in zip(counts.values(), seconds, strict=True)
    ]
