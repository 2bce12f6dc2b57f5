"""Response tokens a second: common.rollout.local.generate beside transformers' `model.generate`.

Both read the same left-padded prompts and sample the same number of responses a prompt from the
plain softmax (temperature 1, no top-k, no top-p) with the same limit; both count real tokens, up to
and with the end token. "2048" is 8 prompts x 256 responses, an evaluation batch; "256" is 32 x 8, a
training step. generate() keeps stepping finished rows until the last one ends; that it does is
part of what is measured.
"""

import copy
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import torch

from bench import alternate, row
from common import models
from common.experiment import Pretrain, load, resolve
from common.rollout.local import encode, generate
from common.seeds import generator

SIZES = {256: (32, 8), 2048: (8, 256)}  # sequences: prompts, responses a prompt
FIXED = 32  # response tokens where every row runs to the limit
SMALL = dict(hidden_size=512, layers=4, heads=8, kv_heads=4, intermediate_size=1536)


def run(rounds: int = 5) -> list[dict]:
    x = load([], "f_grpo")
    texts = [prompt.text for prompt in resolve(x.data.train, "data.train")()]
    trained, tokenizer = base_model(x)
    lowered = copy.deepcopy(trained).to(torch.bfloat16)
    small = models.random_model(
        replace(x.model.pretrain, initializer_range=0.02, **SMALL), tokenizer
    ).eval()
    end = tokenizer.eos_token_id
    never = len(tokenizer)  # an id that the models cannot say: every row runs to the limit
    cases = [
        # name, our model, our dtype, the peer's model, end token, limit, rounds
        ("trained tiny model, own end", trained, None, trained, end, x.sampling.max_tokens, rounds),
        ("tiny model, 32 tokens", trained, None, trained, never, FIXED, rounds),
        ("tiny model, 32 tokens, bf16", trained, torch.bfloat16, lowered, never, FIXED, rounds),
        ("4 layers x 512, 32 tokens", small, None, small, never, FIXED, max(2, rounds // 2)),
    ]
    rows = []
    for name, model, dtype, peer, eos_id, limit, times in cases:
        for sequences, (prompts, group) in SIZES.items():
            ids, mask = encode(tokenizer, texts[:prompts], "cpu")
            common = dict(group=group, limit=limit, eos_id=eos_id)
            ours_rate, peer_rate = rates(model, dtype, peer, ids, mask, rounds=times, **common)
            title = f"rollout, {sequences} sequences, {name}"
            rows.append(row(title, ours_rate, peer_rate, "tokens/s", "peer: transformers generate"))
    return rows


def base_model(x):
    """The trained base model of results/models if it is there, else one of a twentieth of the
    demonstrations, made for this once: all that matters here is that its answers end."""
    if (Path(models.folder(x.model, Path(x.results_dir))) / "DONE").exists():
        return models.load(x.model, Path(x.results_dir), "cpu")
    short: Pretrain = replace(x.model.pretrain, demonstrations=x.model.pretrain.demonstrations // 20)
    with tempfile.TemporaryDirectory() as folder:
        return models.load(replace(x.model, pretrain=short), Path(folder), "cpu")


def rates(model, dtype, peer, ids, mask, *, group, limit, eos_id, rounds) -> tuple[float, float]:
    """Median tokens a second of both sides; each round has its own seed, the same on both."""
    counted = {"ours": [], "peer": []}
    never = eos_id >= model.config.vocab_size
    settings = dict(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=limit,
        num_return_sequences=group,
        eos_token_id=eos_id,
        pad_token_id=0,
    )

    def ours():
        seed = generator("bench", len(counted["ours"]))
        batch = generate(
            model,
            ids,
            mask,
            group_size=group,
            temperature=1.0,
            max_tokens=limit,
            eos_id=eos_id,
            generator=seed,
            dtype=dtype,
        )
        counted["ours"].append(int(batch.mask.sum()))

    @torch.inference_mode()
    def theirs():
        torch.manual_seed(len(counted["peer"]))
        out = peer.generate(input_ids=ids, attention_mask=mask, **settings)[:, ids.shape[1] :]
        ended = (out == eos_id).cumsum(1)
        counted["peer"].append(int((ended - (out == eos_id).int() == 0).sum()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours(), theirs()  # first calls load kernels
        seconds = alternate(ours, theirs, rounds)
    if never:
        assert set(counted["ours"]) == set(counted["peer"]) == {len(ids) * group * limit}
    return tuple(sum(counts[1:]) / rounds / s for counts, s in zip(counted.values(), seconds))
