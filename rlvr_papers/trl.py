"""The methods of configs/method in TRL's GRPOTrainer, tested with trl 1.16.0.

    m = method("f_grpo", gamma=0.5)
    args = GRPOConfig(**keys(m), output_dir="run", learning_rate=1e-6)
    MethodTrainer(model, reward_funcs=f, args=args, train_dataset=d, method=m).train()

docs/your-trainer.md says what is exact and what TRL cannot express.
"""

from inspect import signature
from typing import Any

import torch
from trl import GRPOTrainer

from common.config.schema import Method
from common.errors import require
from common.methods import catalogue
from common.methods.binding import advantages, bind, observe

AGGREGATIONS = {"token_mean": "dapo", "sequence_mean_token_mean": "grpo", "token_sum": "dr_grpo"}
STATE = "rlvr_papers"  # key of TrainerState.stateful_callbacks, which each checkpoint holds


def keys(method: Method) -> dict[str, object]:
    """Return GRPOConfig's keys for a method's clip, aggregation, KL penalty and entropy bonus.
    Raises UserError for a method that TRL cannot express."""
    loss, aggregation = method.loss, method.aggregation["_target_"]
    clip = loss["_target_"].removeprefix("common.losses.")
    how = AGGREGATIONS.get(aggregation.removeprefix("common.losses.aggregate."))
    found = {"loss_type": how, "epsilon": loss.get("eps_low"), "epsilon_high": loss.get("eps_high")}
    found |= {"beta": method.kl_coef, "entropy_coef": method.entropy_coef}
    if method.kl_coef:  # TRL's default is k3 times the ratio, which has another gradient
        found["use_bias_correction_kl"] = False
    if longest := (method.advantage | method.aggregation).get("max_tokens"):
        found["max_completion_length"] = longest
    known = clip in ("clip.ppo_clip", "clip.dual_clip", "covariance.weighted_ppo_clip")
    if clip == "clip.dual_clip":
        found["delta"] = loss["clip_ratio_c"]
    elif clip == "sequence.gspo":
        known, found["importance_sampling_level"] = how == "grpo", "sequence"
    elif clip == "clip.cispo":  # TRL's weight has no lower bound
        known = how == "dapo" and loss["eps_low"] == 1
        found |= {"loss_type": "cispo", "epsilon_high": 1 + loss["eps_high"]}
    asked = signature(bind(method).advantage).parameters
    missing = {
        f"{loss['_target_']} with {aggregation}": not known or how is None,
        "a sampler of two models": method.sampler,
        "a KL penalty in the reward": method.kl_in_reward,
        f"the KL estimator {method.kl_estimator}": method.kl_coef and method.kl_estimator != "k3",
        "the answers of responses": "outcomes" in asked,
    }
    for part, needed in missing.items():
        require(not needed, "method", method.name, f"needs {part}, which TRL does not have")
    return found


class MethodTrainer(GRPOTrainer):
    """TRL's trainer with a method's advantages, controller and token weights. `reward_correct` is
    the reward of a right response. Raises UserError where another method would be trained."""

    def __init__(self, *args, method: Method, reward_correct: float = 1.0, **named):
        own, plain = keys(method), keys(catalogue.method("grpo"))
        self.bound, self.reward_correct = bind(method), reward_correct
        super().__init__(*args, **named)
        self.ticks, accumulated = 1, self.args.gradient_accumulation_steps
        own = {key: value for key, value in own.items() if plain.get(key) != value}
        own["multi_objective_aggregation"] = "sum_then_normalize"  # one reward of each response
        if self.bound.controller and method.clock == "optimiser_step":
            self.ticks = max(1, self.args.steps_per_generation // accumulated)
            own |= {"num_iterations": 1, "steps_per_generation": self.ticks * accumulated}
        if self.bound.token_weights:  # of one optimiser step a rollout
            own |= {"num_iterations": 1, "steps_per_generation": accumulated}
        for key, value in own.items():  # other keys are the user's choice
            given = getattr(self.args, key)
            require(given == value, key, given, f"{method.name} needs {value}; see keys(method)")

    def _calculate_rewards(self, *args, **named):
        self.scored = super()._calculate_rewards(*args, **named)  # of all processes, in groups
        return self.scored

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        if self.model.training:
            batch["advantages"] = self._advantages(batch)
        return batch

    def _advantages(self, batch: dict) -> torch.Tensor:
        """Return this process's advantages, (B,) or, with token weights, (B, T)."""
        unscored = self.scored.isnan().all(1).sum().item()
        remedy = f"{unscored} of {len(self.scored)} responses have no reward; return a number"
        require(unscored == 0, "reward_funcs", self.reward_func_names, remedy)
        rewards = (self.scored * self.reward_weights.to(self.scored)).nansum(1)
        rewards, bound = rewards.view(-1, self.num_generations), self.bound
        gather, mask = self.accelerator.gather, batch["completion_mask"]
        mask = mask * batch.get("tool_mask", 1)
        log_prob = self._log_prob(batch, mask)
        seen = {
            "correct": rewards == self.reward_correct,
            "lengths": gather(mask.sum(1)).view_as(rewards),
            "log_probs": gather(log_prob.double().sum(1)).view_as(rewards),
        }
        parts = []
        for part in torch.arange(len(rewards)).tensor_split(self.ticks):
            of_part = {key: value[part] for key, value in seen.items()}
            arguments = self._observe(**of_part) if bound.controller else {}
            parts.append(advantages(bound, rewards[part], arguments=arguments, **of_part))
        found = torch.cat(parts).to(rewards.dtype).view(-1, 1)
        logged: Any = self._logs["advantages"]
        for _ in found:  # TRL's own
            logged.pop()
        logged.extend(found[:, 0].tolist())
        if bound.token_weights:  # they compare the responses of all processes
            pad = self.accelerator.pad_across_processes
            everywhere, real = (gather(pad(x, dim=1)) for x in (log_prob, mask))
            found = found * bound.token_weights(everywhere, everywhere, found, real)
            found = found[:, : mask.shape[1]]
        here = found.chunk(self.accelerator.num_processes)[self.accelerator.process_index]
        return here if bound.token_weights else here[:, 0]

    def _observe(self, *, correct, lengths, log_probs) -> dict:
        """Step the controller, whose state is in the trainer's; return its arguments."""
        kept, step = self.state.stateful_callbacks, self.state.global_step
        remedy = "this checkpoint has no state of the method's controller; start a new run"
        require(STATE in kept or step == 0, "resume_from_checkpoint", step, remedy)
        state = kept.setdefault(STATE, {"step": 0, "controller": {}})
        state["step"] += 1
        real, seen = lengths > 0, {"solve_rate": correct.double().mean().item()}
        seen["entropy"] = -(log_probs[real] / lengths[real]).mean().item()
        before, tick = state["controller"], state["step"]
        state["controller"], arguments = observe(self.bound, before, **seen, step=tick)
        for key, value in (seen | arguments).items():
            self._metrics["train"][f"method/{key}"].append(value)
        return arguments

    @torch.no_grad()
    def _log_prob(self, batch: dict, mask: torch.Tensor) -> torch.Tensor:
        """Return log pi_old of each token, (B, T), and 0 on padding or where no part of the method
        asks for it. TRL has not computed it where one optimiser step uses the whole rollout."""
        bound, found = self.bound, batch.get("old_per_token_logps")
        asked = "log_probs" in signature(bound.advantage).parameters
        if not (asked or bound.controller or bound.token_weights):
            return torch.zeros(mask.shape, device=mask.device)
        if found is None:
            compute = self._get_per_token_logps_and_entropies
            more = {key: batch[key] for key in signature(compute).parameters if key in batch}
            more["batch_size"] = self.args.per_device_train_batch_size
            ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
            real = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
            found, _, _ = compute(self.model, ids, real, mask.shape[1], **more)
        return torch.where(mask > 0, found, 0.0)
