"""Our methods by name in a run of verl that is not ours: `rlvr_papers.verl`, an entry point of
verl's, calls `register` in every process. Names that verl has itself stay verl's (estimators grpo
and rloo; losses cispo, clip_cov and gspo). Where the estimator is ours, so is the trainer."""

import inspect
from functools import partial

from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

from common.backends.verl import config as ours
from common.backends.verl import plugin
from common.config.schema import Method
from common.errors import require
from common.methods.binding import bind
from common.methods.catalogue import method, names

ACTOR = "actor_rollout_ref.actor"


def register() -> None:
    for name in names():
        ADV_ESTIMATOR_REGISTRY.setdefault(name, advantage)
        POLICY_LOSS_REGISTRY.setdefault(name, partial(plugin.policy_loss, name=name))
    for mode, verls in list(TRAINER_REGISTRY.items()):
        TRAINER_REGISTRY[mode] = partial(trainer, verls)


def advantage(*, config, **given):
    why = f"method={config.adv_estimator} needs verl's V1 trainer; set true"
    require("method" in config, "trainer.use_v1", False, why)
    return plugin.advantage(config=config, **given)


def trainer(verls: type, config: DictConfig):
    """Return an instance of verl's trainer `verls`. If the run's estimator is ours, the method is
    checked and put into `config`, and our trainer replaces verl's synchronous one."""
    algorithm = config.algorithm
    if ADV_ESTIMATOR_REGISTRY.get(algorithm.adv_estimator) is not advantage:
        return verls(config)
    chosen = method(
        algorithm.adv_estimator,
        max_tokens=config.data.max_response_length,
        steps=config.trainer.total_training_steps,
        **(algorithm.get("rlvr") or {}),
    )
    check(chosen, config)
    other = ", ".join(differences(chosen, config)) or "nothing"
    print(f"rlvr_papers: method={chosen.name}; other than in its file: {other}")
    read: dict[str, object] = {"algorithm.clock": chosen.clock, "algorithm.covariances": False}
    read["algorithm.reward_correct"] = algorithm.get("reward_correct", 1.0)
    read |= ours.parts(chosen, config.actor_rollout_ref.rollout.n)
    for key, value in read.items():
        OmegaConf.update(config, key, value, merge=False, force_add=True)
    if config.trainer.v1.trainer_mode != "sync":
        return verls(config)
    from common.backends.verl.trainer import MethodTrainer

    return MethodTrainer(config)


def check(m: Method, config: DictConfig) -> None:
    """Raise UserError where verl would not train the method."""
    actor, mode = config.actor_rollout_ref.actor, config.trainer.v1.trainer_mode
    asked = inspect.signature(bind(m).advantage).parameters
    unseen = " and ".join(name for name in ("outcomes", "log_probs") if name in asked)
    weighs = bool(ours.parts(m, 1)["algorithm.token_weights"])
    once = config.data.train_batch_size == actor.ppo_mini_batch_size and actor.ppo_epochs == 1
    loss = ours.loss(m)["function"].rpartition(".")[2]

    def need(fits: bool, key: str, why: str) -> None:
        require(fits, key, OmegaConf.select(config, key), f"method={m.name} {why}")

    name = "algorithm.adv_estimator"
    need(not m.sampler, name, "samples from two networks; use `rlvr train backend=verl`")
    need(not unseen, name, f"needs the {unseen} of responses, which verl keeps from estimators")
    same, key = config.algorithm.use_kl_in_reward == m.kl_in_reward, "algorithm.use_kl_in_reward"
    need(same, key, f"needs {m.kl_in_reward}")
    whole = mode == "sync" or not (m.controller or weighs)
    need(whole, "trainer.v1.trainer_mode", "needs whole rollouts of one policy; set sync")
    why = "weighs tokens for one optimiser step a rollout; set it to data.train_batch_size"
    need(once or not weighs, f"{ACTOR}.ppo_mini_batch_size", f"{why}, and ppo_epochs to 1")
    plain = loss in ("ppo_clip", "dual_clip") or actor.policy_loss.loss_mode != "vanilla"
    need(plain, f"{ACTOR}.policy_loss.loss_mode", f"trains with {loss}; set {m.name}")


def differences(m: Method, config: DictConfig) -> list[str]:
    """Return the keys of verl's actor that are not as in the method, as `KEY=VALUE (METHOD'S)`."""
    wanted = {
        "policy_loss.loss_mode": m.name,
        "loss_agg_mode": ours.AGG_MODES[m.aggregation["_target_"]],
        "loss_scale_factor": m.aggregation.get("max_tokens"),
        "entropy_coeff": m.entropy_coef,
        "use_kl_loss": m.kl_coef > 0 and not m.kl_in_reward,
    }
    held = {key: OmegaConf.select(config, f"{ACTOR}.{key}") for key in wanted}
    return [f"{key}={held[key]} ({want})" for key, want in wanted.items() if held[key] != want]
