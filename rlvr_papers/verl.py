"""The papers' methods in runs of stock verl, which imports this module as one of its plugins:

    algorithm.adv_estimator=f_grpo +algorithm.rlvr.gamma=1.0     an advantage and its arguments
    actor_rollout_ref.actor.policy_loss.loss_mode=f_grpo         the method's loss and clips, too
    +algorithm.reward_correct=1.0                                the reward of a right response

verl does not say why a plugin failed, so this one does not fail: its methods raise the reason.
"""

from pathlib import Path

from verl.trainer.ppo import core_algos

from rlvr_papers import CLASH

try:
    if CLASH:
        raise ImportError(CLASH)
    from common.backends.verl import stock

    stock.register()
except Exception as error:
    reason = f"rlvr_papers is not in this verl: {error!r}"

    def refuse(*_, **__):
        raise ImportError(reason)

    for file in Path(__file__).parents[1].glob("configs/method/[!_]*.yaml"):
        core_algos.ADV_ESTIMATOR_REGISTRY.setdefault(file.stem, refuse)
        core_algos.POLICY_LOSS_REGISTRY.setdefault(file.stem, refuse)
