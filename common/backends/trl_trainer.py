"""A method of `configs/method` in TRL's GRPOTrainer: TRL's rollouts, our advantages and loss.

    MethodTrainer(model, reward_function, GRPOConfig(...), dataset, method=method)

Two parts of TRL are replaced: the advantages that it computes after a rollout, and `_compute_loss`.
Weights of a whole mini-batch (aggregation, token_weights) are computed when an optimiser step
begins, so gradient accumulation changes memory, never gradients. Needs trl (extra `bench`) and
works in one process only.

Left out: vLLM's importance-sampling correction, TRL's correction of the KL by the token's ratio,
mixture-of-experts auxiliary losses, images, and all fields of GRPOConfig that the method decides
(they are refused, not ignored).
"""

import json
from dataclasses import fields
from pathlib import Path

import torch

from common.config.schema import Method
from common.config.strict import strict
from common.errors import UserError
from common.methods import binding as methods
from common.methods import files
from common.models.logits import with_top

try:
    from trl import GRPOConfig, GRPOTrainer
except ImportError as error:
    raise UserError(f"trl cannot be imported ({error}): pip install -e .[bench]") from error

# Fields of GRPOConfig that a method decides; beta is compared with kl_coef instead.
DECIDED = ("loss_type", "epsilon", "epsilon_high", "delta", "importance_sampling_level")
DECIDED += ("scale_rewards", "multi_objective_aggregation", "top_entropy_quantile", "entropy_coef")
DECIDED += ("use_adaptive_entropy", "off_policy_mask_threshold", "use_bias_correction_kl")
STATE = "controller.json"


class MethodTrainer(GRPOTrainer):
    """GRPOTrainer with the advantage, loss, aggregation, token weights, controller, entropy bonus
    and KL penalty of `method`: a name of configs/method ("f_grpo"), the path of a .yaml file, a
    `common.config.schema.Method`, or the mapping that a method file composes to.

    A response whose reward is `reward_correct` counts as correct, for methods that count correct
    responses and for controllers. A controller's state is saved with every checkpoint, and
    resume_from_checkpoint restores it.
    Raises UserError where GRPOConfig contradicts the method, for several processes, and for a
    response whose rewards are all None.
    """

    def __init__(self, *args, method, reward_correct: float = 1.0, **kwargs):
        super().__init__(*args, **kwargs)
        if isinstance(method, str):
            method = files.method(
                method,
                max_tokens=self.args.max_completion_length,
                steps=self.args.max_steps if self.args.max_steps > 0 else None,
            )
        self.method = method if isinstance(method, Method) else strict(Method, method)
        self.bound = methods.bind(self.method)
        self.controller_state, self.reward_correct = {}, reward_correct
        self._window_left = 0  # micro-batches until the next optimiser step
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        for field in fields(GRPOConfig):
            if field.name in DECIDED and getattr(self.args, field.name) != field.default:
                raise UserError(
                    f"{field.name}={getattr(self.args, field.name)}: the method decides this; "
                    f"leave it at its default, {field.default}"
                )
        if self.method.sampler is not None:
            raise UserError(
                f"method={self.method.name}: its memory network samples on backend=local only"
            )
        if self.method.rehearsal is not None:
            raise UserError(
                f"method.rehearsal={self.method.name}: TRL has no rehearsal set beside its "
                "rollouts; use backend=local, or a method without one"
            )
        if self.method.kl_in_reward:
            raise UserError("method.kl_in_reward=True: TRL has its KL in the loss; set it to false")
        if self.args.beta != self.method.kl_coef:
            raise UserError(
                f"beta={self.args.beta}: must equal method.kl_coef={self.method.kl_coef}"
            )
        if self.args.use_vllm and self.args.vllm_importance_sampling_correction:
            raise UserError(
                "vllm_importance_sampling_correction=True: is no part of a method; set it to False"
            )
        if self.accelerator.num_processes > 1:
            raise UserError(
                f"num_processes={self.accelerator.num_processes}: MethodTrainer needs the whole "
                "mini-batch in one process; use backend=verl"
            )

    # ---- advantages

    def _calculate_rewards(self, *args, **kwargs):
        self._scores = super()._calculate_rewards(*args, **kwargs)
        return self._scores

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        if self._scores.isnan().all(1).any():
            raise UserError("reward=None: every response needs a reward from some function")
        weights = self.reward_weights.to(self._scores.device)
        size = self.num_generations if self.model.training else self.num_generations_eval
        rewards = (self._scores * weights).nansum(1).view(-1, size)
        lengths = _mask(output).sum(1).view(-1, size)
        drawn, arguments = None, {}
        if self.bound.controller or methods.asks(self.bound, "log_probs"):
            drawn = self._drawn(output).view(-1, size)
        if self.bound.controller:
            arguments = self._control(rewards, -drawn / lengths.clamp(min=1))
        advantages = methods.advantages(
            self.bound,
            rewards,
            correct=rewards == self.reward_correct,
            lengths=lengths,
            arguments=arguments,
            log_probs=drawn,
        )
        output["advantages"] = advantages.flatten()
        return output

    def _drawn(self, output: dict) -> torch.Tensor:
        """Return log pi_old of each response, (B,), in nats."""
        mask, log_prob = _mask(output), output.get("old_per_token_logps")
        if log_prob is None:
            with torch.no_grad():
                log_prob, _ = self._log_prob(self.model, output)
        return torch.where(mask > 0, log_prob, 0).sum(1)

    def _control(self, rewards: torch.Tensor, surprise: torch.Tensor) -> dict:
        """Return the controller's arguments for the advantage; only training updates its state."""
        state, arguments = methods.observe(
            self.bound,
            self.controller_state,
            solve_rate=(rewards == self.reward_correct).float().mean().item(),
            entropy=surprise.mean().item(),
            step=self.state.global_step + 1,
        )
        if self.model.training:
            self.controller_state = state
        return arguments

    # ---- loss

    def _prepare_inputs(self, generation_batch):
        inputs = super()._prepare_inputs(generation_batch)
        if not self.model.training:
            self.weigh_mini_batch([inputs])
        else:
            if self._window_left == 0:
                self._window_left = self.current_gradient_accumulation_steps
                start = self._step % self.args.steps_per_generation
                self.weigh_mini_batch(
                    self._buffered_inputs[start : start + self._window_left], self._window_left
                )
            self._window_left -= 1
        return inputs

    def weigh_mini_batch(self, micros: list[dict], expected: int = 1) -> None:
        """Compute the weights of all responses of one optimiser step and give every micro-batch its
        rows of them."""
        if len(micros) != expected:
            raise UserError(
                f"gradient_accumulation_steps={expected}: an optimiser step must use one rollout; "
                "make steps_per_generation a multiple of it"
            )
        sizes = [len(micro["completion_ids"]) for micro in micros]
        mask = torch.cat([_mask(micro) for micro in micros])
        made = {"loss_weights": self.bound.aggregate(mask)}
        if self.bound.token_weights is not None:
            with torch.no_grad():
                log_prob = torch.cat([self._log_prob(self.model, micro)[0] for micro in micros])
            old = log_prob
            if "old_per_token_logps" in micros[0]:
                old = torch.cat([micro["old_per_token_logps"] for micro in micros])
            advantages = torch.cat([micro["advantages"] for micro in micros])[:, None]
            made["token_weights"] = self.bound.token_weights(log_prob, old, advantages, mask)
        for name, whole in made.items():
            for micro, part in zip(micros, whole.split(sizes), strict=True):
                micro[name] = part

    def _with_top_tokens(self, model, inputs: dict) -> tuple[torch.Tensor, ...]:
        """Return what `_log_prob` returns and what `with_top` adds, from a forward pass made here:
        TRL's forward pass returns no logits."""
        ids = inputs["completion_ids"]
        logits = model(
            input_ids=torch.cat([inputs["prompt_ids"], ids], 1),
            attention_mask=torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1),
            logits_to_keep=ids.shape[1] + 1,  # the last predicts what follows the response
            use_cache=False,
        ).logits
        return with_top(logits[:, :-1], ids, self.temperature, methods.top_K(self.bound))

    def _log_prob(self, model, inputs: dict) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the log-probability and entropy of each completion token, (B, T), from TRL's own
        forward pass."""
        log_prob, entropy, _ = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1),
            inputs["completion_ids"].shape[1],
            compute_entropy=True,
        )
        return log_prob, entropy

    def _compute_loss(self, model, inputs):
        mask = _mask(inputs)
        more = {}
        if methods.top_K(self.bound):
            log_prob, entropy, top, drawn_top = self._with_top_tokens(model, inputs)
            more = {"top_log_prob": top, "drawn_top": drawn_top}
        else:
            log_prob, entropy = self._log_prob(model, inputs)
        more = methods.of_tokens(self.bound, entropy=entropy.detach(), **more)
        old = inputs.get("old_per_token_logps")  # TRL leaves it out where it equals log_prob
        old = log_prob.detach() if old is None else old
        if self.bound.token_weights is not None:
            more["token_weights"] = inputs["token_weights"]
        loss, clipped = self.bound.loss(log_prob, old, inputs["advantages"][:, None], mask, **more)
        logged = {"entropy": entropy, "clip_ratio/region_mean": clipped}
        if self.method.entropy_coef > 0:
            loss = loss - self.method.entropy_coef * entropy
        if self.method.kl_coef > 0:
            logged["kl"] = self.bound.kl(log_prob, inputs["ref_per_token_logps"])
            loss = loss + self.method.kl_coef * logged["kl"]
        metrics = self._metrics["train" if self.model.training else "eval"]
        for name, values in logged.items():
            metrics[name].append(values.detach()[mask > 0].float().mean().item())
        return torch.where(mask > 0, loss * inputs["loss_weights"], 0.0).sum()

    # ---- the controller's state goes with the checkpoint

    def _save_checkpoint(self, model, trial):
        super()._save_checkpoint(model, trial)
        folder = Path(self._get_output_dir(trial)) / f"checkpoint-{self.state.global_step}"
        (folder / STATE).write_text(json.dumps(self.controller_state))

    def _load_optimizer_and_scheduler(self, checkpoint):
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self.controller_state = json.loads((Path(checkpoint) / STATE).read_text())


def _mask(inputs: dict) -> torch.Tensor:
    """Return 1.0 on tokens that the policy wrote, (B, T), and 0.0 on padding and tool output."""
    mask = inputs["completion_mask"]
    return (mask * inputs["tool_mask"] if "tool_mask" in inputs else mask).float()
