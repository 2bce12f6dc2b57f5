"""verl's synchronous trainer with a method's controller, whose state is kept across steps."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from omegaconf import OmegaConf, open_dict
from verl.workers.utils.padding import response_to_nested

from common.backends.verl import plugin, v1
from common.backends.verl.rows import PREFIX
from common.losses import contributions
from common.results.files import write_json

STATE = "controller.json"  # beside verl's own files of a checkpoint


class MethodTrainer(v1.Trainer):
    """verl's trainer for our methods. Before each advantage the controller sees the step's solve
    rate and entropy; its arguments become algorithm.controlled, where the estimator finds them."""

    def __init__(self, config):
        super().__init__(config)
        self.state: dict[str, float] = {}

    def _compute_advantage(self, batch, metrics: dict):
        controller = self.config.algorithm.controller
        if controller:
            fields = ["response_mask", "rm_scores", "old_log_probs"]
            ticks = self._ticks()
            read = [*fields, "uid"] if ticks > 1 else fields
            data = v1.get(batch, *read).to_padded_tensor()
            parts, controlled = [slice(None)], []
            if ticks > 1:
                uid = np.array(data.pop("uid").tolist(), dtype=object)
                groups = plugin.group_rows(uid, data["response_mask"].sum(1) > 0)
                parts = [part.flatten() for part in groups.tensor_split(ticks)]
            right = self.config.algorithm.reward_correct
            for tick, part in enumerate(parts, (self.global_steps - 1) * ticks + 1):
                measured = measure(right, **{field: data[field][part] for field in fields})
                self.state, arguments = control(controller, self.state, measured, tick)
                controlled.append(arguments)
                seen = measured | arguments  # the values of the last tick are logged
            with open_dict(self.config):
                self.config.algorithm.controlled = controlled
            metrics.update({f"method/{key}": value for key, value in seen.items()})
        batch = super()._compute_advantage(batch, metrics)
        if self.config.algorithm.covariances:
            metrics.update(self._covariances(batch))
        node = self.config.algorithm.token_weights
        return self._weigh(batch, OmegaConf.to_container(node)) if node else batch

    def _covariances(self, batch) -> dict[str, float]:
        """Return the covariances of the whole step, before any token weights."""
        fields = ("response_mask", "old_log_probs", "advantages")
        data = v1.get(batch, *fields).to_padded_tensor()
        held = contributions.logged(
            data["old_log_probs"], data["advantages"], data["response_mask"]
        )
        return {PREFIX + key: value for key, value in held.items()}

    def _ticks(self) -> int:
        """Return how often the controller looks at a rollout: once, or for each optimiser step.
        Ticks have equally many groups, in order; verl's mini-batches go by length."""
        if self.config.algorithm.clock == "rollout":
            return 1
        mini = self.config.actor_rollout_ref.actor.ppo_mini_batch_size
        return self.config.data.train_batch_size // mini

    def _weigh(self, batch, node: dict):
        """Multiply advantages by token weights here, where all responses are present."""
        data = v1.get(batch, "uid", "response_mask", "old_log_probs", "advantages")
        nested, data = data["response_mask"], data.to_padded_tensor()
        uid = np.array(data.pop("uid").tolist(), dtype=object)
        weights = weighed(node, uid, **data)
        return v1.put(batch, advantages=response_to_nested(weights, nested))

    def _save_checkpoint(self):
        # Ours is written first: the last file that verl writes makes the checkpoint the latest.
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        if self.config.algorithm.controller:
            write_json(folder / STATE, self.state)
        super()._save_checkpoint()

    def _load_checkpoint(self):
        super()._load_checkpoint()
        if self.global_steps == 0 or not self.config.algorithm.controller:
            return
        trainer = self.config.trainer
        folder = Path(trainer.default_local_dir) / f"global_step_{self.global_steps}"
        if trainer.resume_mode == "resume_path":
            folder = Path(trainer.resume_from_path)
        self.state = json.loads((folder / STATE).read_text())


def control(node: Mapping, state: dict, measured: dict, step: int) -> tuple[dict, dict]:
    return plugin.bind(node, "method.controller", **measured, step=step)(state)


def weighed(
    node: dict,
    uid: np.ndarray,
    *,
    response_mask: torch.Tensor,
    old_log_probs: torch.Tensor,
    advantages: torch.Tensor,
) -> torch.Tensor:
    """Return the advantages (B, T) times the token weights of `node`, which see the whole batch,
    prompt-major; verl's padding rows stay. The only step's policy gave old_log_probs."""
    rows = plugin.group_rows(uid, response_mask.sum(1) > 0).flatten()
    weigh = plugin.bind(node, "method.token_weights")
    log_prob = old_log_probs[rows]
    weights = weigh(log_prob, log_prob, advantages[rows], response_mask[rows])
    product = advantages.clone()
    product[rows] = advantages[rows] * weights
    return product


def measure(
    reward_correct: float,
    *,
    response_mask: torch.Tensor,
    rm_scores: torch.Tensor,
    old_log_probs: torch.Tensor,
) -> dict[str, float]:
    """Return the share of correct responses and the mean over responses of the token mean of
    -old_log_prob; each tensor is (B, T). verl's padding rows do not count."""
    mask = response_mask.double()
    lengths = mask.sum(1)
    real = lengths > 0
    solved = rm_scores.sum(1)[real] == reward_correct
    log_probs = torch.where(response_mask > 0, old_log_probs.double(), 0.0).sum(1)
    surprise = -log_probs[real] / lengths[real]
    return {"solve_rate": solved.double().mean().item(), "entropy": surprise.mean().item()}
