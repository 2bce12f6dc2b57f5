"""vLLM's cache of keys and values on the GPUs of a training: how much fits, and how often it will
be full. By vLLM's own rules, without vLLM: tests/cluster/test_vllm_cache.py holds both beside each
other.
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
    """Of one engine."""

    tokens: int
    whole: float  # responses of full length, with the longest prompt, at once


def cache_of(load: Load, one: Layout, gpu_gb: float) -> Cache:
    """What `one` leaves on GPUs of `gpu_gb` GB: vLLM's share without weights and what it measures
    at its start, in blocks of 16 tokens."""
    free = one.share * gpu_gb * 1e9 - one.vllm_gb * 1e9 - reserved_bytes(load, one.parallel)
    block = BLOCK * sum(map(token_bytes, load.models)) / one.parallel
    blocks = max(0, int(free / block))
    return Cache(blocks * BLOCK, blocks / math.ceil(load.sampled / BLOCK))


def lengths(responses: int, mean: float, limit: int) -> list[int]:
    """Of exponential lengths with this mean, none above the limit, long and short ones mixed."""
    golden = (math.sqrt(5) - 1) / 2
    shares = [(i * golden) % 1 for i in range(1, responses + 1)]
    return [max(1, min(limit, round(-mean * math.log(1 - share)))) for share in shares]


@cache
def preemptions(responses: int, mean: float, limit: int, prompt: int, tokens: int) -> int:
    """How often vLLM takes a response's blocks away, to compute it again later, while one engine
    with a cache of `tokens` draws responses of `lengths` that all are asked for at once.

    Its scheduler, token by token: whoever runs gets a block where the last one is full; where none
    is free, whoever came last loses all its blocks and waits before all others; new ones begin in
    steps where none was lost. Prompts are counted for each response, more than with prefix caching.
    Raises ValueError where a response alone is too long."""
    asked, free = lengths(responses, mean, limit), tokens // BLOCK
    most = sum(_blocks(prompt + length) for length in sorted(asked)[-SEQUENCES:])
    if most <= free:
        return 0
    longest = prompt + max(asked)
    if _blocks(longest) > free:
        raise ValueError(f"a response and its prompt of {longest} tokens, a cache of {tokens}")
    made, held = [0] * len(asked), [0] * len(asked)  # tokens, blocks
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
