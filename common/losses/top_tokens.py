"""Policy losses that look at the likeliest tokens too, `(B, T) -> (B, T)`; see `clip.py`.

Besides the four tensors of every policy loss, such a loss takes three of the policy being trained:
`entropy` (B, T), without gradient; `top_log_prob` (B, T, K), the log-probabilities of its K
likeliest tokens at each position, likeliest first, with gradient; and `drawn_top` (B, T), True
where the response has the likeliest token.
"""

import torch

from common.errors import UserError, require
from common.losses.clip import log_ratio, surrogate


def simko(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    entropy: torch.Tensor,
    top_log_prob: torch.Tensor,
    drawn_top: torch.Tensor,
    K: int,
    alpha: float,
    lambda_top1: float,
    tau: float,
    eps_low: float,
    eps_high: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """SimKO: at uncertain tokens a right answer also raises the other likely tokens, and a wrong
    answer that took the likeliest token is lowered more.

        H_t > quantile tau of its response's H: the tokens where it differs from `ppo_clip`
        A > 0: g_t = (1 - alpha) r_t + (alpha / K) sum_k sg(r_t / r_{t,k}) r_{t,k}, else g_t = r_t
        A < 0: A_t = lambda_top1 A where the token is the likeliest, else A_t = A
        L_t = -min(g_t A_t, clip(g_t, 1 - eps_low, 1 + eps_high) A_t)

    r_{t,k} is the ratio of the k-th likeliest token, and sg stops the gradient.

    Source: Peng et al. 2025 (arXiv 2510.14807); alpha = 0.01, K = 3, 1.1 and tau = 0.8.
    Peers: none
    The method was read in the authors' code (CLR-Lab/SimKO at 306f4ffc); only the abstract of the
    paper was read. As here, the code takes the K tokens, the likeliest token and the entropy of the
    policy being trained. It divides by the old probabilities of the old policy's own K likeliest
    tokens, rank by rank, but these cancel: sg(r_t / r_{t,k}) r_{t,k} = sg(r_t)
    exp(log p_k - sg(log p_k)), so they are not needed here. g_t has the value of r_t: only its
    gradient is spread, and the clip acts as on r_t. The code's 1e-8 beside sg(r_{t,k}) is left out.
    In the code a reward of 1 is right, here A > 0. The name lambda_top1 is ours. alpha = 0 and
    lambda_top1 = 1 is `ppo_clip`; in a response of one token the token is never uncertain.
    Raises UserError for alpha or tau outside [0, 1], lambda_top1 < 0, or another number of top
    tokens than K.
    """
    for name, value in (("alpha", alpha), ("tau", tau)):
        require(0 <= value <= 1, f"method.loss.{name}", value, "must be in [0, 1]")
    require(lambda_top1 >= 0, "method.loss.lambda_top1", lambda_top1, "must be at least 0")
    if tuple(top_log_prob.shape) != (*log_prob.shape, K):
        raise UserError(
            f"top_log_prob of shape {tuple(top_log_prob.shape)}: give those of "
            f"method.loss.K={K} tokens at each place, {(*log_prob.shape, K)}"
        )
    uncertain = above_quantile(entropy, mask, tau)
    ratio = log_ratio(log_prob, old_log_prob, mask).exp()
    each = log_ratio(top_log_prob, top_log_prob.detach(), mask[..., None]).exp()  # 1 in value
    spread = (1 - alpha) * ratio + alpha * ratio.detach() * each.mean(-1)
    ratio = torch.where(uncertain & (advantages > 0), spread, ratio)
    harder = uncertain & drawn_top & (advantages < 0)
    return surrogate(
        ratio, torch.where(harder, lambda_top1 * advantages, advantages), eps_low, eps_high
    )


def above_quantile(values: torch.Tensor, mask: torch.Tensor, tau: float) -> torch.Tensor:
    """Return which real tokens have a value above the quantile `tau` of their response's values,
    (B, T) bool.

    Quantiles are interpolated linearly between sorted values, as in torch; tau = 1 chooses none.
    """
    real = mask > 0
    known = torch.where(real, values, torch.nan)
    return real & (values > known.nanquantile(tau, dim=1, keepdim=True))
