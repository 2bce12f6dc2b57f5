"""The learning rate at which methods with weights of different size are compared."""

from dataclasses import replace

from common.config.resolve import resolve
from common.config.schema import Reward
from common.methods.binding import Bound, largest_weight


def equalised(
    lr: float, bound: Bound, *, to: dict | None, group_size: int, reward: Reward, arguments: dict
) -> float:
    """eta max_i |A_i| of the advantage `to` / max_i |A_i| of the method (FADE Table 2, Sec. 11.3).

    Both are the largest over all groups of `group_size` with two rewards; `arguments` are those of
    the method's controller at this step. Without `to` (optim.equalise_to=null) it is `lr`. Raises
    UserError where a method has no weight in any group of this size.
    """
    if to is None:
        return lr
    other = replace(bound, advantage=resolve(to, "optim.equalise_to"))
    theirs = largest_weight(other, group_size, reward, {})
    return lr * theirs / largest_weight(bound, group_size, reward, arguments)
