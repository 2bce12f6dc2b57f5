"""The learning rate at which methods with weights of different size are compared."""

import math
from dataclasses import replace

from common.config.resolve import resolve
from common.config.schema import Optim, Reward
from common.methods.binding import Bound, all_groups, group_weights, largest_weight, observe


def scheduled(optim: Optim, step: int) -> float:
    """Return the learning rate of a rollout step, from 1 on: a linear warm-up of W steps to `lr`,
    then lr, or with `decay_over` D and `decay_to` d

        lr (d + (1 - d) (1 + cos(pi (step - W) / (D - W))) / 2)

    Peers: verl cosine with min_lr_ratio, transformers cosine_with_min_lr
    """
    W, D, d = optim.warmup_steps, optim.decay_over, optim.decay_to
    if D is None or step <= W:
        return optim.lr * min(1.0, step / max(1, W))
    return optim.lr * (d + (1 - d) * (1 + math.cos(math.pi * (step - W) / (D - W))) / 2)


def equalised(
    lr: float, bound: Bound, *, to: dict | None, group_size: int, reward: Reward, arguments: dict
) -> float:
    """Return eta max_i |A_i| of the advantage `to` / max_i |A_i| of the method, where eta is `lr`
    (FADE Table 2, Sec. 11.3).

    Both maxima are over all groups of `group_size` with two rewards; `arguments` are what the
    method's controller sets at this step. Without `to` (optim.equalise_to=null) the result is `lr`.
    Raises UserError if a method has no weight in any group of this size.
    """
    if to is None:
        return lr
    other = replace(bound, advantage=resolve(to, "optim.equalise_to"))
    theirs = largest_weight(other, group_size, reward, {})
    return lr * theirs / largest_weight(bound, group_size, reward, arguments)


def at_start(bound: Bound) -> dict:
    """Return what the method's controller sets at its first step, for a solve rate of 1/2 and an
    entropy of 10 nats, which is above any target: FADE's delta is 1 and its alpha 3/2. Without a
    controller it is {}. Where one learning rate must do for a whole run, as in FADE's Table 2, it
    is equalised at these arguments."""
    return observe(bound, {}, solve_rate=0.5, entropy=10.0, step=1)[1]


def mean_magnitude(
    bound: Bound, other: Bound, *, group_size: int, reward: Reward, arguments: dict
) -> float:
    """Return mean |A| of a method divided by mean |A| of another: the factor on `optim.lr` with
    which the other has the method's mean update (F-GRPO v2 App. N, the lower-rate control).

        m = sum_X mean_i |A_i(X)| / sum_X mean_i |A_i^other(X)|,  X = 0 ... G successes

    This corresponds to a uniform success rate in [0, 1]. For F-GRPO against GRPO and large G it is
    App. N's B(3/2, gamma + 3/2) / B(3/2, 3/2), 0.679 at gamma = 1/2. `arguments` are what the
    method's controller sets. AdamW cancels a factor on all advantages, but not one on the learning
    rate: the control takes shorter steps than the method does.
    """
    groups = all_groups(group_size)
    size = group_weights(bound, groups, reward, arguments).abs().mean()
    return (size / group_weights(other, groups, reward, {}).abs().mean()).item()
