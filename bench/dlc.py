"""What DLC's memory network costs in decoding: common.rollout.local.generate with `memory=`
compared with the same call without it.

Both models decode in lockstep, each with a cache of its own. The rows are times, not rates: every
response runs to the limit, so both sides decode the same number of tokens. `peer` is the policy
alone, so 1 / ratio is the overhead. It should be at most 1.3 for a memory network of a quarter of
the policy's size (shrink 2) and 2.1 for one of the policy's size; over_sharpening sec 3.2 reports 5
in vLLM.
"""

from dataclasses import replace
from statistics import median

from bench import alternate, row
from bench.rollout import FIXED, SIZES, SMALL
from common.config.resolve import resolve
from common.experiment import load
from common.models import pretrain
from common.models.pretrain import random_model
from common.rollout.dlc import MemoryNetwork
from common.rollout.local import encode, generate
from common.seeds import generator

LIMITS = {2: 1.3, 1: 2.1}  # shrink: the most overhead


def run(rounds: int = 5) -> list[dict]:
    """Return rows for the laptop's model and one of 4 layers x 512: the 256 sequences of a training
    step with each, and an evaluation batch with the first. Weights are random, because no time
    depends on them."""
    x = load([], "f_grpo")
    texts = [prompt.text for prompt in resolve(x.data.train, "data.train")()]
    tokenizer = pretrain.tokenizer()
    sizes = {"tiny model": {}, "4 layers x 512": SMALL}
    policies = {
        name: random_model(
            replace(x.model.pretrain, initializer_range=0.02, **size), tokenizer
        ).eval()
        for name, size in sizes.items()
    }
    cases = [
        ("tiny model", 256, rounds),
        ("tiny model", 2048, max(1, rounds // 2)),
        ("4 layers x 512", 256, max(1, rounds // 2)),
    ]
    rows = []
    for name, sequences, times in cases:
        policy, (prompts, group) = policies[name], SIZES[sequences]
        ids, mask = encode(tokenizer, texts[:prompts], "cpu")
        for shrink, limit in LIMITS.items():
            memory = MemoryNetwork(policy, mu=0.5, lr=1e-3, start="random", shrink=shrink, seed=0)
            with_memory, alone = seconds(policy, memory, ids, mask, group, len(tokenizer), times)
            share = size(memory.model) / size(policy)
            overhead = with_memory / alone
            note = f"overhead {overhead:.2f}, at most {limit}; memory of {share:.2f} the parameters"
            title = f"dlc, {sequences} sequences, {name}, {FIXED} tokens, shrink {shrink}"
            rows.append(row(title, with_memory, alone, "s", note))
    return rows


def size(model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def seconds(
    policy, memory, ids, mask, group, eos_id, rounds, dtype=None, tokens: int = FIXED
) -> tuple[float, float]:
    """Return the median seconds (with, without) the memory network. The first round loads kernels
    and is not counted. `eos_id` is one that no model here can produce."""

    def call(memory):
        generate(
            policy,
            ids,
            mask,
            group_size=group,
            temperature=1.0,
            max_tokens=tokens,
            eos_id=eos_id,
            generator=generator("bench", 0),
            dtype=dtype,
            memory=memory,
        )

    both = alternate(lambda: call(memory), lambda: call(None), rounds + 1)
    return tuple(median(times[1:]) for times in both)
