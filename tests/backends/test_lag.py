"""Rollouts from weights that are `sampling.lag` optimiser updates old."""

import copy

import pytest
import torch
from local_loop import BONUS, made_up, make_loop
from refuses import refuses

from common.models.policy import log_probs
from common.verifiers import countdown

APART = ["sampling.temperature=0.8", "sampling.log_prob_temperature=1.3"]
FILES = ("metrics.jsonl", "counts.csv", "model/model.safetensors")


def history(loop, steps: int) -> tuple[list[dict], list]:
    """(the weights before each update, the batch of each step) of a loop's first steps."""
    weights, batches = [], []
    step, rollout = loop.optimizer.step, loop.rollout

    def recorded():
        weights.append(copy.deepcopy(loop.model.state_dict()))
        step()

    def kept(number):
        drawn = rollout(number)
        batches.append(drawn[0])
        return drawn

    loop.optimizer.step, loop.rollout = recorded, kept
    for number in range(1, steps + 1):
        loop.one_step(number)
    return weights, batches


@pytest.mark.parametrize("lag", [0, 1, 3])
def test_a_rollout_is_drawn_with_the_weights_of_so_many_updates_ago(
    tiny, tmp_path, monkeypatch, lag
):
    monkeypatch.setattr(countdown, "verify", made_up)
    x = tiny(BONUS, f"sampling.lag={lag}", "optim.lr=3e-3", "optim.warmup_steps=0", *APART)
    loop = make_loop(x, tmp_path)
    weights, batches = history(loop, 4)
    model = copy.deepcopy(loop.model)

    def off(batch, updates: int) -> float:
        """From the stored log-probabilities to those of the weights after so many updates."""
        model.load_state_dict(weights[updates])
        with torch.no_grad():
            again = log_probs(model, batch, temperature=1.3)[0]
        return ((again - batch.log_probs) * batch.mask).abs().max().item()

    for number, batch in enumerate(batches):
        done = x.optim.mini_batches * number  # updates before this rollout
        assert off(batch, max(0, done - lag)) < 1e-4
        if lag and done:
            assert off(batch, done) > 1e-3  # not those of the newest


def test_the_ratio_is_of_the_sampler(tiny, tmp_path, monkeypatch):
    """With newest weights the first mini-batch's ratio is 1; with old ones it is not."""
    monkeypatch.setattr(countdown, "verify", made_up)
    ratios = []
    for lag in (0, 4):
        settings = (f"sampling.lag={lag}", "optim.mini_batches=1", "optim.lr=3e-3")
        loop = make_loop(tiny(BONUS, *settings, "optim.warmup_steps=0"), tmp_path)
        ratios.append([loop.one_step(step)["ratio"] for step in (1, 2, 3)])
    assert ratios[0] == pytest.approx([1, 1, 1], abs=1e-5)
    assert abs(ratios[1][2] - 1) > 1e-3


@pytest.mark.parametrize("other", [["backend=verl"], ["method=dlc"]])
def test_where_it_cannot_be_is_refused(tiny, other):
    with refuses("sampling.lag", "2"):
        tiny("sampling.lag=2", *other)
