"""FADE's supervised fine-tuning is a configuration that verl's own SFT trainer accepts."""

import pytest

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from verl.utils.config import omega_conf_to_dataclass

from common.backends.verl.config import tree
from common.config.compose import ROOT

FOLDER = ROOT / "papers" / "fade" / "configs" / "sft"


def composed(folder, name: str) -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(folder), version_base=None):
        return compose(name)


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.yaml")))
def test_the_file_only_sets_keys_that_verl_has(name):
    """Hydra would add an unknown key: laid over verl's tree in struct mode it is refused."""
    own = OmegaConf.load(FOLDER / f"{name}.yaml")
    assert own.pop("defaults")[0] == "sft_trainer_engine"
    assert own.pop("hydra").searchpath == ["pkg://verl.trainer.config"]
    verls = composed(tree(), "sft_trainer_engine")
    OmegaConf.set_struct(verls, True)
    merged = OmegaConf.merge(verls, own)
    assert composed(FOLDER, name) == merged  # as the command in the file composes it
    with pytest.raises(Exception, match="max_len"):
        OmegaConf.merge(verls, {"data": {"max_len": 1}})  # that the check can fail


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.yaml")))
def test_verls_dataclasses_take_it(name):
    config = composed(FOLDER, name)
    engine = omega_conf_to_dataclass(config.engine)
    optim = omega_conf_to_dataclass(config.optim)
    checkpoint = omega_conf_to_dataclass(config.checkpoint)
    assert engine.strategy == "fsdp2"
    assert optim.lr == config.optim.lr
    assert checkpoint.save_contents == ["model", "optimizer", "extra"]  # sft/train.py exports
    assert config.data.max_length <= config.data.max_token_len_per_gpu
