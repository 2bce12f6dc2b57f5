"""The configurations of verl that the papers' READMEs hold are ones that verl takes."""

import pytest
from documents import BLOCK
from hydra import compose, initialize_config_dir, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from tiny import ROOT

FILES = sorted(ROOT.glob("papers/*/README.md"))
HEAD = "verl.trainer.main_ppo"  # in the first line of a block


def blocks(file) -> list[str]:
    return [text for _, text in BLOCK.findall(file.read_text()) if HEAD in text.split("\n")[0]]


@pytest.mark.parametrize("file", [x for x in FILES if blocks(x)], ids=lambda x: x.parent.name)
def test_a_configuration_of_a_readme_has_verls_keys(file, tmp_path):
    (text,) = blocks(file)
    (tmp_path / "pasted.yaml").write_text(text)
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(tmp_path), version_base=None):
        found = compose("pasted")  # as `--config-path` and `--config-name` do
    asked = OmegaConf.create(text)
    del asked["defaults"], asked["hydra"]
    assert OmegaConf.merge(found, asked) == found
    GlobalHydra.instance().clear()
    with initialize_config_module("verl.trainer.config", version_base=None):
        theirs = compose("ppo_trainer")
    OmegaConf.set_struct(theirs, True)
    OmegaConf.merge(theirs, asked)  # refuses a key that verl does not have
    actor = found.actor_rollout_ref.actor
    assert found.data.train_batch_size % actor.ppo_mini_batch_size == 0
    assert found.actor_rollout_ref.rollout.n > 1
    missing = OmegaConf.missing_keys(found)  # those of a reward model are of no use here
    assert {key for key in missing if not key.startswith("reward.")} == set()
    assert actor.use_dynamic_bsz  # else verl asks for three sizes of micro-batches
    assert found.data.max_prompt_length > 1000 or file.parent.name == "cov_grpo"  # 512: Table 5
