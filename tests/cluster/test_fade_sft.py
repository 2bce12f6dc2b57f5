"""FADE's supervised fine-tuning: verl's own SFT trainer accepts the configuration, trains a tiny
model on prepared files, resumes, and what it leaves is a model that transformers load."""

import pytest

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from tiny import speaking
from transformers import AutoModelForCausalLM, AutoTokenizer
from verl.utils.config import omega_conf_to_dataclass

from common.backends.verl.config import tree
from common.config.files import ROOT
from common.models import pretrain, store
from papers.fade.sft import train
from papers.fade.sft.prepare import write_part

FOLDER = ROOT / "papers" / "fade" / "configs" / "sft"


def composed(folder, name: str) -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(folder), version_base=None):
        return compose(name)


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.yaml")))
def test_the_file_sets_keys_that_verl_has_and_its_dataclasses_take_it(name):
    """Hydra would add an unknown key: laid over verl's tree in struct mode it is refused."""
    own = OmegaConf.load(FOLDER / f"{name}.yaml")
    assert own.pop("defaults")[0] == "sft_trainer_engine"
    own.pop("hydra")
    verls, config = composed(tree(), "sft_trainer_engine"), composed(FOLDER, name)
    OmegaConf.set_struct(verls, True)
    assert config == OmegaConf.merge(verls, own)  # as the command in the file composes it
    assert omega_conf_to_dataclass(config.engine).strategy == "fsdp2"
    assert omega_conf_to_dataclass(config.optim).lr == config.optim.lr
    kept = omega_conf_to_dataclass(config.checkpoint).save_contents
    assert kept == ["model", "optimizer", "extra"]  # sft/train.py exports
    assert config.data.max_length <= config.data.max_token_len_per_gpu


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def start(tmp_path):
    """A random Qwen2 of 20,000 weights, and two sets of 4 conversations."""
    tokenizer = pretrain.tokenizer()
    tokenizer.chat_template = CHATML
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    network = speaking(tokenizer, num_hidden_layers=1, max_position_embeddings=32_768)
    store.save(network, tokenizer, tmp_path / "m")
    for name in ("code", "maths"):
        talks = [
            [{"role": "user", "content": f"{i} 2"}, {"role": "assistant", "content": f"{i} + 2"}]
            for i in range(4)
        ]
        write_part(tmp_path / name / "part-00000.parquet", iter(talks))
    return tmp_path


def test_two_steps_resumed_and_exported(start):
    """The second process goes on with step 2, and both steps have changed the model."""
    words = [
        f"model.path={start / 'm'}",
        f"data.train_files=[{start / 'code'},{start / 'maths'}]",
        "data.train_batch_size=4",
        "data.num_workers=0",
        "trainer.device=cpu",
        "trainer.logger=[console]",
        "optim.lr=1e-2",
        "model.use_remove_padding=False",
        "model.enable_gradient_checkpointing=False",
        "+model.override_config.attn_implementation=sdpa",
        "engine.use_torch_compile=False",
    ]
    weights = []
    for steps in (1, 2):
        asked = [*words, f"trainer.total_training_steps={steps}"]
        place = {"folder": start / "checkpoints", "model": start / f"trained{steps}"}
        train.node(gpus=1, nodes=1, rank=0, address="127.0.0.1", overrides=asked, **place)
        made = AutoModelForCausalLM.from_pretrained(start / f"trained{steps}")
        weights.append(made.model.embed_tokens.weight)
    end = AutoTokenizer.from_pretrained(start / "m").convert_tokens_to_ids("<|im_end|>")
    assert AutoTokenizer.from_pretrained(start / "trained2").eos_token_id == end
    assert (made.config.eos_token_id, made.generation_config.eos_token_id) == (end, end)
    before = AutoModelForCausalLM.from_pretrained(start / "m").model.embed_tokens.weight
    assert not torch.equal(before, weights[0])
    assert not torch.equal(*weights)
    kept = sorted(path.name for path in (start / "checkpoints").glob("global_step_*"))
    assert kept == ["global_step_1", "global_step_2"]
