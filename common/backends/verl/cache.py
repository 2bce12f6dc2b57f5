"""vLLM's key-value cache on the GPUs of a training run: how much fits, and how often it is full.

It follows vLLM's own rules without vLLM; tests/cluster/test_vllm_cache.py compares the two.
"""

import math
from collections import deque
from dataclasses import dataclass
from functools import cache

from common.backends.verl.layout import (
    BATCHED,
    BLOCK,
    SEQUENCES,
    Layout,
    Load,
    reserved_bytes,
    token_bytes,
)


@dataclass(frozen=True)
class Cache:
    """The key-value cache of one vLLM engine."""

    tokens: int
    whole: float  # responses of full length, each with the longest prompt, that fit at once


def cache_of(load: Load, one: Layout, gpu_gb: float) -> Cache:
    """Return the cache that layout `one` leaves on GPUs of `gpu_gb` GB, in blocks of 16 tokens:
    vLLM's share of the GPU, without the weights and without what vLLM finds in use when it
    starts."""
    free = one.share * gpu_gb * 1e9 - one.vllm_gb * 1e9 - reserved_bytes(load, one.parallel)
    block = BLOCK * sum(map(token_bytes, load.models)) / one.parallel
    blocks = max(0, int(free / block))
    return Cache(blocks * BLOCK, blocks / math.ceil(load.sampled / BLOCK))


def lengths(responses: int, mean: float, limit: int) -> list[int]:
    """Return `responses` exponentially distributed lengths with this mean, none above the limit.
    Long and short ones are mixed."""
    golden = (math.sqrt(5) - 1) / 2
    shares = [(i * golden) % 1 for i in range(1, responses + 1)]
    return [max(1, min(limit, round(-mean * math.log(1 - share)))) for share in shares]


@cache
def preemptions(responses: int, mean: float, limit: int, prompt: int, tokens: int) -> int:
    """Return how often vLLM takes a response's blocks away, to compute it again later, while one
    engine with a cache of `tokens` draws responses of these `lengths`, all requested at once.

    This simulates vLLM's scheduler token by token. A running response gets a new block when its
    last block is full. If no block is free, the response that came last loses all its blocks and
    becomes the first in the waiting line. New responses begin only in steps in which none lost its
    blocks. The prompt is counted for each response, which is more than with prefix caching. Raises
    ValueError where a single response is too long for the cache."""
    asked, free = lengths(responses, mean, limit), tokens // BLOCK
    most = sum(_blocks(prompt + length) for length in sorted(asked)[-SEQUENCES:])
    if most <= free:
        return 0
    longest = prompt + max(asked)
    if _blocks(longest) > free:
        raise ValueError(f"a response and its prompt of {longest} tokens, a cache of {tokens}")
    made, held = [0] * len(asked), [0] * len(asked)  # tokens and blocks of each
    waiting, running, lost = deque(range(len(asked))), deque(), 0
    while waiting or running:
        before, running, begins = running, deque(), True
        while before:
            one = before.popleft()
            need = _blocks(prompt + made[one]) - held[one]
            while need > free:
                last = before.pop() if before else one
                free, held[last], begins, lost = free + held[last], 0, False, lost + 1
                waiting.appendleft(last)
                if last == one:
                    break
            else:
                free, held[one] = free - need, held[one] + need
                running.append(one)
        budget = max(BATCHED, longest) - len(running)
        while begins and waiting and len(running) < SEQUENCES:
            again = prompt + made[waiting[0]]
            if _blocks(again) > free or again > budget:
                break
            one = waiting.popleft()
            held[one] = _blocks(again)
            free, budget = free - held[one], budget - again
            running.append(one)
        for one in running:
            made[one] += 1
        ended = [one for one in running if made[one] == asked[one]]
        free += sum(held[one] for one in ended)
        running = deque(one for one in running if made[one] < asked[one])
    return lost


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK)
