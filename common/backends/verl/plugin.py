"""Importing this module registers every method with verl, as advantage estimator and as policy
loss.

`common/backends/verl/__init__.py` lists the names and flags.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from verl.trainer.ppo.core_algos import (
    ADV_ESTIMATOR_REGISTRY,
    POLICY_LOSS_REGISTRY,
    agg_loss,
    register_adv_est,
    register_policy_loss,
)
from verl.utils.torch_functional import masked_mean
from verl.workers.config import PolicyLossConfig

from common.backends.verl import methods
from common.errors import UserError

METHOD_OF: dict[str, str] = {}  # the names that verl knows -> the method file


@dataclass
class MethodLossConfig(PolicyLossConfig):
    """verl's policy_loss with room for a method's own arguments (verl refuses unknown keys)."""

    method: dict = field(default_factory=dict)  # arguments of the loss
    token_weights: dict = field(default_factory=dict)
    aggregation: str = ""  # verl's mode that is meant; empty: the mode of the method file


def estimator(name: str):
    """Return verl's advantage estimator for a method file."""

    def advantage(token_level_rewards, response_mask, index=None, config=None, **_):
        """Return the advantages (B, T) twice, in verl's order, from token rewards and mask (B, T)
        and uids `index` (B,).

        The reward of a row is the sum of its token rewards, and the row is correct if that is
        config.reward_correct; rows are grouped by uid. Rows without a response token are verl's
        padding of a batch: they get 0 and belong to no group.
        config.controlled: the arguments that a controller sets, one mapping for each of as many
        equal parts of the groups, in order. config.log_probs: (B,), log-probabilities of whole
        responses, for methods that look at them. MethodTrainer sets both; verl gives its estimators
        neither.
        Raises UserError for groups of unequal size or an argument that does not fit.
        """
        given = (config or {}).get("method", None) or {}
        with torch.no_grad():
            lengths = response_mask.sum(-1)
            rows = group_rows(index, lengths > 0)
            rewards = token_level_rewards.sum(-1)
            correct = rewards == methods.reward_correct(config)
            weights = torch.zeros_like(token_level_rewards[:, 0])
            controlled = (config or {}).get("controlled", None) or [{}]
            parts = rows.tensor_split(len(controlled))
            for part, arguments in zip(parts, controlled, strict=True):
                seen = {"correct": correct[part], "lengths": lengths[part]}
                if methods.takes(name, "advantage", "log_probs"):
                    seen["log_probs"] = _drawn(name, config, lengths)[part]
                function = _advantage(name, {**given, **arguments}, seen)
                weights[part] = function(rewards[part])
            weights = weights.unsqueeze(-1) * response_mask
        return weights, weights

    return advantage


def _drawn(name: str, config, lengths: torch.Tensor) -> torch.Tensor:
    """Return log pi_old of each row's response, (B,)."""
    log_probs = (config or {}).get("log_probs", None)
    if log_probs is None:
        raise UserError(
            f"method {name} looks at log-probabilities, which verl does not give to its "
            "estimators: run python -m common.backends.verl.main"
        )
    return torch.tensor(list(log_probs), device=lengths.device)


def _advantage(name: str, given: dict, seen: dict):
    try:
        return methods.bind(name, "advantage", given, **seen)
    except UserError as error:
        if methods.controller(name) is None:
            raise
        raise UserError(
            f"{error}; method {name} has a controller: run python -m common.backends.verl.main"
        ) from error


def group_rows(index: np.ndarray, real: torch.Tensor) -> torch.Tensor:
    """Return the row numbers (P, G) of each group; groups and rows keep the order of the batch.

    Raises UserError where groups differ in size.
    """
    groups: dict[object, list[int]] = {}
    for row in real.nonzero()[:, 0].tolist():
        groups.setdefault(index[row], []).append(row)
    sizes = {len(rows) for rows in groups.values()}
    if len(sizes) != 1:
        raise UserError(
            f"uid: groups of {sorted(sizes)} responses; methods need the same number for every "
            "prompt: actor_rollout_ref.rollout.n, and no filter that drops single responses"
        )
    return torch.tensor(list(groups.values()), device=real.device)


def policy_loss(name: str):
    """Return verl's policy loss for a method file."""

    def loss(
        old_log_prob,
        log_prob,
        advantages,
        response_mask,
        loss_agg_mode="token-mean",
        config=None,
        rollout_is_weights=None,
    ):
        """Aggregate the pure per-token loss, (B, T), with verl's agg_loss; return (scalar,
        metrics).

        agg_loss divides by config.global_batch_info, the counts of the whole mini-batch over all
        ranks, so gradients do not depend on the micro-batch. verl's entropy and KL terms read
        loss_agg_mode too, so it must be the mode of policy_loss.aggregation or of the method file.
        Raises UserError if it is another mode, and for a loss that needs inputs that verl does not
        hand over.
        """
        methods.require_in_verl(name)
        _same_aggregation(name, loss_agg_mode, config)
        given = config.policy_loss.get("method", {})
        supplied = {}
        if methods.compose(name).get("token_weights") is not None:
            chosen = config.policy_loss.get("token_weights", {})
            weigh = methods.bind(name, "token_weights", chosen)
            supplied["token_weights"] = weigh(
                log_prob.detach(), old_log_prob, advantages, response_mask
            )
        function = methods.bind(name, "loss", given, **supplied)
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

    return loss


def _same_aggregation(name: str, loss_agg_mode: str, config) -> None:
    key = "actor_rollout_ref.actor"
    mode = config.policy_loss.get("aggregation", "") or methods.agg_mode(name)
    if loss_agg_mode != mode:
        raise UserError(f"{key}.loss_agg_mode={loss_agg_mode}: method {name} is {mode}")
    if mode == "seq-mean-token-sum-norm" and config.loss_scale_factor is None:
        # verl would divide by the width of the micro-batch, which is no constant
        raise UserError(
            f"{key}.loss_scale_factor=null: method {name} divides by max_tokens; give it, e.g. "
            "'${data.max_response_length}'"
        )


def register() -> None:
    """Register every method file, under the names of METHOD_OF."""
    verls = (set(ADV_ESTIMATOR_REGISTRY) | set(POLICY_LOSS_REGISTRY)) - set(METHOD_OF)
    for name in methods.names():
        advantage, loss = estimator(name), policy_loss(name)
        for alias in {methods.PREFIX + name, name} - verls - set(METHOD_OF):
            register_adv_est(alias)(advantage)
            register_policy_loss(alias)(loss)
            METHOD_OF[alias] = name


def check_registered() -> None:
    """Raise UserError unless verl knows every method file in this process.

    verl drops the exception of a plugin that it finds by its entry point (logged at DEBUG).
    """
    for registry in (ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY):
        missing = [name for name in methods.names() if methods.PREFIX + name not in registry]
        if missing:
            raise UserError(
                f"method={','.join(missing)}: not registered with verl in this process; set "
                "VERL_USE_EXTERNAL_MODULES=common.backends.verl.plugin, which shows why"
            )


register()
