"""verl's training engine in one process, for tests: a tiny random model, a mini-batch, and the
engine and loss that our configuration makes of an experiment. No Ray, no vLLM."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
import verl_cpu
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from tiny import speaking
from verl import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.utils import tensordict_utils as tu
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.model import compute_position_id_with_mask
from verl.workers.config import TrainingWorkerConfig
from verl.workers.engine_workers import TrainingWorker
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import left_right_2_no_padding

from common.backends.verl import config, plugin, trainer
from common.experiment import Experiment, load
from common.models import pretrain, store

P, G, PROMPT, T = 4, 4, 6, 10
LENGTHS = torch.tensor([10, 3, 7, 1, 9, 2, 5, 8, 4, 4, 10, 1, 6, 2, 2, 9])
CONTROLLED = dict(solve_rate=0.4, entropy=0.8)  # what a controller is told
# what some methods see of the rows, in order: some answers of each group are the same
SEEN = {"outcomes": [0, 0, 1, 2] * P, "log_probs": [-0.3 * (i % 5) - 1 for i in range(P * G)]}
RIGHT = torch.tensor([1.0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1])


def random_model(path: Path):
    """A random model with the testbed's tokenizer; at `path` as a Hugging Face checkpoint."""
    tokenizer = pretrain.tokenizer()
    made = speaking(tokenizer, max_position_embeddings=256, tie_word_embeddings=True)
    store.save(made, tokenizer, path)
    return made


def mini_batch(network) -> DataProto:
    """Groups of responses of unequal length, old log-probs a little off the model's, so that some
    tokens are clipped."""
    torch.manual_seed(1)
    ids = torch.randint(3, 90, (P * G, PROMPT + T))
    mask = (torch.arange(T) < LENGTHS[:, None]).long()
    attention = torch.cat([torch.ones(P * G, PROMPT, dtype=torch.long), mask], 1)
    positions = compute_position_id_with_mask(attention)
    rewards = torch.zeros(P * G, T)
    rewards[torch.arange(P * G), LENGTHS - 1] = RIGHT
    with torch.no_grad():
        given = dict(input_ids=ids, attention_mask=attention, position_ids=positions)
        logits = network(**given).logits[:, PROMPT - 1 : -1]
    log_prob = logits.log_softmax(-1).gather(-1, ids[:, PROMPT:, None])[..., 0]
    return DataProto.from_single_dict(
        {
            **given,
            "prompts": ids[:, :PROMPT],
            "responses": ids[:, PROMPT:],
            "response_mask": mask,
            "token_level_rewards": rewards,
            "old_log_probs": log_prob + torch.randn_like(log_prob) * 0.3,
            "ref_log_prob": log_prob + torch.randn_like(log_prob) * 0.2,
            "uid": np.array([name for name in "abcd" for _ in range(G)], dtype=object),
        },
        meta_info={"temperature": 1.0},
    )


def experiment(*words: str) -> Experiment:
    shape = [f"sampling.prompts={P}", f"sampling.group_size={G}", f"sampling.max_tokens={T}"]
    optim = ["optim.mini_batches=1", "optim.micro_batch=4", "optim.warmup_steps=0"]
    return load(["backend=verl", *shape, *optim, *words], "f_grpo")


def configured(x: Experiment, model: Path, **more) -> DictConfig:
    """verl's whole configuration of an experiment on one device, `more` of its keys set."""
    place = config.Place(x.device, 1, 1, None, model.parent / "work", str(model))
    attention = "actor_rollout_ref.model.override_config.attn_implementation"
    stand = verl_cpu.settings(x, place) if x.device == "cpu" else {attention: "sdpa"}
    verls = config.compose(config.settings(x, place, PROMPT, 256, {}) | stand | more)
    # as verl's trainer does
    OmegaConf.update(verls, "actor_rollout_ref.actor.optim.total_training_steps", 10)
    return verls


def training_worker_config(parts: DictConfig) -> TrainingWorkerConfig:
    """Of the actor, as verl's ActorRolloutRefWorker makes it."""
    actor = omega_conf_to_dataclass(parts.actor)
    engine = actor.engine
    engine.use_dynamic_bsz = parts.actor.use_dynamic_bsz
    engine.max_token_len_per_gpu = parts.actor.ppo_max_token_len_per_gpu
    engine.micro_batch_size_per_gpu = parts.actor.ppo_micro_batch_size_per_gpu
    engine.infer_max_token_len_per_gpu = parts.rollout.log_prob_max_token_len_per_gpu
    engine.infer_micro_batch_size_per_gpu = parts.rollout.log_prob_micro_batch_size_per_gpu
    return TrainingWorkerConfig(
        model_type="language_model",
        model_config=omega_conf_to_dataclass(parts.model),
        engine_config=engine,
        optimizer_config=actor.optim,
        checkpoint_config=actor.checkpoint,
    )


def training_worker(verls: DictConfig) -> TrainingWorker:
    made = TrainingWorker(training_worker_config(verls.actor_rollout_ref))
    made.reset()
    return made


def advantages(verls: DictConfig, batch: DataProto) -> torch.Tensor:
    """The mini-batch's, (B, T), as our estimator computes them in verl."""
    algorithm = verls.algorithm
    node, asked = algorithm.controller, plugin.asked(algorithm.method, *SEEN)
    with open_dict(algorithm):
        algorithm.controlled = [trainer.control(node, {}, CONTROLLED, 1)[1]] if node else []
        algorithm.of_responses = {name: SEEN[name] for name in asked}
    data = compute_advantage(batch, algorithm.adv_estimator, config=algorithm)
    return data.batch["advantages"]


def with_advantages(verls: DictConfig, batch: DataProto) -> TensorDict:
    """The mini-batch as our trainer hands it to verl's workers."""
    A, uid = advantages(verls, batch), batch.non_tensor_batch["uid"]
    if node := OmegaConf.to_container(verls.algorithm.token_weights):
        held = {key: batch.batch[key] for key in ("response_mask", "old_log_probs")}
        batch.batch["advantages"] = trainer.weighed(node, uid, advantages=A, **held)
    tensors = left_right_2_no_padding(batch.to_tensordict())
    entropy = verls.actor_rollout_ref.actor.entropy_coeff != 0
    tu.assign_non_tensor(tensors, global_batch_size=P * G, calculate_entropy=entropy)
    return tensors


def loss_of(verls: DictConfig):
    """verl's loss, as its workers make it."""
    return partial(ppo_loss, omega_conf_to_dataclass(verls.actor_rollout_ref.actor))
