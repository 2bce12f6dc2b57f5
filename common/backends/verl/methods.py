"""Method files as verl's flags and as bound pure functions. Nothing here imports verl."""

import inspect

from omegaconf import DictConfig, OmegaConf

from common.config.files import ROOT, read
from common.config.resolve import named, resolve
from common.errors import UserError
from common.methods import files
from common.methods.binding import OF_TOKENS

__all__ = [
    "agg_mode",
    "arguments",
    "bind",
    "clock",
    "compose",
    "controller",
    "flags",
    "names",
    "not_in_verl",
    "plain_loss",
    "refuse_rehearsal",
    "require_in_verl",
    "reward_correct",
    "takes",
    "verls_mode",
]
PREFIX = "rlvr_"
PART_KEYS = {  # where verl's flags give the arguments of each part of a method
    "advantage": "algorithm.method",
    "controller": "algorithm.controller",
    "loss": "actor_rollout_ref.actor.policy_loss.method",
    "token_weights": "actor_rollout_ref.actor.policy_loss.token_weights",
}
# Our aggregation weights on the mask of the mini-batch do what verl's agg_loss does with its global
# counts.
AGG_MODES = {
    "common.losses.aggregate.token_mean": "token-mean",
    "common.losses.aggregate.sequence_mean_token_mean": "seq-mean-token-mean",
    "common.losses.aggregate.token_sum": "seq-mean-token-sum-norm",
}
VERL_VALUES = {  # value that a method file takes from the experiment -> the same value in verl
    "${sampling.max_tokens}": "${data.max_response_length}",
    "${optim.steps}": "${trainer.total_training_steps}",
}


def names() -> list[str]:
    """Return the methods that are registered with verl: all but methods that rehearse, which need
    responses beside verl's rollouts."""
    return [name for name in files.names() if files.compose(name).get("rehearsal") is None]


def compose(name: str) -> DictConfig:
    """Return `files.compose(name)`. Raises UserError as that does, and for a method that
    rehearses."""
    method = files.compose(name)
    if method.get("rehearsal") is not None:
        raise UserError(
            f"method.rehearsal={name}: verl has no rehearsal set beside its rollouts; use "
            "backend=local, or a method without one"
        )
    return method


def refuse_rehearsal(chosen: str) -> None:
    """Raise UserError as `compose` does if `chosen`, from verl's flags, is a method that rehearses,
    as `rlvr_<name>` or `<name>`; verl itself would refuse it only after the first rollout."""
    name = chosen.removeprefix(PREFIX)
    if name in files.names():
        compose(name)


def arguments(name: str, part: str, given: dict) -> dict:
    """Return `_target_` and the arguments of one part of a method: the method file's, overridden by
    those of verl's flags (`given`).

    Raises UserError where the method file leaves a value to the experiment and no flag gives it.
    """
    for word, raw in OmegaConf.to_container(compose(name)[part]).items():
        if str(raw) in VERL_VALUES and given.get(word) is None:
            key = f"{PART_KEYS[part]}.{word}"
            raise UserError(f"{key}=null: method {name} needs it; pass +{key}={VERL_VALUES[raw]}")
    root = OmegaConf.create({"method": compose(name)})
    root.method[part] = OmegaConf.merge(root.method[part], dict(given))
    return OmegaConf.to_container(root.method[part], resolve=True)


def reward_correct(algorithm) -> float:
    """Return the reward of a correct response: algorithm.reward_correct, or the value in
    configs/base.yaml if no flag gives one."""
    given = (algorithm or {}).get("reward_correct", None)
    return read(ROOT / "configs" / "base.yaml")["reward"]["correct"] if given is None else given


def bind(name: str, part: str, given: dict, **supplied):
    """Return the function of one part of a method with its `arguments` bound, and also the values
    of `supplied` for which it has parameters.

    Raises UserError for an unknown argument or one without a value.
    """
    node = arguments(name, part, given)
    parameters = inspect.signature(named(node, PART_KEYS[part])).parameters
    node |= {word: value for word, value in supplied.items() if word in parameters}
    return resolve(node, PART_KEYS[part])


def takes(name: str, part: str, word: str) -> bool:
    """Return whether the function of one part of a method has a parameter called `word`."""
    node = {"_target_": compose(name)[part]._target_}
    return word in inspect.signature(named(node, PART_KEYS[part])).parameters


def plain_loss(name: str) -> bool:
    """Return whether a method's loss is a function of log-probabilities and advantages alone."""
    return compose(name).get("token_weights") is None and not not_in_verl(name)


def not_in_verl(name: str) -> list[str]:
    """Return the inputs of a method's loss that verl does not hand to policy losses."""
    return [word for word in OF_TOKENS if takes(name, "loss", word)]


def require_in_verl(name: str) -> None:
    """Raise UserError for a method whose loss needs inputs that verl does not hand over."""
    if asked := not_in_verl(name):
        raise UserError(
            f"method={name}: its loss looks at {', '.join(asked)}, which verl does not hand to "
            "policy losses; use backend=local, or TRL"
        )


def controller(name: str) -> str | None:
    """Return the dotted path of a method's controller, None where it has none."""
    node = compose(name).get("controller")
    return None if node is None else node._target_


def clock(name: str) -> str:
    """Return how often a method's controller looks at the responses: "rollout" or
    "optimiser_step"."""
    return compose(name).clock


def agg_mode(name: str) -> str:
    """Return verl's loss_agg_mode for a method's aggregation. token_sum's max_tokens is verl's
    loss_scale_factor."""
    return verls_mode(compose(name).aggregation._target_)


def verls_mode(target: str) -> str:
    """Return verl's loss_agg_mode for an aggregation's dotted path."""
    if target not in AGG_MODES:
        raise UserError(f"method.aggregation._target_={target}: verl knows {list(AGG_MODES)}")
    return AGG_MODES[target]


def flags(name: str) -> list[str]:
    """Return the verl flags that a method file stands for."""
    method = compose(name)
    lines = [f"algorithm.adv_estimator={PREFIX}{name}"]
    in_reward = bool(method.get("kl_in_reward"))  # files without _base do not name it
    lines += [f"algorithm.use_kl_in_reward={in_reward}"]
    if in_reward:
        lines += [f"algorithm.kl_penalty={method.kl_estimator}"]
        lines += [f"algorithm.kl_ctrl.kl_coef={method.kl_coef}"]
    actor = {
        "policy_loss.loss_mode": PREFIX + name,
        "policy_loss._target_": "common.backends.verl.plugin.MethodLossConfig",
        "loss_agg_mode": agg_mode(name),
        "entropy_coeff": method.entropy_coef,
        "use_kl_loss": method.kl_coef > 0 and not in_reward,
        "kl_loss_coef": method.kl_coef,
        "kl_loss_type": method.kl_estimator,  # verl takes k1, k2 and k3 by these names
    }
    aggregation = OmegaConf.to_container(method.aggregation)
    if "max_tokens" in aggregation:
        limit = aggregation["max_tokens"]
        actor["loss_scale_factor"] = VERL_VALUES.get(limit, limit)
    lines += [f"actor_rollout_ref.actor.{key}={value}" for key, value in actor.items()]
    for part, key in PART_KEYS.items():
        for word, raw in (OmegaConf.to_container(method)[part] or {}).items():
            if str(raw) in VERL_VALUES:
                lines.append(f"+{key}.{word}={VERL_VALUES[raw]}")
    return lines
