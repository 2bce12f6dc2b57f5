"""Policy losses, token weights, regularisers and aggregation: worked by hand, against slow
references, and what padding, order and the split into micro-batches must not change."""

import itertools
import math
import statistics
from functools import partial

import pytest
import torch

from common.errors import UserError
from common.losses.aggregate import sequence_mean_token_mean, token_mean, token_sum
from common.losses.clip import cispo, dual_clip, ppo_clip
from common.losses.covariance import (
    clip_cov,
    covariance,
    cw_grpo_repository,
    gaussian_kernel,
    kl_cov,
    top_covariance,
    weighted_ppo_clip,
)
from common.losses.regularizers import kl_k1, kl_k2, kl_k3
from common.losses.sequence import gspo


def rows(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(
        actual, torch.as_tensor(expected, dtype=actual.dtype), rtol=tolerance, atol=tolerance
    )


def batch(seed: int = 0, B: int = 12, T: int = 9, spread: float = 0.3):
    """log_prob, old_log_prob, advantages (B, 1), mask: ragged rows of 1 to T tokens."""
    torch.manual_seed(seed)
    old = -torch.rand(B, T, dtype=torch.float64) * 4
    log_prob = old + spread * torch.randn(B, T, dtype=torch.float64)
    mask = (torch.arange(T) < torch.randint(1, T + 1, (B, 1))).double()
    return log_prob, old, torch.randn(B, 1, dtype=torch.float64), mask


CLIP = dict(eps_low=0.2, eps_high=0.28)
ONE = rows([1])


def no_weights(log_prob, old, advantages, mask):
    return None


# name -> (token weights of the whole mini-batch, the loss that takes them)
METHODS = {
    "ppo_clip": (no_weights, partial(ppo_clip, **CLIP)),
    "dual_clip": (no_weights, partial(dual_clip, clip_ratio_c=1.5, **CLIP)),
    "cispo": (no_weights, partial(cispo, **CLIP)),
    "gspo": (no_weights, partial(gspo, **CLIP)),
    "cw_grpo": (partial(gaussian_kernel, mean="token"), partial(weighted_ppo_clip, **CLIP)),
    "cw_grpo, sequence": (
        partial(gaussian_kernel, mean="sequence"),
        partial(weighted_ppo_clip, **CLIP),
    ),
    "clip_cov": (
        partial(clip_cov, ratio=0.1, omega_low=0.5, omega_high=3.0, seed=0, **CLIP),
        partial(weighted_ppo_clip, **CLIP),
    ),
    "kl_cov": (partial(top_covariance, k=0.1), partial(kl_cov, kl_coef=0.7)),
    "cw_grpo_repository": (no_weights, cw_grpo_repository),
}
AGGREGATIONS = [token_mean, sequence_mean_token_mean, partial(token_sum, max_tokens=11)]


def with_weights(name, log_prob, old, advantages, mask):
    """The method's loss as a function of the four tensors, its weights made from these."""
    weigh, loss = METHODS[name]
    token_weights = weigh(log_prob.detach(), old, advantages, mask)
    return loss if token_weights is None else partial(loss, token_weights=token_weights)


def scalar_and_gradient(name, log_prob, old, advantages, mask, aggregate=token_mean, micro=None):
    """As the loop does it: weights of the whole mini-batch, then micro-batch by micro-batch."""
    weigh, loss = METHODS[name]
    token_weights = weigh(log_prob, old, advantages, mask)
    weights, x = aggregate(mask), log_prob.clone().requires_grad_()
    total = 0.0
    for start in range(0, len(mask), micro or len(mask)):
        part = slice(start, start + (micro or len(mask)))
        more = {} if token_weights is None else {"token_weights": token_weights[part]}
        per_token, _ = loss(x[part], old[part], advantages[part], mask[part], **more)
        part_loss = torch.where(mask[part] > 0, per_token * weights[part], 0.0).sum()
        part_loss.backward()
        total += part_loss.item()
    return total, x.grad


# ---- by hand


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


def check_by_hand(loss, ratio, advantage, expected, slope, clipped):
    old = rows([-1.3])
    log_prob = (old + math.log(ratio)).requires_grad_()
    out, flag = loss(log_prob, old, rows([advantage]), ONE)
    close(out, [[expected]])
    assert flag.tolist() == [[clipped]]
    assert not flag.requires_grad
    close(torch.autograd.grad(out.sum(), log_prob)[0], [[slope]])


@pytest.mark.parametrize("case", RATIOS + WILD)
def test_ppo_clip_by_hand(case):
    check_by_hand(partial(ppo_clip, **CLIP), *case)


@pytest.mark.parametrize("case", RATIOS + HELD)
def test_dual_clip_by_hand(case):
    check_by_hand(partial(dual_clip, clip_ratio_c=3.0, **CLIP), *case)


@pytest.mark.parametrize("case", RATIOS + WILD)
def test_gspo_of_one_token_is_ppo_clip(case):
    check_by_hand(partial(gspo, **CLIP), *case)


def test_dual_clip_clamps_the_log_ratio_and_needs_c_above_one():
    # log r = 30 becomes 20: -exp(20) A for a good token with no upper clip, and no gradient.
    log_prob = rows([30.0]).requires_grad_()
    loss = partial(dual_clip, eps_low=0.2, eps_high=1e30)
    out, _ = loss(log_prob, rows([0.0]), rows([1.0]), ONE, clip_ratio_c=3.0)
    close(out, [[-math.exp(20)]])
    close(torch.autograd.grad(out.sum(), log_prob)[0], [[0.0]])
    with pytest.raises(UserError, match=r"method\.loss\.clip_ratio_c=1\.0: must be above 1"):
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
    close(out, -weight * advantage * log_prob.detach())
    assert flag.tolist() == [[weight != ratio and ratio > 6]]
    # The weight carries no gradient and no gradient is lost: d loss / d log_prob = -w A.
    close(torch.autograd.grad(out.sum(), log_prob)[0], [[-weight * advantage]])


def test_cispo_lower_clip_by_hand():
    # eps_low = 0.2: weight = max(r, 0.8); old = log 1, log_prob = log 0.5.
    log_prob = rows([math.log(0.5)])
    out, flag = cispo(log_prob, rows([0.0]), rows([3.0]), ONE, eps_low=0.2, eps_high=0.2)
    close(out, -0.8 * 3.0 * log_prob)
    assert flag.tolist() == [[True]]


def test_gspo_by_hand():
    # Ratios 1.5 and 2/3 over two tokens: s = (1.5 * 2/3)^(1/2) = 1 although each token is outside
    # the clip; loss -A, slope -A each. Ratios 4 and 1: s = 2, clipped at 1.28 where A > 0, free
    # where A < 0 with slope -s A = 2 each.
    log_r = rows([math.log(1.5), math.log(2 / 3)], [math.log(4), 0], [math.log(4), 0])
    old = torch.full_like(log_r, -0.7)
    x = (old + log_r).requires_grad_()
    out, flag = gspo(x, old, rows([3.0], [1.0], [-1.0]), torch.ones(3, 2), **CLIP)
    close(out, [[-3.0, -3.0], [-1.28, -1.28], [2.0, 2.0]])
    assert flag.tolist() == [[False] * 2, [True] * 2, [False] * 2]
    slope = torch.autograd.grad(out.sum(), x)[0]
    close(slope, [[-3.0, -3.0], [0.0, 0.0], [2.0, 2.0]])


def test_covariance_and_kernel_by_hand():
    # Three tokens: log-probs -1, -3 in a row with A = 1; -2 in a row with A = -2.
    log_prob, mask = rows([-1, -3], [-2, 0]), rows([1, 1], [1, 0])
    A = rows([1], [-2])
    # Token means: log-prob -2, A 0. c = (1)(1), (-1)(1), (0)(-2).
    c = covariance(log_prob, A, mask, mean="token")
    close(c, [[1, -1], [0, 0]])
    # Sequence means: log-prob -2 and -2, A (1 - 2) / 2 = -1/2. c = 1 * 3/2, -1 * 3/2, 0.
    close(covariance(log_prob, A, mask, mean="sequence"), [[1.5, -1.5], [0, 0]])
    # sigma^2 = (1 + 1 + 0) / 3 = 2/3: w = exp(-3/4), exp(-3/4), 1, times 3 / sum.
    low = math.exp(-0.75)
    total = 2 * low + 1
    weights = gaussian_kernel(log_prob, log_prob, A, mask, mean="token")
    close(weights, [[3 * low / total, 3 * low / total], [3 / total, 0]])
    # The scale of c cancels in c / sigma.
    close(gaussian_kernel(log_prob, log_prob, A, mask, mean="sequence"), weights)
    with pytest.raises(UserError, match=r"method\.token_weights\.mean=group: must be token or"):
        gaussian_kernel(log_prob, log_prob, A, mask, mean="group")


def test_kl_estimators_by_hand():
    # pi = 1/2, pi_ref = 1/4: d = log 2; exp(-d) + d - 1 = log 2 - 1/2. Equal: 0.
    log_prob, ref = rows([math.log(0.5), -1.0]), rows([math.log(0.25), -1.0])
    close(kl_k1(log_prob, ref), [[math.log(2), 0.0]])
    close(kl_k2(log_prob, ref), [[math.log(2) ** 2 / 2, 0.0]])
    close(kl_k3(log_prob, ref), [[math.log(2) - 0.5, 0.0]])
    # The other way round: d = -log 2, 2 - log 2 - 1.
    close(kl_k3(ref, log_prob), [[1 - math.log(2), 0.0]])


def test_means_and_gradients_of_the_kl_estimators():
    torch.manual_seed(2)
    logits = (2 * torch.randn(50, 7, dtype=torch.float64)).requires_grad_()
    log_p = torch.log_softmax(logits, -1)
    log_ref = torch.log_softmax(torch.randn(50, 7, dtype=torch.float64) * 2, -1)
    p = log_p.exp().detach()
    exact = (log_p.exp() * (log_p - log_ref)).sum(1)
    assert (kl_k3(log_p, log_ref) >= 0).all()
    for unbiased in (kl_k1, kl_k3):
        close((p * unbiased(log_p, log_ref)).sum(1), exact.detach(), 1e-10)

    def slope(value):
        return torch.autograd.grad(value.sum(), logits, retain_graph=True)[0]

    # Mean gradient over samples of pi: that of the KL for k2, nothing for k1, KL(ref || pi) for k3.
    close(slope(p * kl_k2(log_p, log_ref)), slope(exact), 1e-10)
    close(slope(p * kl_k1(log_p, log_ref)), torch.zeros_like(logits), 1e-10)
    reverse = (log_ref.exp() * (log_ref - log_p)).sum(1)
    close(slope(p * kl_k3(log_p, log_ref)), slope(reverse), 1e-10)


def test_aggregation_by_hand():
    # Lengths 1, 3 and 2: six tokens, three responses.
    mask = rows([1, 0, 0], [1, 1, 1], [1, 1, 0])
    sixth = 1 / 6
    close(token_mean(mask), [[sixth, 0, 0], [sixth] * 3, [sixth, sixth, 0]])
    third, ninth = 1 / 3, 1 / 9
    close(sequence_mean_token_mean(mask), [[third, 0, 0], [ninth] * 3, [sixth, sixth, 0]])
    # Three responses of at most 4 tokens: 1/12 a token.
    close(token_sum(mask, max_tokens=4), mask / 12)
    # Losses 6, (3, 3, 0), (1, 2): token mean 15/6; sequence means 6, 2, 3/2, their mean 19/6.
    losses = rows([6, 9, 9], [3, 3, 0], [1, 2, 9])
    close((token_mean(mask) * losses).sum(), 15 / 6)
    close((sequence_mean_token_mean(mask) * losses).sum(), 19 / 6)
    close((token_sum(mask, max_tokens=4) * losses).sum(), 15 / 12)
    with pytest.raises(UserError, match=r"method\.aggregation\.max_tokens=0: must be at least 1"):
        token_sum(mask, max_tokens=0)


@pytest.mark.parametrize("aggregate", AGGREGATIONS)
def test_aggregation_ignores_padding(aggregate):
    torch.manual_seed(3)
    mask = (torch.arange(9) < torch.randint(1, 9, (20, 1))).double()
    weights = aggregate(mask)
    if aggregate in (token_mean, sequence_mean_token_mean):
        close(weights.sum(), 1.0)
    assert (weights[mask == 0] == 0).all()
    wider = aggregate(torch.nn.functional.pad(mask, (0, 4)))
    close(wider[:, :9], weights)
    assert (wider[:, 9:] == 0).all()


# ---- slow references


def real_tokens(mask):
    return [(i, t) for i, row in enumerate(mask.tolist()) for t, m in enumerate(row) if m]


def slow_covariance(log_prob, A, mask, mean):
    tokens = real_tokens(mask)
    out = {}
    for i, t in tokens:
        if mean == "token":
            log_p_mean = statistics.fmean(log_prob[at].item() for at in tokens)
            A_mean = statistics.fmean(A[j, 0].item() for j, _ in tokens)
        else:
            log_p_mean = statistics.fmean(log_prob[at].item() for at in tokens if at[0] == i)
            A_mean = statistics.fmean(A[:, 0].tolist())
        out[i, t] = (log_prob[i, t].item() - log_p_mean) * (A[i, 0].item() - A_mean)
    return out


def table(values: dict, like: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(like)
    for at, value in values.items():
        out[at] = value
    return out


@pytest.mark.parametrize("mean", ["token", "sequence"])
@pytest.mark.parametrize("seed", range(4))
def test_gaussian_kernel_against_a_slow_reference(mean, seed):
    log_prob, old, A, mask = batch(seed)
    c = slow_covariance(log_prob, A, mask, mean)
    close(covariance(log_prob, A, mask, mean=mean), table(c, mask), 1e-9)
    sigma = statistics.pstdev(c.values())
    w = {at: math.exp(-(value**2) / (2 * sigma**2)) for at, value in c.items()}
    expected = {at: value * len(w) / sum(w.values()) for at, value in w.items()}
    weights = gaussian_kernel(log_prob, old, A, mask, mean=mean)
    close(weights, table(expected, mask), 1e-9)
    close(weights.sum() / mask.sum(), 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_clip_cov_against_a_slow_reference(seed):
    log_prob, old, A, mask = batch(seed, B=40, T=12)
    c = slow_covariance(log_prob, A, mask, "token")
    candidates = set()
    for (i, t), value in c.items():
        r, a = math.exp(log_prob[i, t] - old[i, t]), A[i, 0].item()
        clipped = (a > 0 and r > 1.28) or (a < 0 and r < 0.8)
        if 0.5 < value < 2.0 and not clipped:
            candidates.add((i, t))
    number = max(1, math.floor(0.04 * mask.sum().item()))
    assert 2 < number < len(candidates)
    choose = partial(clip_cov, ratio=0.04, omega_low=0.5, omega_high=2.0, **CLIP)
    picks = []
    for pick in range(200):
        weights = choose(log_prob, old, A, mask, seed=pick)
        assert set(weights.unique().tolist()) == {0.0, 1.0}
        zeros = {tuple(at) for at in ((weights == 0) & (mask > 0)).nonzero().tolist()}
        assert len(zeros) == number
        assert zeros <= candidates
        picks.append(zeros)
    # Every candidate is chosen about equally often: 200 draws of probability number / candidates.
    share = number / len(candidates)
    spread = math.sqrt(200 * share * (1 - share))
    counts = [sum(at in zeros for zeros in picks) for at in candidates]
    assert max(abs(count - 200 * share) for count in counts) < 5 * spread
    # All candidates if there are fewer than wanted; none if no token is in the range.
    weights = choose(log_prob, old, A, mask, seed=0, ratio=1.0)
    assert ((weights == 0) & (mask > 0)).sum() == len(candidates)
    nothing = choose(log_prob, old, A, mask, seed=0, omega_low=1e6, omega_high=2e6)
    assert torch.equal(nothing, mask)


@pytest.mark.parametrize("seed", range(4))
def test_kl_cov_against_a_slow_reference(seed):
    log_prob, old, A, mask = batch(seed)
    c = slow_covariance(log_prob, A, mask, "token")
    number = max(1, math.floor(0.1 * len(c)))
    top = sorted(c, key=c.get)[-number:]
    weights = top_covariance(log_prob, old, A, mask, k=0.1)
    close(weights, table(dict.fromkeys(top, 1.0), mask))
    expected = {}
    for at in c:
        log_r = (log_prob[at] - old[at]).item()
        expected[at] = -math.exp(log_r) * A[at[0], 0].item() + 0.7 * (at in top) * abs(log_r)
    loss, clipped = kl_cov(log_prob, old, A, mask, token_weights=weights, kl_coef=0.7)
    close(loss * mask, table(expected, mask))
    assert not clipped.any()


@pytest.mark.parametrize("seed", range(4))
def test_gspo_against_a_slow_reference(seed):
    """Value, and with the sequence mean the gradient of GSPO's own objective on whole responses."""
    log_prob, old, A, mask = batch(seed, spread=0.8)
    x = log_prob.clone().requires_grad_()
    objective, values = 0.0, {}
    for i, length in enumerate(mask.sum(1).int().tolist()):
        s = ((x[i, :length] - old[i, :length]).sum() / length).exp()
        loss = -torch.minimum(s * A[i, 0], s.clamp(0.8, 1.28) * A[i, 0])
        values |= {(i, t): loss.item() for t in range(length)}
        objective = objective + loss / len(mask)
    out, clipped = gspo(log_prob, old, A, mask, **CLIP)
    close(out * mask, table(values, mask))
    assert 0 < clipped.sum() < clipped.numel()
    total, gradient = scalar_and_gradient("gspo", log_prob, old, A, mask, sequence_mean_token_mean)
    close(torch.tensor(total), objective.item(), 1e-6)
    close(gradient, torch.autograd.grad(objective, x)[0])


def test_the_repository_reading_against_a_slow_reference():
    log_prob, old, A, mask = batch(5, B=6)
    x = log_prob.clone().requires_grad_()
    lengths = mask.sum(1).int().tolist()
    c = [(x[i, :n] - x[i, :n].mean()) * (A[i, 0] - A[:, 0].mean()) for i, n in enumerate(lengths)]
    sigma = torch.cat(c).std(correction=0) + 1e-8
    w = [(-(one**2) / (2 * sigma**2)).exp() for one in c]
    scale = mask.numel() / torch.cat(w).sum()
    expected = sum((-w[i] * scale * A[i, 0]).mean() for i in range(len(w))) / len(w)
    ratio = sum((-w[i].detach() * A[i, 0] * x[i, :n]).mean() for i, n in enumerate(lengths))
    ratio = ratio * scale.detach() / len(w)
    total, gradient = scalar_and_gradient(
        "cw_grpo_repository", log_prob, old, A, mask, sequence_mean_token_mean
    )
    close(torch.tensor(total), expected.item(), 1e-6)
    close(gradient, torch.autograd.grad(expected + ratio, x)[0], 1e-9)
    # Its mean weight is the share of padding turned upside down, ours is 1.
    paper = gaussian_kernel(log_prob, old, A, mask, mean="sequence")
    loss, _ = cw_grpo_repository(log_prob, old, A, mask)
    weights = torch.where(mask > 0, loss / -A, 0)
    close(weights.sum() / paper.sum(), mask.numel() / mask.sum(), 1e-9)
    close(weights * mask.sum() / mask.numel(), paper, 1e-6)


# ---- limits


@pytest.mark.parametrize("mean", ["token", "sequence"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -1 / 3, 1e6])
def test_equal_covariances_give_weights_of_exactly_one(mean, dtype, value):
    log_prob, old, _, mask = (x.to(dtype) for x in batch(7, B=50))
    A = torch.full((50, 1), value, dtype=dtype)
    assert torch.equal(gaussian_kernel(log_prob, old, A, mask, mean=mean), mask)
    # And the loss is then the parent's, bit for bit.
    parent, flag = ppo_clip(log_prob, old, A, mask, **CLIP)
    loss, weighted_flag = weighted_ppo_clip(log_prob, old, A, mask, token_weights=mask, **CLIP)
    assert torch.equal(loss[mask > 0], parent[mask > 0])
    assert torch.equal(weighted_flag[mask > 0], flag[mask > 0])


def test_small_differences_of_advantage_are_not_taken_for_rounding():
    log_prob, old, A, mask = batch(8)
    close(
        gaussian_kernel(log_prob, old, 1 + 1e-4 * A, mask, mean="token"),
        gaussian_kernel(log_prob, old, A, mask, mean="token"),
        1e-6,
    )


# ---- gradients


@pytest.mark.parametrize("name", ["ppo_clip", "dual_clip", "cw_grpo", "clip_cov", "kl_cov"])
def test_gradients_by_finite_differences(name):
    # Away from the kinks at r = 0.8, 1, 1.28 and 1.5.
    log_prob, old, A, mask = batch(1)
    shift = torch.empty_like(old).uniform_(0.03, 0.5) * torch.randn_like(old).sign()
    log_prob = (old + shift).requires_grad_()
    for edge in (0.8, 1.28, 1.5):
        assert ((log_prob - old).exp() - edge).abs().min() > 1e-4
    loss = with_weights(name, log_prob, old, A, mask)
    assert torch.autograd.gradcheck(lambda x: loss(x, old, A, mask)[0] * mask, log_prob)


def test_gradients_of_constant_weights_by_finite_differences():
    """CISPO and GSPO-token have weights that are constants by definition, and so has the ratio of
    the repository reading: frozen, then differentiated."""
    log_prob, old, A, mask = batch(1)
    step = 1e-6
    x = log_prob.clone().requires_grad_()
    out, _ = cispo(x, old, A, mask, **CLIP)
    weight = (log_prob - old).exp().clamp(0.8, 1.28)
    up, down = (-(weight * A * (log_prob + sign * step)) for sign in (1, -1))
    close(torch.autograd.grad((out * mask).sum(), x)[0], (up - down) / (2 * step) * mask, 1e-8)

    out, flag = gspo(x, old, A, mask, **CLIP)
    s = (((log_prob - old) * mask).sum(1) / mask.sum(1)).exp()[:, None]
    up, down = (-s * math.exp(sign * step) * A for sign in (1, -1))
    expected = torch.where(flag, 0, (up - down) / (2 * step)) * mask
    close(torch.autograd.grad((out * mask).sum(), x)[0], expected, 1e-8)

    def frozen(values):  # the loss without its straight-through ratio, which is 1 in value
        return cw_grpo_repository(values.detach(), old, A, mask)[0].sum().item()

    out, _ = cw_grpo_repository(x, old, A, mask)
    gradient = torch.autograd.grad(out.sum(), x)[0]
    for i, t in real_tokens(mask)[::5]:
        up, down = log_prob.clone(), log_prob.clone()
        up[i, t] += step
        down[i, t] -= step
        through_weights = (frozen(up) - frozen(down)) / (2 * step)
        close(gradient[i, t], through_weights + out[i, t].item(), 1e-6)


@pytest.mark.parametrize("name", ["ppo_clip", "cispo"])
def test_losses_are_per_token_and_broadcast_the_advantage_of_a_row(name):
    log_prob, old, A, _ = batch(0, B=3, T=4)
    mask = torch.ones_like(old)
    loss = METHODS[name][1]
    out, _ = loss(log_prob, old, A, mask)
    assert torch.equal(out, loss(log_prob, old, A.expand(3, 4), mask)[0])
    for i, t in itertools.product(range(3), range(4)):
        at = slice(i, i + 1), slice(t, t + 1)
        one, _ = loss(log_prob[at], old[at], A[i : i + 1], mask[at])
        close(out[i, t], one[0, 0])


# ---- what must not change anything


@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e30])
@pytest.mark.parametrize("name", METHODS)
def test_garbage_on_padding_changes_neither_loss_nor_gradient(name, garbage):
    log_prob, old, A, mask = batch(4)
    A = A.expand_as(mask)
    clean = scalar_and_gradient(name, log_prob, old, A, mask)
    for dirty in itertools.product([False, True], repeat=3):
        parts = [
            torch.where((mask > 0) | ~torch.tensor(soil), x, garbage)
            for x, soil in zip((log_prob, old, A), dirty, strict=True)
        ]
        total, gradient = scalar_and_gradient(name, *parts, mask)
        assert total == clean[0]
        assert torch.equal(gradient, clean[1])
        assert (gradient[mask == 0] == 0).all()


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_the_rows_changes_nothing(name):
    log_prob, old, A, mask = batch(6)
    order = torch.randperm(len(mask))
    total, gradient = scalar_and_gradient(name, log_prob, old, A, mask)
    shuffled = scalar_and_gradient(name, *(x[order] for x in (log_prob, old, A, mask)))
    close(torch.tensor(shuffled[0]), total, 1e-6)
    close(shuffled[1], gradient[order], 1e-9)


@pytest.mark.parametrize("aggregate", AGGREGATIONS)
@pytest.mark.parametrize("micro", [1, 5])
@pytest.mark.parametrize("name", METHODS)
def test_the_split_into_micro_batches_changes_nothing(name, micro, aggregate):
    data = [x.float() for x in batch(9)]
    total, gradient = scalar_and_gradient(name, *data, aggregate)
    split_total, split_gradient = scalar_and_gradient(name, *data, aggregate, micro)
    difference = max(abs(split_total - total), (split_gradient - gradient).abs().max().item())
    if name == "cw_grpo_repository":  # as documented: its weights come from the rows of one call
        assert difference > 1e-3
    else:
        assert difference < 1e-6


def test_clip_cov_chooses_by_seed_and_value():
    log_prob, old, A, mask = batch(2, B=40)
    choose = partial(clip_cov, ratio=0.05, omega_low=0.1, omega_high=5.0, **CLIP)
    first = choose(log_prob, old, A, mask, seed=1)
    assert torch.equal(first, choose(log_prob, old, A, mask, seed=1))
    assert not torch.equal(first, choose(log_prob, old, A, mask, seed=2))
