"""Response tokens per second: common.rollout.local.generate compared with transformers'
`model.generate`.

Both read the same left-padded prompts and sample as many responses per prompt from the plain
softmax (temperature 1, no top-k, no top-p) with the same limit. Both count real tokens, up to and
including the end token. 256 sequences are a training step (32 prompts x 8), 2048 an evaluation
batch (8 x 256).

The peer runs in its fastest way on a CPU: sdpa attention and the default, growing cache, under
inference_mode. Its static cache takes 2.7 times as long, eager attention 1.4 times, continuous
batching 20 times (256 sequences). The peer steps finished rows until the last row ends; ours drops
them.
"""

import copy
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

from bench import alternate, flops_a_token, matmul_peak, row
from common.config.resolve import resolve
from common.experiment import load
from common.models import store
from common.models.load import load_model
from common.models.pretrain import random_model
from common.rollout.local import encode, generate
from common.seeds import generator

SIZES = {256: (32, 8), 2048: (8, 256)}  # sequences: (prompts, responses per prompt)
FIXED = 32  # response tokens where every row runs to the limit
SMALL = dict(hidden_size=512, layers=4, heads=8, kv_heads=4, intermediate_size=1536)


def run(rounds: int = 3) -> list[dict]:
    """Return rows for the tiny model with its own ends, at fixed length and in bf16, and for a
    larger random one."""
    x = load([], "f_grpo")
    texts = [prompt.text for prompt in resolve(x.data.train, "data.train")()]
    tiny, tokenizer = base_model(x)
    lowered = copy.deepcopy(tiny).to(torch.bfloat16)
    sizes = replace(x.model.pretrain, initializer_range=0.02, **SMALL)
    small = random_model(sizes, tokenizer).eval()
    end, never = tokenizer.eos_token_id, len(tokenizer)  # an id that no model here can produce
    cases = [
        # name, our model, our dtype, the peer's model, end token, limit, rounds
        ("tiny model, own ends", tiny, None, tiny, end, x.sampling.max_tokens, rounds),
        ("tiny model, 32 tokens", tiny, None, tiny, never, FIXED, rounds),
        ("tiny model, 32 tokens, bf16", tiny, torch.bfloat16, lowered, never, FIXED, rounds),
        ("4 layers x 512, 32 tokens", small, None, small, never, FIXED, max(1, rounds // 3)),
    ]
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists() or "avx512_bf16" not in cpuinfo.read_text():
        del cases[2]  # without bf16 products it takes minutes and says nothing
    rows = []
    for name, model, dtype, peer, eos_id, limit, times in cases:
        for sequences, (prompts, group) in SIZES.items():
            ids, mask = encode(tokenizer, texts[:prompts], "cpu")
            settings = dict(group=group, limit=limit, eos_id=eos_id, rounds=times)
            rates = tokens_per_second(model, dtype, peer, ids, mask, **settings)
            share = rates[0] * flops_a_token(model) / matmul_peak(dtype)
            note = f"peer: transformers generate; ours: {share:.0%} of the matmul peak"
            rows.append(row(f"rollout, {sequences} sequences, {name}", *rates, "tokens/s", note))
    return rows


def base_model(x):
    """Return the trained base model of results/models if it is there. Otherwise train one here on a
    twentieth of the demonstrations: all that matters is that its responses end by themselves."""
    if (Path(store.folder(x.model, Path(x.results_dir))) / "DONE").exists():
        return load_model(x.model, Path(x.results_dir), "cpu")
    demonstrations = x.model.pretrain.demonstrations // 20
    short = replace(x.model, pretrain=replace(x.model.pretrain, demonstrations=demonstrations))
    with tempfile.TemporaryDirectory() as folder:
        return load_model(short, Path(folder), "cpu")


def tokens_per_second(model, dtype, peer, ids, mask, *, group, limit, eos_id, rounds):
    """Return the median rates of both sides. Each round has seeds of its own; the first round loads
    kernels and is not counted."""
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
