"""The methods of configs/method in TRL's GRPOTrainer, tested with trl 1.16.0.

    from rlvr_papers import method
    from rlvr_papers.trl import MethodTrainer, keys

    m = method("f_grpo", gamma=0.5)
    args = GRPOConfig(**keys(m), output_dir="run", learning_rate=1e-6)
    MethodTrainer(model, reward_funcs=f, args=args, train_dataset=d, method=m).train()

docs/your-trainer.md says what is exact and what TRL cannot express.
"""

import inspect

import torch
from trl import GRPOTrainer

from common.config.schema import Method
from common.errors import UserError, require
from common.methods import catalogue
from common.methods.binding import advantages, bind, observe

AGGREGATIONS = {"token_mean": "dapo", "sequence_mean_token_mean": "grpo", "token_sum": "dr_grpo"}
STATE = "rlvr_papers"  # key of TrainerState.stateful_callbacks, which each checkpoint holds


def keys(method: Method) -> dict[str, object]:
    """Return the keys of GRPOConfig that state a method's clip, aggregation, KL penalty and entropy
    bonus. Raises UserError for a method that TRL cannot express."""
    loss, maths = method.loss, "common.losses."
    clip = loss["_target_"].removeprefix(maths)
    how = AGGREGATIONS.get(method.aggregation["_target_"].removeprefix(f"{maths}aggregate."))
    found = {"loss_type": how, "epsilon": loss.get("eps_low"), "epsilon_high": loss.get("eps_high")}
    found |= {"beta": method.kl_coef, "entropy_coef": method.entropy_coef}
    if method.kl_coef:  # True is TRL's default, with another gradient: k3 times the ratio
        found["use_bias_correction_kl"] = False
    if longest := (method.advantage | method.aggregation).get("max_tokens"):
        found["max_completion_length"] = longest
    if clip == "clip.dual_clip":
        found["delta"] = loss["clip_ratio_c"]
    elif (clip, how) == ("sequence.gspo", "grpo"):
        found["importance_sampling_level"] = "sequence"
    elif (clip, how, loss.get("eps_low")) == ("clip.cispo", "dapo", 1):  # TRL has no lower bound
        found |= {"loss_type": "cispo", "epsilon_high": 1 + loss["eps_high"]}
    elif clip not in ("clip.ppo_clip", "covariance.weighted_ppo_clip") or how is None:
        raise UserError(f"method={method.name}: TRL has no key for its loss, {loss['_target_']}")
    missing = {
        "a sampler of two models": method.sampler,
        "a KL penalty in the reward": method.kl_in_reward,
        f"the KL estimator {method.kl_estimator}": method.kl_coef and method.kl_estimator != "k3",
        "the answers of responses": "outcomes" in asked(bind(method)),
    }
    for part, needed in missing.items():
        require(not needed, "method", method.name, f"needs {part}, which TRL does not have")
    return found


class MethodTrainer(GRPOTrainer):
    """TRL's trainer with the advantages of `method`, its controller and its token weights.

    A response is correct if its reward is `reward_correct`. Raises UserError for a method that TRL
    cannot express, and for arguments that would train another one.
    """

    def __init__(self, *args, method: Method, reward_correct: float = 1.0, **named):
        own, plain = keys(method), keys(catalogue.method("grpo"))
        self.bound, self.reward_correct = bind(method), reward_correct
        super().__init__(*args, **named)
        given, name = self.args, method.name
        own = {key: value for key, value in own.items() if plain.get(key) != value}
        own["multi_objective_aggregation"] = "sum_then_normalize"  # one reward of each response
        for key, value in own.items():  # the other keys are the user's choice
            remedy = f"{name} has {value}; GRPOConfig(**keys(method), ...) says so"
            require(getattr(given, key) == value, key, getattr(given, key), remedy)
        accumulated, every = given.gradient_accumulation_steps, given.steps_per_generation
        clocked = method.controller is not None and method.clock == "optimiser_step"
        self.ticks = every // accumulated if clocked else 1
        fits = not clocked or (every % accumulated == 0 and self.num_iterations == 1)
        remedy = f"{name} needs a multiple of gradient_accumulation_steps, and num_iterations=1"
        require(fits, "steps_per_generation", every, remedy)
        fits = method.token_weights is None or every * self.num_iterations == accumulated
        remedy = f"{name} needs gradient_accumulation_steps, {accumulated}, and num_iterations=1"
        require(fits, "steps_per_generation", every, remedy)

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
        rewards = rewards.view(-1, self.num_generations)
        gather, mask = self.accelerator.gather, batch["completion_mask"]
        mask = mask * batch.get("tool_mask", 1)
        seen = {"correct": rewards == self.reward_correct, "lengths": gather(mask.sum(1))}
        bound, weighted = self.bound, self.bound.token_weights is not None
        if weighted or bound.controller or "log_probs" in asked(bound):
            log_prob = self._log_prob(batch, mask)
            seen["log_probs"] = gather(log_prob.double().sum(1))
        seen = {key: value.view_as(rewards) for key, value in seen.items()}
        parts = []
        for part in torch.arange(len(rewards)).tensor_split(self.ticks):
            of_part = {key: value[part] for key, value in seen.items()}
            arguments = self._observe(**of_part) if bound.controller else {}
            parts.append(advantages(bound, rewards[part], arguments=arguments, **of_part))
        found = torch.cat(parts).view(-1, 1)
        for _ in found:  # TRL has logged its own
            self._logs["advantages"].pop()
        self._logs["advantages"].extend(found[:, 0].tolist())
        if weighted:  # of all processes: they compare responses
            pad = self.accelerator.pad_across_processes
            everywhere, real = (gather(pad(x, dim=1)) for x in (log_prob, mask))
            found = found * bound.token_weights(everywhere, everywhere, found, real)
            found = found[:, : mask.shape[1]]
        here = found.chunk(self.accelerator.num_processes)[self.accelerator.process_index]
        return here if weighted else here[:, 0]

    def _observe(self, *, correct, lengths, log_probs) -> dict:
        """Step the controller, whose state is in the trainer's; return its arguments."""
        kept, step = self.state.stateful_callbacks, self.state.global_step
        remedy = "the checkpoint has no state of the method's controller; start a new run"
        require(STATE in kept or step == 0, "resume_from_checkpoint", step, remedy)
        memory = kept.setdefault(STATE, {"step": 0, "state": {}})
        memory["step"] += 1
        real = lengths > 0
        measured = {
            "solve_rate": correct.double().mean().item(),
            "entropy": -(log_probs[real] / lengths[real]).mean().item(),
            "step": memory["step"],
        }
        memory["state"], arguments = observe(self.bound, memory["state"], **measured)
        for key, value in (measured | arguments).items():
            self._metrics["train"][f"method/{key}"].append(value)
        return arguments

    @torch.no_grad()
    def _log_prob(self, batch: dict, mask: torch.Tensor) -> torch.Tensor:
        """Return log pi_old of each token, (B, T), 0 on padding; TRL may not have computed it."""
        found = batch.get("old_per_token_logps")
        if found is None:
            compute = self._get_per_token_logps_and_entropies
            more = {
                key: batch[key] for key in inspect.signature(compute).parameters if key in batch
            }
            ids, real = (
                torch.cat([batch[f"prompt_{x}"], batch[f"completion_{x}"]], 1)
                for x in ("ids", "mask")
            )
            size = self.args.per_device_train_batch_size
            found = compute(self.model, ids, real, mask.shape[1], batch_size=size, **more)[0]
        return torch.where(mask > 0, found, 0.0)


def asked(bound) -> list[str]:
    """Return the parameters of a method's advantage."""
    return list(inspect.signature(bound.advantage).parameters)
