"""A method on a batch by hand: what composes also runs."""

import torch

from common.experiment import Experiment
from common.methods import binding


def runs_on_a_toy_batch(x: Experiment) -> None:
    """Advantage, loss and aggregation of `x` on two groups, one of them all wrong."""
    P, G, T = 2, x.sampling.group_size, 3
    bound = x.bound
    correct = torch.zeros(P, G, dtype=torch.bool)
    correct[0, : G // 2] = True
    reward = torch.where(correct, x.reward.correct, x.reward.wrong)
    _, arguments = binding.observe(bound, {}, solve_rate=0.25, entropy=1.0, step=1)
    seen = {"correct": correct, "lengths": torch.full((P, G), T)}
    weights = binding.advantages(bound, reward, arguments=arguments, **seen)
    assert weights.shape == (P, G)
    assert (weights[0] != 0).any()
    log_prob = torch.full((P * G, T), -1.0, requires_grad=True)
    old, mask = torch.full((P * G, T), -1.1), torch.ones(P * G, T)
    inputs, extra = (old, weights.view(-1, 1), mask), {}
    if bound.token_weights is not None:
        extra["token_weights"] = bound.token_weights(log_prob.detach(), *inputs)
    loss, clipped = bound.loss(log_prob, *inputs, **extra)
    assert loss.shape == clipped.shape == (P * G, T)
    token_weights = bound.aggregate(mask)
    assert token_weights.shape == (P * G, T)
    assert 0 < token_weights.sum().item() < 1 + 1e-5
    (loss * token_weights).sum().backward()
    gradient = log_prob.grad.view(P, G, T)
    assert torch.isfinite(gradient).all()
    assert (gradient[0] != 0).any()
