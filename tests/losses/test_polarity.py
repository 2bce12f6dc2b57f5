"""A3PO's token weights: by hand, against a loop, their limits, and what they do to a step."""

import math

import pytest
import torch
from loss_batches import CLIP, batch, scalar_and_gradient
from tensors import assert_close, rows

from common.errors import UserError
from common.losses.clip import ppo_clip
from common.losses.covariance import weighted_ppo_clip
from common.losses.polarity import a3po, least
from common.methods import theory
from common.methods.binding import bind

SETTINGS = {
    "positive_low_ratio": 0.4,
    "positive_low_scale": 3.0,
    "negative_high_ratio": 0.25,
    "negative_high_scale": 5.0,
}


def test_the_least_by_hand():
    # 0.4 of five tokens are two, of four one, of one still one; equal ones in their order
    values = rows([5, 1, 3, 2, 4], [5, 1, 3, 2, 0], [7, 0, 0, 0, 0], [1, 1, 1, 1, 1])
    mask = rows([1] * 5, [1, 1, 1, 1, 0], [1, 0, 0, 0, 0], [0, 1, 1, 1, 1])
    chosen = least(values, mask, 0.4)
    assert chosen.int().tolist() == [
        [0, 1, 0, 1, 0],
        [0, 1, 0, 0, 0],
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
    ]
    assert torch.equal(least(values, mask, 1.0), mask > 0)
    assert not least(values, torch.zeros_like(mask), 0.4).any()
    # floor(0.29 * 100) is 28 in double precision and 29 in single: as the authors' int() has it
    hundred = least(torch.rand(1, 100), torch.ones(1, 100), 0.29)
    assert hundred.sum() == math.floor(0.29 * 100)


def test_by_hand():
    # pi_old ranks its tokens 4, 1, 3, 2 from the likeliest; 0.5 of them are two
    old = rows(*[[-4.0, -1.0, -3.0, -2.0]] * 3)
    given = SETTINGS | {"positive_low_ratio": 0.5}
    weights = a3po(torch.zeros(3, 4), old, rows([2.0], [-1.0], [0.0]), torch.ones(3, 4), **given)
    assert_close(weights, [[3, 1, 3, 1], [1, 5, 1, 1], [1, 1, 1, 1]])
    spread = rows([2.0] * 4, [-1.0] * 4, [0.0] * 4)  # one advantage a token, as verl has them
    again = a3po(torch.zeros(3, 4), old, spread, torch.ones(3, 4), **given)
    assert torch.equal(again, weights)


@pytest.mark.parametrize("seed", range(3))
def test_against_a_loop(seed):
    log_prob, old, A, mask = batch(seed)
    expected = torch.zeros_like(mask)
    for i, row in enumerate(mask):
        tokens = range(int(row.sum()))
        likely = sorted(tokens, key=lambda t: old[i, t].item())
        right = A[i] > 0
        number = max(1, int(len(tokens) * (0.4 if right else 0.25)))
        chosen = likely[:number] if right else likely[-number:]
        for t in tokens:
            expected[i, t] = (3.0 if right else 5.0) if t in chosen else 1.0
    assert_close(a3po(log_prob, old, A, mask, **SETTINGS), expected)


def test_the_micro_batch_and_the_policy_that_is_trained_do_not_matter():
    log_prob, old, A, mask = batch(1)
    weights = a3po(log_prob, old, A, mask, **SETTINGS)
    assert torch.equal(weights, a3po(torch.rand_like(log_prob), old, A, mask, **SETTINGS))
    parts = [x.split(5) for x in (log_prob, old, A, mask)]
    split = torch.cat([a3po(*part, **SETTINGS) for part in zip(*parts, strict=True)])
    assert torch.equal(weights, split)


def test_scales_of_one_are_the_parent_method_and_others_scale_its_gradient():
    log_prob, old, A, mask = batch(2)
    plain, clipped = ppo_clip(log_prob, old, A, mask, **CLIP)
    off = SETTINGS | {"positive_low_scale": 1.0, "negative_high_scale": 1.0}
    for settings in (off, SETTINGS):
        weights = a3po(log_prob, old, A, mask, **settings)
        loss, flag = weighted_ppo_clip(log_prob, old, A, mask, token_weights=weights, **CLIP)
        assert_close(loss * mask, weights * plain)
        assert torch.equal(flag * mask, clipped * mask)
    _, gradient = scalar_and_gradient("a3po", log_prob, old, A, mask)
    _, before = scalar_and_gradient("ppo_clip", log_prob, old, A, mask)
    share = gradient[before != 0] / before[before != 0]
    assert {round(one, 6) for one in share.tolist()} == {1.0, 3.0, 5.0}


def test_the_method_file_doubles_a_fifth_of_a_response():
    method = bind(theory.compose(["method=a3po"]).method)
    old = -torch.rand(2, 10)
    weights = method.token_weights(old, old, torch.tensor([[1.0], [-1.0]]), torch.ones(2, 10))
    assert weights.sum(1).tolist() == [12, 12]
    assert (weights[0][old[0].topk(2, largest=False).indices] == 2).all()
    assert (weights[1][old[1].topk(2).indices] == 2).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"positive_low_ratio": 0.0}, r"positive_low_ratio=0\.0: must be in \(0, 1\]"),
        ({"negative_high_ratio": 1.2}, r"negative_high_ratio=1\.2: must be in \(0, 1\]"),
        ({"negative_high_scale": -1}, r"negative_high_scale=-1: must be at least 0"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    with pytest.raises(UserError, match=rf"method\.token_weights\.{said}"):
        a3po(*batch(0), **{**SETTINGS, **change})
