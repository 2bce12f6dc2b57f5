"""Milliseconds of GRPO's advantage, 512 prompts x 16 responses, compared with verl's two versions.

Ours takes the rewards as (P, G) and leaves the broadcast over tokens to the loss, as the local
backend does. verl's versions take and return (B, T). A second row of ours also sums token rewards
and broadcasts to (B, T); it is compared with the same peers.
"""

from importlib import metadata, util
from statistics import median

from bench import MISSING_VERL, alternate, row, timed

P, G, T = 512, 16, 1024


def run(rounds: int = 7) -> list[dict]:
    import numpy as np
    import torch

    from common.advantages.group import grpo

    torch.manual_seed(0)
    rewards = (torch.rand(P, G) < torch.rand(P, 1)).float()
    mask = (torch.arange(T) < torch.randint(1, T + 1, (P * G, 1))).float()
    token_rewards = torch.zeros(P * G, T)
    token_rewards[torch.arange(P * G), mask.sum(1).long() - 1] = rewards.flatten()
    index = np.repeat([f"prompt-{number}" for number in range(P)], G).astype(object)

    def group_view():
        return grpo(rewards, unbiased=True, epsilon=1e-6)

    def token_view():
        scores = token_rewards.sum(1).view(P, G)
        return grpo(scores, unbiased=True, epsilon=1e-6).view(-1, 1) * mask

    ours = {"(P, G) in and out": group_view, "(B, T) in and out": token_view}
    peers = verl_advantages(token_rewards, mask, index)
    rows = []
    for view, function in ours.items():
        name = f"GRPO advantage, {P} x {G}, T = {T}; ours {view}"
        function()
        if not peers:
            ms = 1e3 * median(timed(function) for _ in range(rounds))
            rows.append(row(name, ms, None, "ms", MISSING_VERL))
        for peer_name, peer in peers.items():
            torch.testing.assert_close(token_view(), peer(), rtol=1e-4, atol=1e-5)
            times = alternate(function, peer, rounds)
            ms, peer_ms = (1e3 * median(side) for side in times)
            note = f"peer: verl {metadata.version('verl')} {peer_name}, (B, T) in and out"
            rows.append(row(name, ms, peer_ms, "ms", note))
    return rows


def verl_advantages(token_rewards, mask, index) -> dict:
    """Return name -> verl's function on this batch; empty where verl is not installed."""
    if util.find_spec("verl") is None:
        return {}
    from verl.trainer.ppo import core_algos

    both = {
        "grpo (loop)": core_algos.compute_grpo_outcome_advantage,
        "grpo_vectorized": core_algos.compute_grpo_vectorized_outcome_advantage,
    }
    return {
        name: lambda function=function: function(token_rewards, mask, index)[0]
        for name, function in both.items()
    }
