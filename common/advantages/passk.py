"""Advantages for pass@k: `(P, G) rewards -> (P, G) weights`.

They depend only on the number of successes, so each is a table over X = 0..G, computed from exact
binomial coefficients. The lines "m_S =" are explained in `group.py`; in them
R = 1 - comb(F, k) / comb(G, k) is the group's unbiased pass@k.
"""

from math import comb, sqrt

from torch import Tensor

from common.advantages.group import grpo
from common.advantages.parts import centred, require, success


def pass_at_k_tang(rewards: Tensor, *, correct: Tensor, k: int) -> Tensor:
    """Leave-one-out pass@k: a success counts if the k - 1 others of its set of k all fail.

        A_i = max_{j in K} r_j - max_{j in K, j != i} r_j, averaged over the sets K of k responses
              of the group that contain i
            = r_i comb(F, k - 1) / comb(G - 1, k - 1)

    Source: FADE sec 8.4.1; Tang et al. 2025.
    m_S = p*comb(F, k - 1) / comb(G - 1, k - 1), m_F = 0
    Peers: verl grpo_passk with norm_adv_by_std_in_grpo=False at k = G, for rewards in {0, 1}
    FADE's group has exactly k responses; the average over sets is our addition, for k below G.
    FADE's mass k p q^(k-1) is of a sum over k responses; this mean's is p q^(k-1). k = 1 is
    REINFORCE. Raises UserError for k outside 1..G or graded rewards.
    """
    r = success(rewards, "pass_at_k_tang", correct=correct)
    size = _group_size(rewards, k)
    return r * _by_count(
        r, [comb(size - x, k - 1) / comb(size - 1, k - 1) for x in range(size + 1)]
    )


def pass_at_k_chen(rewards: Tensor, *, correct: Tensor, k: int) -> Tensor:
    """Analytic pass@k advantage: the centred reward, weighted by how much pass@k is left to gain.

        R_k     = 1 - comb(F, k) / comb(G, k),  sigma_k = sqrt(R_k (1 - R_k))
        A_i     = Q' (r_i - p) / sigma_k,  Q' = comb(F - 1, k - 1) / comb(G - 1, k - 1)
        success = (1 - R_k) / sigma_k,  failure = (1 - R_k - Q') / sigma_k, the same written out

    Source: FADE sec 8.4.2; Chen et al. 2025 (arXiv 2508.10751).
    m_S = m_F = p*sqrt((1 - R) / R)
    If R_k is 0 or 1 (no success, or fewer than k failures), the advantage is 0. k = 1 is GRPO with
    the population std.
    Raises UserError for k outside 1..G, groups of one, or graded rewards.
    """
    r = success(rewards, "pass_at_k_chen", correct=correct)
    size = _group_size(rewards, k)
    weights = [0.0] * (size + 1)
    for failures in range(k, size):
        miss = comb(failures, k) / comb(size, k)  # 1 - R_k
        q_prime = comb(failures - 1, k - 1) / comb(size - 1, k - 1)
        weights[size - failures] = q_prime / sqrt(miss * (1 - miss))
    return _by_count(r, weights) * centred(r, "pass_at_k_chen")


def pass_at_k_mix(rewards: Tensor, *, correct: Tensor, k: int) -> Tensor:
    """pass@1 and pass@k mixed by difficulty: pass@1 on hard prompts, pass@k on easy ones.

        A_i = p A_i^{pass@k} + (1 - p) A_i^{pass@1}, both by pass_at_k_chen

    Source: FADE sec 8.4.3; Chen et al. 2025.
    m_S = m_F = p*(p*sqrt((1 - R) / R)) + q*sqrt(p*q)
    FADE writes q^(k-1) for Q', the limit for large G; here Q' is exact, as in sec 8.4.2. Raises
    UserError as pass_at_k_chen does.
    """
    p = success(rewards, "pass_at_k_mix", correct=correct).mean(1, keepdim=True)
    of_k, of_1 = (pass_at_k_chen(rewards, correct=correct, k=one) for one in (k, 1))
    return p * of_k + (1 - p) * of_1


def beta_posterior(
    rewards: Tensor, *, correct: Tensor, k: int, probe: bool, unbiased: bool, epsilon: float
) -> Tensor:
    """BBG: GRPO with the weight that pass@k gives a prompt, averaged over its likely success rates.
    With `probe`, failures of an unsolved prompt are pushed down too.

        u(X) = E[k (1 - s)^(k - 1)],  s ~ Beta(X + 1, F + 1)
        w    = u(X) / u(1) = comb(F + k - 1, k - 1) / comb(G + k - 2, k - 1)
        A_i  = w A_i^GRPO;  with `probe`, -1 in a group without a success (REINFORCE on {-1, 1})

    Source: Yuan et al. 2026 (arXiv 2606.15455), Bayesian Boundary Gating.
    m_S = m_F = comb(F + k - 1, k - 1) / comb(G + k - 2, k - 1)*sqrt(p*q); unbiased=false,
    epsilon=0 and probe=false
    k = 1 without the probe is `grpo`. u (Eq. 8) and w were read in others' code and notes, not in
    the paper; that w weighs GRPO's advantage is our choice. Left out: Eq. 9 sets w to 0 where u(X)
    < tau (G + 1), for an unknown tau. Raises UserError for k < 1, groups of one, or graded rewards.
    """
    require(k >= 1, "k", k, "must be at least 1")
    r, size = success(rewards, "beta_posterior", correct=correct), rewards.shape[1]
    once = comb(size + k - 2, k - 1)
    weight = _by_count(r, [comb(size - x + k - 1, k - 1) / once for x in range(size + 1)])
    unsolved = (r.sum(1, keepdim=True) == 0) & probe
    return (weight * grpo(rewards, unbiased=unbiased, epsilon=epsilon)).masked_fill(unsolved, -1.0)


def _group_size(rewards: Tensor, k: int) -> int:
    size = rewards.shape[1]
    require(1 <= k <= size, "k", k, f"must be in 1..sampling.group_size={size}")
    return size


def _by_count(r: Tensor, table: list[float]) -> Tensor:
    """Return table[X] for each group, (P, 1)."""
    return r.new_tensor(table)[r.sum(1, keepdim=True).long()]
