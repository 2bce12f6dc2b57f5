"""`python -m common.backends.verl.main FILE.yaml`, started by backend.py: verl with our trainer."""

import os
import sys
from pathlib import Path

import ray
from omegaconf import OmegaConf
from verl.trainer.main_ppo import run_ppo
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config
from verl.utils.device import auto_set_device

from common.backends.verl import process, v1
from common.backends.verl.sockets import MARK, READABLE
from common.backends.verl.stand_in import STAND_IN, stand_in
from common.config.files import read

# What an actor needs of process.environment if the job has started its node's Ray.
PASSED = (
    *(process.MODULES, MARK, *READABLE, "PYTHONPATH", "VERL_FILE_LOGGER_PATH"),
    *("VLLM_API_KEY", "VLLM_NO_USAGE_STATS", STAND_IN),
)


class Runner(v1.Driver):
    def run(self, config):
        from common.backends.verl.experiment_trainer import ExperimentTrainer
        from common.backends.verl.sampling import BoundedBuffer

        v1.use(ExperimentTrainer, BoundedBuffer)
        super().run(config)


def run(config) -> None:
    """Run verl's own main on a composed configuration, after verl's checks of it."""
    auto_set_device(config)
    validate_config(
        config=config,
        use_reference_policy=need_reference_policy(config),
        use_critic=need_critic(config),
    )
    pass_on(config)
    run_ppo(config, task_runner_class=ray.remote(Runner))


def pass_on(config) -> None:
    """Put PASSED into the environment of all actors, which may not inherit ours."""
    stand = stand_in()
    names = PASSED if stand is None else (*PASSED, *stand.PASSED)
    passed = {name: os.environ[name] for name in names if name in os.environ}
    # not by setdefault: a DictConfig stores a copy and returns the dict that it was given
    OmegaConf.update(config, "ray_kwargs.ray_init.runtime_env.env_vars", passed, force_add=True)


if __name__ == "__main__":
    run(OmegaConf.create(read(Path(sys.argv[1]))))
