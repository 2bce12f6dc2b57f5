"""A `Method` as callable functions: the parts that all backends share."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch

from common.config.resolve import resolve
from common.config.schema import Method, Reward
from common.errors import UserError, require
from common.losses import regularizers

# what an advantage may take besides rewards
OF_RESPONSES = ("correct", "lengths", "outcomes", "log_probs")


@dataclass(frozen=True)
class Bound:
    """The functions of a method with their arguments bound; None for one that the method lacks."""

    advantage: Callable
    loss: Callable
    aggregate: Callable
    token_weights: Callable | None
    controller: Callable | None
    kl: Callable  # (log_prob, ref_log_prob) -> (B, T)


def bind(method: Method) -> Bound:
    """Resolve the dotted paths of a method to functions. Raises UserError as `resolve` does."""
    controlled = method.controller is not None
    weighted = ("token_weights",) if method.token_weights is not None else ()
    observed = ("solve_rate", "entropy", "step")
    return Bound(
        advantage=resolve(method.advantage, "method.advantage", OF_RESPONSES, controlled),
        loss=resolve(method.loss, "method.loss", weighted),
        aggregate=resolve(method.aggregation, "method.aggregation"),
        token_weights=resolve(method.token_weights, "method.token_weights") if weighted else None,
        controller=(
            resolve(method.controller, "method.controller", observed) if controlled else None
        ),
        kl=getattr(regularizers, f"kl_{method.kl_estimator}"),
    )


def advantages(
    bound: Bound, rewards: torch.Tensor, *, arguments: dict, **of_responses: torch.Tensor
) -> torch.Tensor:
    """Return the (P, G) weights of (P, G) rewards; `arguments` are set by the controller.

    of_responses: OF_RESPONSES, each (P, G).
    correct: which responses are right, whatever their reward is.
    lengths: their token counts.
    outcomes: integers; responses of a group with the same number have the same answer.
    log_probs: log pi_old(y | x), the sum over a response's tokens, in nats, under the policy that
        sampled it.

    Raises UserError unless the function gives a finite number for each reward, or where it asks for
    something that is not given.
    """
    asked = [name for name in OF_RESPONSES if name in inspect.signature(bound.advantage).parameters]
    for name in asked:
        remedy = "is not known here; take a method that looks at rewards"
        require(name in of_responses, f"method.advantage={_name(bound.advantage)}", name, remedy)
    seen = {name: of_responses[name] for name in asked}
    weights = bound.advantage(rewards, **arguments, **seen)
    _fits("method.advantage", bound.advantage, weights, rewards.shape)
    if not torch.isfinite(weights).all():
        row = int((~torch.isfinite(weights)).any(1).nonzero()[0])
        raise UserError(
            f"method.advantage={_name(bound.advantage)}: gave {weights[row].tolist()[:8]} for the "
            f"rewards {rewards[row].tolist()[:8]} of a group; give finite numbers"
        )
    return weights


def observe(
    bound: Bound, state: dict, *, solve_rate: float, entropy: float, step: int
) -> tuple[dict, dict]:
    """Return the controller's next state and its arguments for the advantage, or ({}, {})."""
    if bound.controller is None:
        return {}, {}
    return bound.controller(state, solve_rate=solve_rate, entropy=entropy, step=step)


def all_groups(group_size: int) -> torch.Tensor:
    """Return which responses are right, (G + 1, G): X successes, then failures, for X = 0..G."""
    return torch.ones(group_size + 1, group_size, dtype=torch.bool).tril(-1)


def group_weights(
    bound: Bound, correct: torch.Tensor, reward: Reward, arguments: dict
) -> torch.Tensor:
    """Return the weights of groups in which the responses marked `correct` are right, (P, G) in
    float64. Each group is a batch of its own, with responses of equal length."""
    rewards = torch.full(correct.shape, reward.wrong, dtype=torch.float64)
    rewards = rewards.masked_fill(correct, reward.correct)
    weights = [
        advantages(bound, r, correct=c, arguments=arguments, **_alike(c))
        for r, c in zip(rewards.split(1), correct.split(1), strict=True)
    ]
    return torch.cat(weights).to(torch.float64)  # a function of one's own may give float32


def _alike(correct: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return lengths, outcomes and log-probabilities of responses that are equally long and likely:
    all right ones have the same answer, and each wrong one has an answer of its own."""
    one = torch.ones_like(correct, dtype=torch.float64)
    outcomes = torch.where(correct, 0, (~correct).long().cumsum(1))
    return {"lengths": one, "outcomes": outcomes, "log_probs": -one}


def largest_weight(bound: Bound, group_size: int, reward: Reward, arguments: dict) -> float:
    """Return max |A_i| over all groups with two rewards: the scale that FADE Table 2 equalises.

    Raises UserError if it is 0: then no group of this size has a gradient.
    """
    weights = group_weights(bound, all_groups(group_size), reward, arguments)
    largest = weights.abs().max().item()
    remedy = "every weight is 0; enlarge the group"
    require(largest != 0, "sampling.group_size", group_size, remedy)
    return largest


def check(bound: Bound, group_size: int, reward: Reward) -> None:
    """Run the method on one made-up group, before any compute is spent.

    Raises UserError if method and experiment do not fit, e.g. for groups of one.
    """
    correct = torch.arange(group_size)[None] == 0
    rewards = torch.where(correct, reward.correct, reward.wrong)
    log_prob = torch.linspace(-1.0, -0.5, 2 * group_size).view(group_size, 2).requires_grad_()
    mask = torch.ones_like(log_prob)
    _, arguments = observe(bound, {}, solve_rate=1 / group_size, entropy=0.5, step=1)
    try:
        weights = advantages(
            bound, rewards, correct=correct, arguments=arguments, **_alike(correct)
        )
    except TypeError as error:
        if bound.controller is None:
            raise
        raise UserError(
            f"method.controller={_name(bound.controller)}: does not fit method.advantage "
            f"({error}); give the advantage that takes what the controller sets"
        ) from error
    inputs = (log_prob.detach() + 0.1, weights.view(-1, 1), mask)
    extra = {}
    if bound.token_weights is not None:
        extra["token_weights"] = bound.token_weights(log_prob.detach(), *inputs)
        _fits("method.token_weights", bound.token_weights, extra["token_weights"], mask.shape)
    returned = bound.loss(log_prob, *inputs, **extra)
    pair = isinstance(returned, tuple) and len(returned) == 2
    remedy = f"gave one {type(returned).__name__}; give (loss, clipped), both of shape (B, T)"
    require(pair, "method.loss", _name(bound.loss), remedy)
    for value in returned:
        _fits("method.loss", bound.loss, value, mask.shape)
    _fits("method.aggregation", bound.aggregate, bound.aggregate(mask), mask.shape)
    loss, _ = returned
    finite = bool(torch.isfinite((loss * bound.aggregate(mask)).sum()))
    remedy = f"not finite on the rewards {rewards[0].tolist()}; give finite numbers"
    require(finite, "method.loss", _name(bound.loss), remedy)


def _fits(key: str, function: Callable, value: object, shape: torch.Size) -> None:
    """Raise UserError unless a user-defined function gave a tensor of this shape."""
    given = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
    remedy = f"gave {given} where a tensor of shape {tuple(shape)} is needed"
    require(given == tuple(shape), key, _name(function), remedy)


def _name(function: Callable) -> str:
    function = inspect.unwrap(getattr(function, "func", function))
    return f"{function.__module__}.{function.__qualname__}"
