"""`verl.KEY=VALUE`, on a command line or in a profile: keys of verl's own configuration that change
only memory and speed, so they are no part of a run's id. The experiment decides all other keys."""

from typing import Any

from common.errors import UserError, require, unknown
from common.experiment import Experiment

ACTOR, REF, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout"))
KINDS = {  # kind -> (its description, whether a value is of this kind)
    "share": ("between 0 and 1", lambda v: type(v) in (int, float) and 0 < v < 1),
    "count": ("a whole number, at least 1", lambda v: type(v) is int and v >= 1),
    "switch": ("true or false", lambda v: type(v) is bool),
}
PASS = f"{ACTOR}.ppo_max_token_len_per_gpu"
SEQUENCE = f"{ACTOR}.ulysses_sequence_parallel_size"  # GPUs that share each sequence (Ulysses)
STORE = "ray_kwargs.ray_init.object_store_memory"
TUNABLE = {
    # FSDP: where weights and optimiser are while vLLM samples; with offload_policy always on the
    # CPU
    f"{ACTOR}.fsdp_config.param_offload": "switch",
    f"{ACTOR}.fsdp_config.optimizer_offload": "switch",
    f"{ACTOR}.fsdp_config.offload_policy": "switch",
    f"{ACTOR}.fsdp_config.reshard_after_forward": "switch",
    f"{ACTOR}.fsdp_config.forward_prefetch": "switch",
    # passes: their tokens on each GPU, what is computed again, what is kept
    PASS: "count",
    SEQUENCE: "count",
    f"{ACTOR}.entropy_from_logits_with_chunking": "switch",
    f"{ACTOR}.entropy_checkpointing": "switch",
    f"{ACTOR}.use_torch_compile": "switch",
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu": "count",
    f"{REF}.log_prob_max_token_len_per_gpu": "count",
    "actor_rollout_ref.model.enable_gradient_checkpointing": "switch",
    "actor_rollout_ref.model.enable_activation_offload": "switch",
    # vLLM
    f"{ROLLOUT}.gpu_memory_utilization": "share",
    f"{ROLLOUT}.tensor_model_parallel_size": "count",
    f"{ROLLOUT}.max_num_seqs": "count",
    f"{ROLLOUT}.max_num_batched_tokens": "count",
    f"{ROLLOUT}.enforce_eager": "switch",
    f"{ROLLOUT}.free_cache_engine": "switch",
    f"{ROLLOUT}.enable_chunked_prefill": "switch",
    f"{ROLLOUT}.enable_prefix_caching": "switch",
    f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": "count",
    # processes
    f"{ROLLOUT}.agent.num_workers": "count",
    "reward.num_workers": "count",
    STORE: "count",
}
OURS = {  # what the experiment decides: the start of verl's key, and what to set instead
    "algorithm.": "method=NAME",
    "data.": "sampling.prompts, sampling.max_tokens, eval.max_tokens, seed or data",
    "reward.custom": "data.verifier",
    "trainer.": "optim.steps, checkpoint_every, eval.every, device, wandb or the profile's nodes",
    "actor_rollout_ref.model.path.": "model.path",
    "actor_rollout_ref.model.lora": (
        "nothing: LoRA trains a small part of the weights, and the papers trained all of them; "
        "docs/cluster-week.md, Memory, has what saves memory without changing the result"
    ),
    f"{ACTOR}.policy_loss.": "method=NAME, method.loss or method.token_weights",
    f"{ACTOR}.optim.": "optim.betas, optim.weight_decay or optim.grad_clip",
    f"{ACTOR}.optim.lr.": "optim.lr",
    f"{ACTOR}.optim.lr_": "optim.warmup_steps",
    f"{ACTOR}.ppo_mini_batch_size.": "optim.mini_batches",
    f"{ACTOR}.ppo_micro_batch_size": "optim.micro_batch",
    f"{ACTOR}.ppo_epochs.": "nothing: as in the papers, a rollout is passed over once",
    f"{ACTOR}.loss_": "method.aggregation",
    f"{ACTOR}.entropy_coeff.": "method.entropy_coef",
    f"{ACTOR}.use_kl_loss.": "method.kl_coef",
    f"{ACTOR}.kl_loss_coef.": "method.kl_coef",
    f"{ACTOR}.kl_loss_type.": "method.kl_estimator",
    f"{ACTOR}.clip_ratio": "method.loss",
    f"{ACTOR}.data_loader_seed.": "seed",
    f"{REF}.log_prob_micro_batch_size": "optim.micro_batch",
    f"{ROLLOUT}.log_prob_micro_batch_size": "optim.micro_batch",
    f"{ROLLOUT}.n.": "sampling.group_size",
    f"{ROLLOUT}.temperature.": "sampling.temperature",
    f"{ROLLOUT}.top_": "nothing: as in the papers, responses come from the whole distribution",
    f"{ROLLOUT}.seed.": "seed",
    f"{ROLLOUT}.max_model_len.": "sampling.max_tokens or eval.max_tokens",
    f"{ROLLOUT}.val_kwargs.": "eval.n or eval.temperature",
}


def sequence_parallel(keys: dict[str, Any]) -> int:
    """Return the number of GPUs that share each sequence in training, 1 if the keys do not set
    it."""
    return keys.get(SEQUENCE, 1)


def chosen(x: Experiment) -> dict[str, object]:
    """Return the keys of the experiment's own `verl:` block, as `tuned` does."""
    return tuned(x.verl)


def tuned(given: dict) -> dict[str, object]:
    """Return the keys of a `verl:` block, nested or dotted, as {dotted key of verl: value}.

    Raises UserError for a key that the experiment decides, with the experiment's own key in the
    message, for any other key that is not in `TUNABLE`, and for a value of the wrong kind.
    """
    found = _flat(given)
    for key, value in found.items():
        if key not in TUNABLE:
            raise _refused(key, value)
        wanted, fits = KINDS[TUNABLE[key]]
        require(fits(value), f"verl.{key}", value, f"must be {wanted}")
    return found


def _refused(key: str, value: object) -> UserError:
    starts = [start for start in OURS if f"{key}.".startswith(start)]
    if not starts:
        return unknown(key, value, TUNABLE, "verl.")
    return UserError(
        f"verl.{key}={value}: is no matter of memory or speed alone; set "
        f"{OURS[max(starts, key=len)]}"
    )


def _flat(given: dict, prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in given.items():
        inside = isinstance(value, dict)
        found |= _flat(value, f"{prefix}{key}.") if inside else {prefix + str(key): value}
    return found
