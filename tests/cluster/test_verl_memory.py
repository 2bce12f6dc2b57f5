"""The memory network through verl's real FSDP engine, in this process: its steps are those of the
local engine's."""

import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from omegaconf import OmegaConf
from tensordict import TensorDict
from transformers import Qwen2Config, Qwen2ForCausalLM
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.model import compute_position_id_with_mask
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.padding import left_right_2_no_padding

from common.backends.verl import config, worker
from common.experiment import load
from common.models import pretrain, store
from common.rollout.dlc import MemoryNetwork
from common.types import RolloutBatch

P, G, PROMPT, T = 2, 4, 6, 10
LR = 3e-3


@pytest.fixture(scope="module")
def batches():
    """Two steps' responses: input ids and attention (B, PROMPT + T), response mask (B, T)."""
    torch.manual_seed(1)
    found = []
    for _ in range(2):
        prompts = torch.randint(3, 90, (P, PROMPT)).repeat_interleave(G, 0)
        ids = torch.cat([prompts, torch.randint(3, 90, (P * G, T))], 1)
        lengths = torch.tensor([10, 3, 7, 1, 9, 2, 5, 8])
        mask = (torch.arange(T) < lengths[:, None]).long()
        found.append((ids, torch.cat([torch.ones_like(prompts), mask], 1), mask))
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(policy, verl's worker of its memory, made as PolicyWorker makes it)."""
    tokenizer = pretrain.tokenizer()
    torch.manual_seed(0)
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2)
    described = Qwen2Config(
        vocab_size=len(tokenizer),
        num_attention_heads=2,
        num_key_value_heads=1,
        initializer_range=0.3,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **sizes,
    )
    path = tmp_path_factory.mktemp("memory") / "model"
    policy = Qwen2ForCausalLM(described)
    store.save(policy, tokenizer, path)
    place = config.Place("cpu", 1, 1, None, path.parent / "work", str(path))
    flags = ["device=cpu", f"sampling.prompts={P}", f"sampling.group_size={G}"]
    x = load([*flags, "optim.mini_batches=1", "optim.micro_batch=2"], "f_grpo")
    verls = config.compose(config.settings(x, place, PROMPT, 256, {})).actor_rollout_ref
    OmegaConf.update(verls, "actor.optim.total_training_steps", 10)
    actor = omega_conf_to_dataclass(verls.actor)
    own = TrainingWorkerConfig(
        model_type="language_model",
        model_config=omega_conf_to_dataclass(verls.model),
        engine_config=actor.engine,
        optimizer_config=actor.optim,
        checkpoint_config=actor.checkpoint,
    )
    own.engine_config.use_dynamic_bsz = False
    own.engine_config.micro_batch_size_per_gpu = (
        own.engine_config.infer_micro_batch_size_per_gpu
    ) = 2
    trained = TrainingWorker(worker.memory_config(verls, own, path=str(path), lr=LR))
    trained.reset()
    trained.set_loss_fn(worker.cross_entropy)
    yield policy, trained
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def test_two_steps_are_those_of_the_local_engine(made, batches, tmp_path):
    policy, trained = made
    local = MemoryNetwork(policy, mu=0.5, lr=LR, start="policy", shrink=1, seed=0)
    before = {name: tensor.clone() for name, tensor in local.model.state_dict().items()}
    for ids, attention, mask in batches:
        data = TensorDict(
            {
                "input_ids": ids,
                "prompts": ids[:, :PROMPT],
                "responses": ids[:, PROMPT:],
                "attention_mask": attention,
                "position_ids": compute_position_id_with_mask(attention),
                "response_mask": mask,
            },
            batch_size=P * G,
        )
        data = left_right_2_no_padding(data)
        settings = dict(global_batch_size=P * G, mini_batch_size=P * G, temperature=1.0)
        tu.assign_non_tensor(data, **settings, calculate_entropy=False)
        metrics = tu.get(trained.train_mini_batch(data), "metrics")
        batch = RolloutBatch(
            ids[::G, :PROMPT],
            attention[::G, :PROMPT],
            ids[:, PROMPT:],
            mask.float(),
            torch.zeros(P * G, T),
            torch.ones(P * G, dtype=torch.bool),
        )
        expected = local.learn(batch, micro_batch=P * G)
        assert metrics["loss"][0] == pytest.approx(expected, rel=1e-5)
    weights, _ = trained.engine.get_per_tensor_param()
    sent = {name: tensor.clone() for name, tensor in weights}
    for name, parameter in local.model.named_parameters():
        assert (parameter - before[name]).abs().max() > LR  # it moved
        torch.testing.assert_close(sent[name].float(), parameter.data, rtol=0, atol=1e-4)
    trained.save_checkpoint(str(tmp_path / "memory"), None, 1, None)
    trained.engine.module.load_state_dict(
        {k: torch.zeros_like(v) for k, v in trained.engine.module.state_dict().items()}
    )
    trained.load_checkpoint(str(tmp_path / "memory"))
    again, _ = trained.engine.get_per_tensor_param()
    assert all(torch.equal(tensor, sent[name]) for name, tensor in again)
