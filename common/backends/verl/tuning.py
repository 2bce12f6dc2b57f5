"""`verl.KEY=VALUE`, on a command line or in a profile: verl's keys that change only memory, speed
and the order of sums, so they are no part of a run's id. The experiment decides all other keys."""

from typing import Any

from common.errors import require

ACTOR, REF, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout"))
KINDS = {  # kind -> (its description, whether a value is of this kind)
    "share": ("between 0 and 1", lambda v: type(v) in (int, float) and 0 < v < 1),
    "count": ("a whole number, at least 1", lambda v: type(v) is int and v >= 1),
    "switch": ("true or false", lambda v: type(v) is bool),
}
PASS = f"{ACTOR}.ppo_max_token_len_per_gpu"
SEQUENCE = f"{ACTOR}.ulysses_sequence_parallel_size"  # GPUs that share each sequence (Ulysses)
DETERMINISM = f"{ROLLOUT}.full_determinism"
STORE = "ray_kwargs.ray_init.object_store_memory"
TUNABLE = {
    # FSDP: where weights and optimiser are while vLLM samples; offload_policy: always on the CPU
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
    # two runs alike, also of FSDP (settings.yaml): slower; docs/cluster.md says what it gives
    DETERMINISM: "switch",
    # processes
    f"{ROLLOUT}.agent.num_workers": "count",
    "reward.num_workers": "count",
    "actor_rollout_ref.nccl_timeout": "count",
    STORE: "count",
}


def sequence_parallel(keys: dict[str, Any]) -> int:
    return keys.get(SEQUENCE, 1)


def tuned(given: dict) -> dict[str, object]:
    """Return a `verl:` block, nested or dotted, as {dotted key of verl: value}. Raises UserError
    for a key that is not in `TUNABLE` and for a value of the wrong kind."""
    found = flat(given)
    for key, value in found.items():
        remedy = "is not known to change only memory and speed; set the experiment's own key "
        remedy += f"(optim, sampling, eval, method, data), or one of {', '.join(TUNABLE)}"
        require(key in TUNABLE, f"verl.{key}", value, remedy)
        wanted, fits = KINDS[TUNABLE[key]]
        require(fits(value), f"verl.{key}", value, f"must be {wanted}")
    return found


def flat(given: dict, prefix: str = "") -> dict[str, object]:
    """Return the values of nested mappings by their dotted keys."""
    found: dict[str, object] = {}
    for key, value in given.items():
        inside = isinstance(value, dict)
        found |= flat(value, f"{prefix}{key}.") if inside else {prefix + str(key): value}
    return found
