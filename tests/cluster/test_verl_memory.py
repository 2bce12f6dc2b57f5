"""The memory network through verl's real FSDP engine, in this process: its steps are those of the
local engine's."""

import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from engines import configured, experiment, random_model, training_worker_config
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.model import compute_position_id_with_mask
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.padding import left_right_2_no_padding

from common.backends.verl import worker
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
    path = tmp_path_factory.mktemp("memory") / "model"
    policy = random_model(path)
    verls = configured(experiment("device=cpu", "optim.micro_batch=2"), path).actor_rollout_ref
    own = training_worker_config(verls)
    own.engine_config.use_dynamic_bsz = False
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
