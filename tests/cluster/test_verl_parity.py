import numpy as np
import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from verl.trainer.ppo import core_algos
from verl.workers.config import FSDPActorConfig, PolicyLossConfig

from common.advantages.baseline import rloo
from common.advantages.group import grpo, mean_only, reinforce_pp_baseline
from common.advantages.passk import pass_at_k_tang
from common.losses.aggregate import sequence_mean_token_mean, token_mean
from common.losses.clip import cispo, dual_clip
from common.losses.covariance import clip_cov, weighted_ppo_clip
from common.losses.regularizers import kl_k1, kl_k2, kl_k3
from common.losses.sequence import gspo

P, G, T = 6, 4, 9
CLIP = dict(eps_low=0.2, eps_high=0.28)


def assert_close(actual, expected, tolerance=1e-6):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.fixture(params=range(3))
def batch(request):
    """mask (B, T), uid (B,) in shuffled order, rows (P, G) of each group, binary rewards (P, G)."""
    torch.manual_seed(request.param)
    lengths = torch.randint(1, T + 1, (P * G,))
    mask = (torch.arange(T) < lengths[:, None]).float()
    rows = torch.randperm(P * G).view(P, G)
    uid = np.empty(P * G, dtype=object)
    for prompt, group in enumerate(rows.tolist()):
        uid[group] = f"prompt {prompt}"
    rewards = torch.bernoulli(torch.rand(P, 1).expand(P, G))
    rewards[0], rewards[1] = 0, 1  # all wrong, all right
    return mask, uid, rows, rewards


def verl_advantage(name: str, batch, rewards=None, **arguments):
    """verl's estimator, one value a row, as (P, G); asserts that it fills the mask evenly."""
    mask, uid, rows, binary = batch
    token_rewards = torch.zeros_like(mask)
    last = mask.sum(1).long() - 1
    flat = torch.empty(P * G)
    flat[rows] = binary if rewards is None else rewards
    token_rewards[torch.arange(P * G), last] = flat
    function = core_algos.get_adv_estimator_fn(name)
    out, _ = function(token_level_rewards=token_rewards, response_mask=mask, index=uid, **arguments)
    assert_close(out, out[:, :1] * mask)
    return out[:, 0][rows]


# ---- advantages


def test_group_advantages(batch):
    for name in ("grpo", "grpo_vectorized"):
        for rewards in (batch[3], torch.rand(P, G)):
            ours = grpo(rewards, unbiased=True, epsilon=1e-6)
            assert_close(verl_advantage(name, batch, rewards), ours)
    without_std = verl_advantage("grpo", batch, norm_adv_by_std_in_grpo=False)
    assert_close(without_std, mean_only(batch[3]))
    assert_close(verl_advantage("rloo", batch), rloo(batch[3]))


def test_reinforce_pp_baseline(batch):
    mask, _, rows, rewards = batch
    ours = reinforce_pp_baseline(rewards, lengths=mask.sum(1)[rows], epsilon=1e-8)
    assert_close(verl_advantage("reinforce_plus_plus_baseline", batch), ours)


def test_pass_at_k_tang_is_verls_grpo_passk_at_k_of_the_group(batch):
    rewards = batch[3].clone()
    rewards[2] = torch.tensor([0.0, 1.0, 0.0, 0.0])  # the only case in which either is not 0
    ours = pass_at_k_tang(rewards, correct=rewards == 1, k=G)
    plain = {"norm_adv_by_std_in_grpo": False}
    theirs = verl_advantage("grpo_passk", batch, rewards, config=plain)
    assert_close(theirs, ours)
    assert ours[2].tolist() == [0, 1, 0, 0]
    # Intended: verl divides by the group's std unless told not to, Tang et al. do not.
    std = rewards.std(1, keepdim=True) + 1e-6
    assert_close(verl_advantage("grpo_passk", batch, rewards, config={"other": 0}), ours / std)
    # Intended: ours maps {-1, 1} to success first (F-GRPO Eq. 14), so that verl's is twice ours.
    signed = 2 * rewards - 1
    ours = pass_at_k_tang(signed, correct=signed == 1, k=G)
    assert_close(verl_advantage("grpo_passk", batch, signed, config=plain), 2 * ours)


# ---- losses


def settings(**policy_loss) -> FSDPActorConfig:
    """verl's actor with the clip of CLIP, normalising by the batch at hand."""
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=G,
        ppo_micro_batch_size_per_gpu=G,
        clip_ratio_low=CLIP["eps_low"],
        clip_ratio_high=CLIP["eps_high"],
        clip_ratio_c=3.0,
        policy_loss=PolicyLossConfig(**policy_loss),
    )


@pytest.fixture
def tokens(batch):
    """mask, log_prob (with gradient), old_log_prob, advantages (B, T); ratios from e^-3 to e^3."""
    mask = batch[0]
    old = -torch.rand(P * G, T) * 2 - 0.05
    log_prob = (old + torch.randn(P * G, T)).requires_grad_()
    advantages = torch.randn(P * G, 1).expand(P * G, T).contiguous()
    return mask, log_prob, old, advantages


def compare(name: str, ours, tokens, config, mode="token-mean"):
    """Value and gradient of verl's loss `name` against ours, aggregated as `mode`."""
    mask, log_prob, old, advantages = tokens
    theirs, metrics = core_algos.get_policy_loss_fn(name)(
        old_log_prob=old,
        log_prob=log_prob,
        advantages=advantages,
        response_mask=mask,
        loss_agg_mode=mode,
        config=config,
    )
    weights = token_mean(mask) if mode == "token-mean" else sequence_mean_token_mean(mask)
    values, clipped = ours(log_prob, old, advantages, mask)
    total = (weights * values).sum()
    assert_close(theirs, total)
    gradients = [torch.autograd.grad(x, log_prob)[0] for x in (theirs, total)]
    assert gradients[0].abs().max() > 1e-4
    assert_close(*gradients)
    return metrics, clipped


def test_dual_clip_is_vanilla(tokens):
    metrics, clipped = compare(
        "vanilla", lambda *a: dual_clip(*a, **CLIP, clip_ratio_c=3.0), tokens, settings()
    )
    mask = tokens[0]
    # verl counts a token below the second bound in both fractions or in the second one alone; ours
    # is their union.
    both = metrics["actor/pg_clipfrac"] + metrics["actor/pg_clipfrac_lower"]
    share = ((clipped * mask).sum() / mask.sum()).item()
    assert max(metrics.values()) - 1e-6 <= share <= both + 1e-6


@pytest.mark.parametrize(
    ("name", "mode"),
    [("gspo", "token-mean"), ("gspo", "seq-mean-token-mean"), ("cispo", "token-mean")],
)
def test_gspo_and_cispo(tokens, name, mode):
    loss = {"gspo": gspo, "cispo": cispo}[name]
    metrics, clipped = compare(name, lambda *a: loss(*a, **CLIP), tokens, settings(), mode)
    mask = tokens[0]
    assert metrics["actor/pg_clipfrac"] == pytest.approx((clipped * mask).sum() / mask.sum())


def weighted(choose, loss):
    """A loss on token weights that are chosen as the loop does: once, from detached log_prob."""

    def function(log_prob, old, advantages, mask):
        weights = choose(log_prob.detach(), old, advantages, mask)
        return loss(log_prob, old, advantages, mask, token_weights=weights)

    return function


def test_clip_cov_when_every_candidate_is_chosen(tokens):
    # verl draws from torch's global generator, ours hashes: they agree where nothing is left out.
    bounds = dict(omega_low=0.1, omega_high=5.0)
    ours = weighted(
        lambda *a: clip_cov(*a, ratio=1.0, **bounds, **CLIP, seed=0),
        lambda *a, **k: weighted_ppo_clip(*a, **k, **CLIP),
    )
    config = settings(clip_cov_ratio=1.0, clip_cov_lb=0.1, clip_cov_ub=5.0)
    metrics, _ = compare("clip_cov", ours, tokens, config)
    assert metrics["actor/pg_clipfrac"] > 0


def test_kl_estimators(tokens):
    _, log_prob, old, _ = tokens
    old = log_prob + (old - log_prob).clamp(-2, 2)
    for name, ours in {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3}.items():
        assert_close(core_algos.kl_penalty(log_prob, old, name), ours(log_prob, old))
    # Intended: verl clamps k3 at 10, which takes its gradient away there.
    far = torch.tensor([-5.0, -1.0])
    assert core_algos.kl_penalty(far, torch.zeros(2), "k3")[0] == 10
    assert_close(kl_k3(far, torch.zeros(2))[0], torch.tensor(5.0).exp() - 6)
