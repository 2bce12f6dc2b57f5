"""Gradients through verl's real FSDP engine, in this process: no Ray, no vLLM."""

from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from omegaconf import OmegaConf
from transformers import Qwen2Config, Qwen2ForCausalLM
from verl import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.utils import tensordict_utils as tu
from verl.utils.model import compute_position_id_with_mask
from verl.workers.config import (
    FSDPActorConfig,
    FSDPEngineConfig,
    FSDPOptimizerConfig,
    HFModelConfig,
    TrainingWorkerConfig,
)
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import left_right_2_no_padding

from common.backends.verl import cpu_logits, methods, plugin
from common.config.compose import compose
from common.config.strict import strict
from common.experiment import Experiment
from common.methods import binding as loop
from common.models import pretrain, store

P, G, PROMPT, T = 2, 4, 6, 10
METHODS = ["grpo", "f_grpo", "dr_grpo", "gspo", "cispo"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random Qwen2 with the testbed's tokenizer, as a Hugging Face checkpoint."""
    tokenizer = pretrain.tokenizer()
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        initializer_range=0.3,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    path = tmp_path_factory.mktemp("verl") / "model"
    network = Qwen2ForCausalLM(config)
    store.save(network, tokenizer, path)
    return path, network


@pytest.fixture(scope="module")
def worker(model):
    """verl's training worker in float32; its optimiser only hands the gradient over."""
    fp32 = dict(param_dtype="fp32", reduce_dtype="fp32", buffer_dtype="fp32")
    made = TrainingWorker(
        config=TrainingWorkerConfig(
            model_type="language_model",
            model_config=HFModelConfig(
                path=str(model[0]),
                use_remove_padding=False,
                enable_gradient_checkpointing=False,
                override_config={"attn_implementation": "sdpa"},
            ),
            engine_config=FSDPEngineConfig(
                strategy="fsdp2",
                fsdp_size=1,
                use_dynamic_bsz=False,
                micro_batch_size_per_gpu=P * G,
                infer_micro_batch_size_per_gpu=P * G,
                use_remove_padding=False,
                dtype="float32",
                use_torch_compile=False,
                mixed_precision=fp32,
            ),
            optimizer_config=FSDPOptimizerConfig(lr=1e-3, total_training_steps=10),
            checkpoint_config=None,
        )
    )
    made.reset()
    made.gradients = {}

    def hand_over() -> float:  # verl drops the gradients after its step
        for name, parameter in made.engine.module.named_parameters():
            made.gradients[name] = parameter.grad.full_tensor().clone()
        return 0.0

    made.engine.optimizer_step = hand_over
    yield made
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.fixture(scope="module")
def batch() -> DataProto:
    """Two groups of four responses of unequal length, old log-probs a little off the model's."""
    torch.manual_seed(1)
    ids = torch.randint(3, 90, (P * G, PROMPT + T))
    lengths = torch.tensor([10, 3, 7, 1, 9, 2, 5, 8])
    mask = (torch.arange(T) < lengths[:, None]).long()
    attention = torch.cat([torch.ones(P * G, PROMPT, dtype=torch.long), mask], 1)
    rewards = torch.zeros(P * G, T)
    rewards[torch.arange(P * G), lengths - 1] = torch.tensor([1.0, 0, 0, 1, 1, 1, 1, 0])
    return DataProto.from_single_dict(
        {
            "input_ids": ids,
            "prompts": ids[:, :PROMPT],
            "responses": ids[:, PROMPT:],
            "attention_mask": attention,
            "position_ids": compute_position_id_with_mask(attention),
            "response_mask": mask,
            "token_level_rewards": rewards,
            "uid": np.array(["a"] * G + ["b"] * G, dtype=object),
        },
        meta_info={"temperature": 1.0},
    )


def reference(network, batch, name: str):
    """Loss and gradients as the local loop computes them, by autograd on the whole mini-batch."""
    flags = [f"method={name}", f"sampling.group_size={G}", f"sampling.max_tokens={T}"]
    bound = strict(Experiment, compose("f_grpo", flags)).bound
    mask = batch.batch["response_mask"].float()
    rewards = batch.batch["token_level_rewards"].sum(1).view(P, G)
    seen = {"correct": rewards == 1, "lengths": mask.sum(1).view(P, G)}
    weights = loop.advantages(bound, rewards, arguments={}, **seen).view(-1, 1)
    ids = batch.batch["input_ids"]
    logits = network(
        input_ids=ids,
        attention_mask=batch.batch["attention_mask"],
        position_ids=batch.batch["position_ids"],
    ).logits[:, PROMPT - 1 : -1]
    chosen = ids[:, PROMPT:, None]
    log_prob = logits.log_softmax(-1).gather(-1, chosen)[..., 0]
    old = batch.batch["old_log_probs"]
    extra = {}
    if bound.token_weights is not None:
        extra["token_weights"] = bound.token_weights(log_prob.detach(), old, weights, mask)
    values, _ = bound.loss(log_prob, old, weights, mask, **extra)
    total = torch.where(mask > 0, values * bound.aggregate(mask), 0).sum()
    network.zero_grad()
    total.backward()
    return total.item(), {n: p.grad.clone() for n, p in network.named_parameters()}


def through_verl(worker, batch, name: str, micro_batch: int):
    """Loss and gradients of one mini-batch through verl's own ppo_loss and FSDP engine."""
    actor = FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=G,
        ppo_micro_batch_size_per_gpu=micro_batch,
        loss_agg_mode=methods.agg_mode(name),
        loss_scale_factor=T,
        policy_loss=plugin.MethodLossConfig(loss_mode=f"rlvr_{name}"),
    )
    worker.set_loss_fn(partial(ppo_loss, config=actor))
    worker.engine_config.__dict__["micro_batch_size_per_gpu"] = micro_batch
    data = compute_advantage(batch, f"rlvr_{name}", config=OmegaConf.create({}))
    tensors = left_right_2_no_padding(data.to_tensordict())
    tu.assign_non_tensor(tensors, global_batch_size=P * G)
    metrics = tu.get(worker.train_batch(tensors), "metrics")
    return metrics["loss"], dict(worker.gradients)


@pytest.fixture(scope="module")
def prepared(model, batch):
    """The batch with old log-probs: the model's own, shifted so that some tokens are clipped."""
    with torch.no_grad():
        logits = model[1](
            input_ids=batch.batch["input_ids"],
            attention_mask=batch.batch["attention_mask"],
            position_ids=batch.batch["position_ids"],
        ).logits[:, PROMPT - 1 : -1]
        chosen = batch.batch["responses"][..., None]
        log_prob = logits.log_softmax(-1).gather(-1, chosen)[..., 0]
    torch.manual_seed(2)
    batch.batch["old_log_probs"] = log_prob + torch.randn_like(log_prob) * 0.3
    return batch


@pytest.mark.parametrize("name", METHODS)
def test_gradients_are_the_local_loops_for_every_micro_batch_size(name, model, worker, prepared):
    loss, gradients = reference(model[1], prepared, name)
    assert max(g.abs().max() for g in gradients.values()) > 1e-3
    for micro_batch in (P * G, 4, 2, 1):
        verls_loss, verls = through_verl(worker, prepared, name, micro_batch)
        assert verls_loss == pytest.approx(loss, rel=1e-5, abs=1e-6)
        assert verls.keys() == gradients.keys()
        for parameter, expected in gradients.items():
            torch.testing.assert_close(verls[parameter], expected, rtol=1e-4, atol=1e-6)


def test_token_weights_see_the_micro_batch_only(model, worker, prepared):
    # Documented: verl hands a loss no more than the micro-batch, so CW-GRPO depends on its size.
    loss, _ = reference(model[1], prepared, "cw_grpo")
    whole, _ = through_verl(worker, prepared, "cw_grpo", P * G)
    half, _ = through_verl(worker, prepared, "cw_grpo", G)
    assert whole == pytest.approx(loss, rel=1e-5, abs=1e-6)
    assert abs(half - loss) > 1e-4


def test_logits_of_responses_alone_give_the_same_gradients(worker, prepared):
    loss, gradients = through_verl(worker, prepared, "grpo", 4)
    head, rows = worker.engine.module.get_output_embeddings(), []
    cpu_logits.install(worker.engine)
    head.register_forward_hook(lambda _, given, made: rows.append(made.shape[1]))
    again, others = through_verl(worker, prepared, "grpo", 4)
    assert again == pytest.approx(loss, rel=1e-6)
    for parameter, expected in gradients.items():
        torch.testing.assert_close(others[parameter], expected, rtol=1e-5, atol=1e-8)
    assert sum(rows) == prepared.batch["response_mask"].sum()
