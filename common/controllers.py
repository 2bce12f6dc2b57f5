"""Controllers: what a method remembers from step to step, as pure functions.

    f(state, *, solve_rate, entropy, step, <parameters>) -> (state, arguments)

A controller is called before the advantages are computed: once per rollout (method.clock=rollout),
or once per optimiser step with the groups of its mini-batch (optimiser_step). All responses that it
is told about were sampled by one policy:

    solve_rate  mean success of all responses
    entropy     mean over responses of the token mean of -log pi(a_t), nats (FADE Algorithm 2), of
                the distribution that was sampled from
    step        number of the call's rollout or optimiser step, from 1

`arguments` are keyword arguments of the method's advantage. `state` is {} before the first step and
a dict of numbers and lists after it, so that a backend can store it with its checkpoint as JSON.
"""

import math

from common.errors import one_of, require


def fade(
    state: dict,
    *,
    solve_rate: float,
    entropy: float,
    step: int,
    alpha_max: float,
    ema: str,
    beta: float,
    target_entropy: float | None,
    target_fraction: float,
    adapt: str,
) -> tuple[dict, dict]:
    """FADE's schedule of alpha and delta (Eq. 11, Algorithm 2).

        p_hat <- (1 - beta) p_hat + beta solve_rate, from 1/2;  H_hat likewise, from H_0
        alpha = clip(3 (1 - p_hat) / (2 p_hat), 1, alpha_max)
        delta = clip(1 + H_hat - H*, 0.3, 1)

    ema="smoothing" updates p_hat and H_hat as above. ema="printed" is Algorithm 2 as printed, p_hat
    <- beta p_hat + (1 - beta) solve_rate, which with beta = 0.02 keeps almost nothing of the past.
    H_0 is the entropy of the first step. H* is `target_entropy` (nats), or target_fraction H_0 if
    `target_entropy` is null.

    adapt="both" is FADE. The ablations of Fig. 9 are "alpha" (delta = 1), "delta" (alpha = 1) and
    "entropy", which sets both from the entropy. The paper prints no formula for the last; here
    alpha = 1 + (alpha_max - 1) (delta - 0.3) / 0.7, which falls with delta. Raises UserError for
    another `ema` or `adapt`, or beta outside [0, 1].
    """
    one_of("method.controller.ema", ema, ("smoothing", "printed"))
    one_of("method.controller.adapt", adapt, ("both", "alpha", "delta", "entropy"))
    require(0 <= beta <= 1, "method.controller.beta", beta, "must be in [0, 1]")
    new = beta if ema == "smoothing" else 1 - beta
    H_0 = state.get("H_0", entropy)
    p_hat = (1 - new) * state.get("p_hat", 0.5) + new * solve_rate
    H_hat = (1 - new) * state.get("H_hat", H_0) + new * entropy
    target = target_fraction * H_0 if target_entropy is None else target_entropy
    delta = min(max(1 + H_hat - target, 0.3), 1.0)
    alpha = alpha_max if p_hat == 0 else min(max(1.5 * (1 - p_hat) / p_hat, 1.0), alpha_max)
    if adapt == "entropy":
        alpha = 1 + (alpha_max - 1) * (delta - 0.3) / 0.7
    arguments = {
        "alpha": 1.0 if adapt == "delta" else alpha,
        "delta": 1.0 if adapt == "alpha" else delta,
    }
    return {"p_hat": p_hat, "H_hat": H_hat, "H_0": H_0}, arguments


def log_schedule(
    state: dict,
    *,
    solve_rate: float,
    entropy: float,
    step: int,
    steps: int,
    alpha_0: float,
    alpha_min: float,
    tau_alpha: float,
    delta_0: float,
    delta_min: float,
    tau_delta: float,
) -> tuple[dict, dict]:
    """FADE's ablation without feedback (Eqs. 17, 18).

        x(t) = x_0 - (x_0 - x_min) log(1 + t / tau) / log(1 + T / tau)

    The formula holds for alpha and for delta, with t = step and T = steps.
    """

    def at(first: float, last: float, tau: float) -> float:
        return first - (first - last) * math.log1p(step / tau) / math.log1p(steps / tau)

    alpha = at(alpha_0, alpha_min, tau_alpha)
    return {}, {"alpha": alpha, "delta": at(delta_0, delta_min, tau_delta)}


def ha_dw_anchor(
    state: dict, *, solve_rate: float, entropy: float, step: int, eta: float, window: int
) -> tuple[dict, dict]:
    """HA-DW's running baseline C_t (Yang et al. 2026, arXiv 2601.08521, Eqs. 7-11).

        C_t = (1 - eta_t) C_{t-1} + eta_t solve_rate,  eta_t = eta std of the last `window` anchors

    The first anchor is the solve rate of the first step. With one anchor eta_t is eta, because a
    spread of 0 would never move it. Raises UserError for window < 2.
    """
    require(window >= 2, "method.controller.window", window, "must be at least 2")
    past = state.get("anchors", [])
    if not past:
        return {"anchors": [solve_rate]}, {"anchor": solve_rate}
    mean = sum(past) / len(past)
    spread = 1.0
    if len(past) > 1:
        spread = math.sqrt(sum((anchor - mean) ** 2 for anchor in past) / len(past))
    anchor = past[-1] + eta * spread * (solve_rate - past[-1])
    return {"anchors": [*past, anchor][-window:]}, {"anchor": anchor}
