import math
from functools import partial

import pytest
import torch
from loss_batches import CLIP
from refuses import refuses
from tensors import assert_close, rows

from common.errors import UserError
from common.losses.aggregate import sequence_mean_token_mean, token_mean, token_sum
from common.losses.clip import cispo, dual_clip, ppo_clip
from common.losses.regularizers import kl_k1, kl_k2, kl_k3
from common.losses.sequence import gspo

ONE = rows([1])

RATIOS = [  # eps_low = 0.2, eps_high = 0.28; slope = d loss / d log_prob = -r A where unclipped
    (1.0, 2.0, -2.0, -2.0, False),
    (1.2, 2.0, -2.4, -2.4, False),  # inside 0.8..1.28
    (1.5, 2.0, -2.56, 0.0, True),  # -1.28 * 2
    (0.5, 2.0, -1.0, -1.0, False),  # min(0.5 * 2, 0.8 * 2): a good token that fell is not held
    (1.0, -2.0, 2.0, 2.0, False),
    (0.5, -2.0, 1.6, 0.0, True),  # -min(-1, -1.6)
    (0.9, -2.0, 1.8, 1.8, False),
    (1.5, -2.0, 3.0, 3.0, False),  # -min(-3, -2.56): a bad token that rose is not held
    (1.5, 0.0, 0.0, 0.0, False),
]

WILD = [(9.0, -1.0, 9.0, 9.0, False)]  # no dual clip

HELD = [  # the second bound, c = 3
    (2.9, -1.0, 2.9, 2.9, False),
    (9.0, -1.0, 3.0, 0.0, True),
    (9.0, -2.0, 6.0, 0.0, True),
    (9.0, 1.0, -1.28, 0.0, True),  # bad tokens only
]


def assert_by_hand(loss, ratio, advantage, expected, slope, clipped):
    old = rows([-1.3])
    log_prob = (old + math.log(ratio)).requires_grad_()
    out, flag = loss(log_prob, old, rows([advantage]), ONE)
    assert_close(out, [[expected]])
    assert flag.tolist() == [[clipped]]
    assert not flag.requires_grad
    assert_close(torch.autograd.grad(out.sum(), log_prob)[0], [[slope]])


@pytest.mark.parametrize("case", RATIOS + WILD)
def test_ppo_clip_by_hand(case):
    assert_by_hand(partial(ppo_clip, **CLIP), *case)


@pytest.mark.parametrize("case", RATIOS + HELD)
def test_dual_clip_by_hand(case):
    assert_by_hand(partial(dual_clip, clip_ratio_c=3.0, **CLIP), *case)


def test_dual_clip_clamps_the_log_ratio_and_needs_c_above_one():
    # log r = 30 becomes 20: -exp(20) A for a good token with no upper clip, and no gradient.
    log_prob = rows([30.0]).requires_grad_()
    loss = partial(dual_clip, eps_low=0.2, eps_high=1e30)
    out, _ = loss(log_prob, rows([0.0]), rows([1.0]), ONE, clip_ratio_c=3.0)
    assert_close(out, [[-math.exp(20)]])
    assert_close(torch.autograd.grad(out.sum(), log_prob)[0], [[0.0]])
    with refuses("method.loss.clip_ratio_c", "1.0"):
        loss(log_prob, rows([0.0]), rows([1.0]), ONE, clip_ratio_c=1.0)


@pytest.mark.parametrize(
    ("ratio", "advantage", "weight"),
    [  # eps_low = 1, eps_high = 5 as in the paper: weight = clip(r, 0, 6)
        (1.0, 2.0, 1.0),
        (0.01, 2.0, 0.01),
        (6.5, 2.0, 6.0),
        (6.5, -2.0, 6.0),  # the sign of A does not matter
        (0.5, -2.0, 0.5),
    ],
)
def test_cispo_by_hand(ratio, advantage, weight):
    old = rows([-1.3])
    log_prob = (old + math.log(ratio)).requires_grad_()
    out, flag = cispo(log_prob, old, rows([advantage]), ONE, eps_low=1.0, eps_high=5.0)
    assert_close(out, -weight * advantage * log_prob.detach())
    assert flag.tolist() == [[weight != ratio and ratio > 6]]
    # The weight carries no gradient and no gradient is lost: d loss / d log_prob = -w A.
    assert_close(torch.autograd.grad(out.sum(), log_prob)[0], [[-weight * advantage]])


def test_gspo_by_hand():
    # Ratios 1.5 and 2/3 over two tokens: s = (1.5 * 2/3)^(1/2) = 1 although each token is outside
    # the clip; loss -A, slope -A each. Ratios 4 and 1: s = 2, clipped at 1.28 where A > 0, free
    # where A < 0 with slope -s A = 2 each.
    log_r = rows([math.log(1.5), math.log(2 / 3)], [math.log(4), 0], [math.log(4), 0])
    old = torch.full_like(log_r, -0.7)
    x = (old + log_r).requires_grad_()
    out, flag = gspo(x, old, rows([3.0], [1.0], [-1.0]), torch.ones(3, 2), **CLIP)
    assert_close(out, [[-3.0, -3.0], [-1.28, -1.28], [2.0, 2.0]])
    assert flag.tolist() == [[False] * 2, [True] * 2, [False] * 2]
    slope = torch.autograd.grad(out.sum(), x)[0]
    assert_close(slope, [[-3.0, -3.0], [0.0, 0.0], [2.0, 2.0]])


def test_kl_estimators_by_hand():
    # pi = 1/2, pi_ref = 1/4: d = log 2; exp(-d) + d - 1 = log 2 - 1/2. Equal: 0.
    log_prob, ref = rows([math.log(0.5), -1.0]), rows([math.log(0.25), -1.0])
    assert_close(kl_k1(log_prob, ref), [[math.log(2), 0.0]])
    assert_close(kl_k2(log_prob, ref), [[math.log(2) ** 2 / 2, 0.0]])
    assert_close(kl_k3(log_prob, ref), [[math.log(2) - 0.5, 0.0]])
    # The other way round: d = -log 2, 2 - log 2 - 1.
    assert_close(kl_k3(ref, log_prob), [[1 - math.log(2), 0.0]])


def test_aggregation_by_hand():
    # Lengths 1, 3 and 2: six tokens, three responses.
    mask = rows([1, 0, 0], [1, 1, 1], [1, 1, 0])
    sixth = 1 / 6
    assert_close(token_mean(mask), [[sixth, 0, 0], [sixth] * 3, [sixth, sixth, 0]])
    third, ninth = 1 / 3, 1 / 9
    assert_close(sequence_mean_token_mean(mask), [[third, 0, 0], [ninth] * 3, [sixth, sixth, 0]])
    # A response without tokens counts as one and adds nothing.
    assert_close(sequence_mean_token_mean(rows([1, 1], [0, 0])), [[0.25, 0.25], [0, 0]])
    # Three responses of at most 4 tokens: 1/12 a token.
    assert_close(token_sum(mask, max_tokens=4), mask / 12)
    # Losses 6, (3, 3, 0), (1, 2): token mean 15/6; sequence means 6, 2, 3/2, their mean 19/6.
    losses = rows([6, 9, 9], [3, 3, 0], [1, 2, 9])
    assert_close((token_mean(mask) * losses).sum(), 15 / 6)
    assert_close((sequence_mean_token_mean(mask) * losses).sum(), 19 / 6)
    assert_close((token_sum(mask, max_tokens=4) * losses).sum(), 15 / 12)
    with refuses("method.aggregation.max_tokens", "0"):
        token_sum(mask, max_tokens=0)


@pytest.mark.parametrize("loss", [ppo_clip, cispo, gspo])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        # (B,) with B = T would broadcast along the tokens, silently
        ({"advantages": torch.ones(3)}, r"advantages of shape \(3,\): .* \(3, 1\).* \(3, 3\)"),
        ({"eps_low": -0.2}, r"eps_low=-0.2: must be in \[0, 1\]"),
        ({"eps_low": 20.0}, r"eps_low=20.0: must be in \[0, 1\]"),
        ({"eps_high": -0.1}, r"eps_high=-0.1: must be at least 0"),
    ],
)
def test_advantages_and_ranges_that_cannot_be_meant_are_refused(loss, changes, said):
    given = {"advantages": torch.ones(3, 1), "eps_low": 0.2, "eps_high": 0.2}
    tokens = torch.zeros(3, 3)
    loss(tokens, tokens, mask=torch.ones(3, 3), **given)
    with pytest.raises(UserError, match=said):
        loss(tokens, tokens, mask=torch.ones(3, 3), **(given | changes))
