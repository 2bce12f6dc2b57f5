"""verl's advantage estimator and policy loss of the name NAME: the functions of an experiment's
method, which config.py has written into verl's configuration as mappings with the dotted path
(`function`) and arguments. Importing this module registers both."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.core_algos import agg_loss, register_adv_est, register_policy_loss
from verl.utils.torch_functional import masked_mean
from verl.workers.config import PolicyLossConfig

from common.backends.verl.config import NAME, loss
from common.config.resolve import import_target, resolve
from common.errors import UserError
from common.methods.catalogue import method


@dataclass
class MethodLossConfig(PolicyLossConfig):
    """verl's policy_loss with room for the method's loss (verl refuses unknown keys)."""

    method: dict = field(default_factory=dict)  # the loss: function and arguments


def asked(part: Mapping, *names: str) -> list[str]:
    function = import_target(part["function"], "function")
    return [name for name in names if name in inspect.signature(function).parameters]


def bind(part: Mapping, key: str, **supplied) -> Callable:
    """Return the function of one part of a method with its arguments and what it takes of
    `supplied`. Raises UserError as `resolve` does."""
    node = OmegaConf.to_container(OmegaConf.create(dict(part)))
    node["_target_"] = node.pop("function")
    parameters = inspect.signature(import_target(node["_target_"], f"{key}._target_")).parameters
    node |= {word: value for word, value in supplied.items() if word in parameters}
    return resolve(node, key)


@register_adv_est(NAME)
def advantage(token_level_rewards, response_mask, index, config, **_):
    """Return the advantages (B, T) twice, in verl's order, from token rewards and mask (B, T) and
    uids `index` (B,).

    A row's reward is the sum of its token rewards; it is correct at config.reward_correct. Rows
    without a response token, verl's padding, get 0 and belong to no group.
    Our trainer sets config.controlled, a controller's arguments for each of as many equal parts of
    the groups, and config.of_responses, outcomes and log_probs of all rows that are no padding.
    Raises UserError for groups of unequal size or an argument that does not fit.
    """
    with torch.no_grad():
        lengths = response_mask.sum(-1)
        rows = group_rows(index, lengths > 0)
        rewards = token_level_rewards.sum(-1)
        correct = rewards == config["reward_correct"]
        weights = torch.zeros_like(token_level_rewards[:, 0])
        controlled = config.get("controlled", None) or [{}]
        parts = rows.tensor_split(len(controlled))
        more = {}
        for name, values in (config.get("of_responses", None) or {}).items():
            more[name] = torch.zeros(len(lengths), dtype=torch.tensor(values).dtype)
            more[name][lengths > 0] = torch.tensor(values)
        for part, arguments in zip(parts, controlled, strict=True):
            node = {**config["method"], **arguments}
            seen = {"correct": correct[part], "lengths": lengths[part]}
            seen |= {name: values[part] for name, values in more.items()}
            weights[part] = bind(node, "method.advantage", **seen)(rewards[part])
        weights = weights.unsqueeze(-1) * response_mask
    return weights, weights


def group_rows(index: np.ndarray, real: torch.Tensor) -> torch.Tensor:
    """Return the row numbers (P, G) of each group. Raises UserError for groups of unequal size."""
    groups: dict[object, list[int]] = {}
    for row in real.nonzero()[:, 0].tolist():
        groups.setdefault(index[row], []).append(row)
    sizes = {len(rows) for rows in groups.values()}
    if len(sizes) != 1:
        raise UserError(
            f"uid: groups of {sorted(sizes)} responses; methods need the same number for every "
            "prompt"
        )
    return torch.tensor(list(groups.values()), device=real.device)


@cache
def loss_of(name: str) -> dict:
    return loss(method(name, max_tokens=1, steps=1))


@register_policy_loss(NAME)
def policy_loss(
    old_log_prob,
    log_prob,
    advantages,
    response_mask,
    loss_agg_mode="token-mean",
    config=None,
    rollout_is_weights=None,
    name=None,
):
    """Aggregate the pure per-token loss, (B, T), with verl's agg_loss; return (scalar, metrics).
    name: the method whose loss it is; None: `config`'s. agg_loss divides by the counts of the whole
    mini-batch over all ranks, so gradients do not depend on the micro-batch."""
    part = config.policy_loss.method if name is None else loss_of(name)
    function = bind(part, "method.loss")
    values, clipped = function(log_prob, old_log_prob, advantages, response_mask)
    if rollout_is_weights is not None:
        values = values * rollout_is_weights
    # torch.where, not agg_loss's product: padding may hold inf or nan, which times 0 is nan
    values = torch.where(response_mask > 0, values, 0.0)
    total = agg_loss(values, response_mask, loss_agg_mode, **config.global_batch_info)
    log_ratio = (log_prob - old_log_prob).detach()
    return total, {
        "actor/pg_clipfrac": masked_mean(clipped.float(), response_mask).item(),
        "actor/ppo_kl": masked_mean(-log_ratio, response_mask).item(),
    }
