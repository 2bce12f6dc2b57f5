"""`python -m common.backends.verl.main [method=NAME] <verl's flags>`: verl's main_ppo with our
methods.

method=NAME stands for the verl flags of that method file; other flags override them. Before Ray
starts, the method is tried on one made-up group. A controller's state is saved with verl's
checkpoints.

`python -m common.backends.verl.main FILE.yaml` runs a whole configuration that config.py composed;
backend.py starts this command.
"""

import os
import sys
from pathlib import Path

import hydra
import torch
from omegaconf import OmegaConf

try:
    import ray
except ModuleNotFoundError as error:
    raise SystemExit(
        "error: no verl in this environment; `make setup-cluster` or setup-cluster-cpu makes one, "
        "then .venv-cluster/bin/python -m common.backends.verl.main"
    ) from error
from verl.trainer.main_ppo import TaskRunnerV1, run_ppo
from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.utils.device import auto_set_device

from common.backends.verl import methods, plugin, process
from common.backends.verl.sockets import MARK, READABLE
from common.cli import guard
from common.config.files import read
from common.config.words import split
from common.errors import UserError

PLUGIN = "common.backends.verl.plugin"
MODULES = "VERL_USE_EXTERNAL_MODULES"
# The variables of process.environment that an actor needs if the job has started its node's Ray:
# the actor then has the job's environment, also on our own node.
PASSED = (
    *(MODULES, MARK, *READABLE, "PYTHONPATH", "VERL_FILE_LOGGER_PATH"),
    *("VLLM_CACHE_ROOT", "VLLM_NO_USAGE_STATS"),
    *(name for name in process.CPU if not name.startswith("RAY_")),
)


class Runner(TaskRunnerV1.__ray_metadata__.modified_class):
    """verl's driver actor with our trainer, which is registered under verl's own name "sync"
    because verl decides on buffers by that name."""

    def run(self, config):
        from verl.trainer.ppo.v1 import trainer_base

        from common.backends.verl.experiment_trainer import ExperimentTrainer
        from common.backends.verl.sampling import BoundedBuffer
        from common.backends.verl.trainer import MethodTrainer

        plugin.check_registered()
        whole = "curve_n" in config.data  # config.py composed it, not flags of a command line
        trainer_base.TRAINER_REGISTRY["sync"] = ExperimentTrainer if whole else MethodTrainer
        if whole:
            trainer_base.ReplayBuffer = BoundedBuffer
        super().run(config)


def expand(arguments: list[str]) -> list[str]:
    """Return the command-line arguments with method=NAME replaced by verl's flags. These come
    first, so that later flags override them."""
    own, rest = split(arguments, {"method": ""})
    return [*(methods.flags(own["method"]) if own["method"] else []), *rest]


def preflight(config) -> None:
    """Run the configured method on one made-up group, through the functions that verl will call.

    Raises UserError for an unknown argument, an aggregation that is not the method's, an argument
    that its controller sets, or a trainer that keeps no state. verl's own methods are not run.
    """
    plugin.check_registered()
    methods.refuse_rehearsal(config.algorithm.adv_estimator)
    methods.refuse_rehearsal(config.actor_rollout_ref.actor.policy_loss.loss_mode)
    mask = torch.ones(config.actor_rollout_ref.rollout.n, 2)
    weights = mask / 2
    if (name := plugin.METHOD_OF.get(config.algorithm.adv_estimator)) is not None:
        given = _advantage_arguments(name, config)
        right = methods.reward_correct(config.algorithm)
        rewards = torch.zeros_like(mask)
        rewards[:, -1] = right - 1  # any other reward is a wrong response's
        rewards[0, -1] = right
        weights, _ = get_adv_estimator_fn(config.algorithm.adv_estimator)(
            token_level_rewards=rewards,
            response_mask=mask,
            index=["one group"] * len(mask),
            config={"method": given, "log_probs": [0.0] * len(mask), "reward_correct": right},
        )
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    mode = actor.policy_loss.loss_mode
    if mode in plugin.METHOD_OF:
        actor.global_batch_info.update(
            dp_size=1,
            batch_num_tokens=mask.sum(),
            global_batch_size=len(mask),
            loss_scale_factor=actor.loss_scale_factor,
        )
        log_prob = -torch.ones_like(mask)
        loss, _ = get_policy_loss_fn(mode)(
            log_prob, log_prob, weights, mask, actor.loss_agg_mode, actor
        )
        if not torch.isfinite(loss):
            raise UserError(f"policy_loss.loss_mode={mode}: its loss on a made-up group is {loss}")


def _advantage_arguments(name: str, config) -> dict:
    """Return algorithm.method of the first step: the arguments that flags give and those that the
    controller sets."""
    from common.backends.verl.trainer import control

    given = dict(config.algorithm.get("method", None) or {})
    mode = config.trainer.v1.trainer_mode if config.trainer.use_v1 else "v0"
    if mode != "sync" and methods.takes(name, "advantage", "log_probs"):
        raise UserError(f"trainer.v1.trainer_mode={mode}: the advantage of {name} needs sync")
    if methods.controller(name) is None:
        return given
    if mode != "sync":
        raise UserError(
            f"trainer.v1.trainer_mode={mode}: the controller of method {name} needs sync"
        )
    chosen = config.algorithm.get("controller", None) or {}
    _, by_controller = control(name, chosen, {}, {"solve_rate": 0.5, "entropy": 1.0}, 1)
    for key in given.keys() & by_controller.keys():
        raise UserError(
            f"algorithm.method.{key}={given[key]}: the controller of method {name} sets it"
        )
    return given | by_controller


@hydra.main(config_path="pkg://verl.trainer.config", config_name="ppo_trainer", version_base=None)
def _train(config) -> None:
    run(config)


def run(config) -> None:
    """Run verl's own main on a composed configuration, after our checks. End the process with a
    message if the checks fail."""
    auto_set_device(config)
    validate_config(
        config=config,
        use_reference_policy=need_reference_policy(config),
        use_critic=need_critic(config),
    )
    guard(lambda: preflight(config))
    pass_on(config)
    run_ppo(config, task_runner_class=ray.remote(Runner))


def pass_on(config) -> None:
    """Put the variables PASSED into the environment of every actor. Actors on other machines, and
    all actors in a Ray that the job has started, do not inherit our environment."""
    passed = {name: os.environ[name] for name in PASSED if name in os.environ}
    # not by setdefault: a DictConfig stores a copy and returns the dict that it was given
    OmegaConf.update(config, "ray_kwargs.ray_init.runtime_env.env_vars", passed, force_add=True)


def main() -> None:
    loaded = [name for name in os.environ.get(MODULES, "").split(",") if name]
    os.environ[MODULES] = ",".join([*loaded, PLUGIN] if PLUGIN not in loaded else loaded)
    if sys.argv[1:] and sys.argv[1].endswith(".yaml"):
        return run(OmegaConf.create(read(Path(sys.argv[1]))))

    def expanded():
        sys.argv[1:] = expand(sys.argv[1:])

    guard(expanded)
    _train()


if __name__ == "__main__":
    main()
