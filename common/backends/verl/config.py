"""An Experiment as verl's own configuration: `settings` is the whole mapping, one line a key.

`compose` lays it over verl's YAML tree, which is found without importing verl (half a second, no
GPU), so a dry run shows exactly what a run will use. Keys that are not named here keep verl's
default.
"""

import importlib.util
import struct
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from common.backends import snapshots
from common.backends.verl import methods, tuning
from common.backends.verl.layout import BATCHED, SEQUENCES, STORAGE_UNITS
from common.config.schema import Correction
from common.errors import UserError, require
from common.experiment import Experiment
from common.methods import rate

SETUP = "make setup-cluster (GPUs) or make setup-cluster-cpu makes an environment that has it"
WEIGHTED = "common.losses.covariance.weighted_ppo_clip"  # on w_t A it is CLIPPED's loss
CLIPPED = "grpo"
REPOSITORY = "common.losses.covariance.cw_grpo_repository"
# Token weights that look at one response alone: they do not depend on what verl packs beside it.
ALONE = ("common.losses.polarity.a3po",)
LOSS = "actor_rollout_ref.actor.policy_loss"
FP32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
NEW = (  # keys that verl's tree leaves to the user; any other unknown key is an error
    "algorithm.method",
    "algorithm.reward_correct",
    "algorithm.controller",
    "algorithm.clock",
    "algorithm.token_weights",
    "algorithm.covariances",
    f"{LOSS}.method",
    f"{LOSS}.token_weights",
    f"{LOSS}.aggregation",
    "actor_rollout_ref.model.override_config.attn_implementation",
    "actor_rollout_ref.actor.fsdp_config.mixed_precision",
    "actor_rollout_ref.ref.fsdp_config.mixed_precision",
    "actor_rollout_ref.rollout.enable_sleep_mode",
    "data.curve_n",
    "trainer.keep_models",
    "trainer.v1.sampler.sampler_kwargs.batches",
    "actor_rollout_ref.rollout.engine_kwargs.memory",
    "actor_rollout_ref.rollout.engine_kwargs.vllm.hf_overrides",
    "actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls",
    "reward.custom_reward_function.reward_kwargs",
    "ray_kwargs.ray_init.num_gpus",
    "ray_kwargs.ray_init.include_dashboard",
    "ray_kwargs.ray_init.object_store_memory",
)


@dataclass(frozen=True)
class Place:
    """The machine and folders of a run; no result depends on them, up to rounding."""

    device: str  # cpu, cuda
    nodes: int
    gpus: int  # for each node; on a CPU one GPU that does not exist
    cpus: int | None  # the CPUs that Ray may use; None: all that it sees
    work: Path  # parquet files, checkpoints, validation samples, logs
    model: str  # folder or hub id
    joins: bool = False  # joins the Ray cluster at RAY_ADDRESS, whose sizes are set already


def settings(
    x: Experiment, place: Place, prompt_tokens: int, context: int, launch: dict
) -> dict[str, object]:
    """Return every key that we set in verl's configuration, for prompts of at most `prompt_tokens`
    tokens and a model that reads at most `context` tokens.

    `launch` holds the trainer keys that depend on how far the run is (backend.launch_settings).
    Units in the comments: "prompts" count groups, "responses" count prompts x group_size; both are
    over all GPUs unless a comment says "a GPU". Sources are in brackets; [x] is the experiment's
    key. Raises UserError for what verl cannot do, with the key to change.
    """
    check(x, nodes=place.nodes, gpus=place.gpus)
    cpu = place.device == "cpu"
    length = max(x.sampling.max_tokens, x.eval.max_tokens)
    total = min(prompt_tokens + length, context)  # data.py gives long prompts shorter responses
    trained = min(prompt_tokens + x.sampling.max_tokens, context)
    mini = x.sampling.prompts // x.optim.mini_batches
    micro = _micro_batch(x, mini, place)
    work, mode = place.work, methods.verls_mode(x.method.aggregation["_target_"])
    weights = _weights(x)
    return {
        # -- data
        "data.train_files": str(work / "train.parquet"),
        "data.val_files": str(work / "val.parquet"),
        "data.train_batch_size": x.sampling.prompts,  # prompts a step [sampling.prompts]
        "data.max_prompt_length": prompt_tokens,  # tokens; the longest prompt, none is cut
        # tokens; room for training and evaluation, each row carries its own limit (agent.py)
        "data.max_response_length": length,
        "data.truncation": "error",
        "data.shuffle": True,  # epochs without replacement, as in the local backend
        "data.seed": x.seed,  # [seed]
        "data.dataloader_num_workers": 0,  # rows are small, and workers would hold the processes
        # samples a problem in evaluations before the last; read by our trainer
        "data.curve_n": x.eval.curve_n,
        # -- method (plugin.py computes it; verl's clip_ratio* are not used)
        "algorithm.adv_estimator": methods.PREFIX + x.method.name,
        "algorithm.method": _arguments(x, "advantage"),  # [method.advantage]
        "algorithm.reward_correct": x.reward.correct,  # [reward.correct]
        "algorithm.controller": _arguments(x, "controller"),  # [method.controller]
        "algorithm.clock": x.method.clock,  # [method.clock]
        "algorithm.use_kl_in_reward": x.method.kl_in_reward,  # [method.kl_in_reward]
        "algorithm.kl_penalty": x.method.kl_estimator,  # [method.kl_estimator]
        "algorithm.kl_ctrl.kl_coef": x.method.kl_coef,  # [method.kl_coef], fixed
        # DAPO's dynamic sampling [sampling.dynamic_batches]; our buffer limits it (sampling.py)
        "algorithm.filter_groups.enable": x.sampling.dynamic_batches > 1,
        "trainer.v1.sampler.sampler_kwargs.batches": x.sampling.dynamic_batches,
        "algorithm.filter_groups.metric": "reward",
        f"{LOSS}._target_": "common.backends.verl.plugin.MethodLossConfig",
        f"{LOSS}.loss_mode": methods.PREFIX + loss_method(x),  # this method's loss
        f"{LOSS}.method": _arguments(x, "loss"),  # [method.loss]
        # [method.token_weights] if they look at one response; our trainer computes all others
        f"{LOSS}.token_weights": {} if weights else _arguments(x, "token_weights"),
        "algorithm.token_weights": weights,
        "algorithm.covariances": x.covariances,  # whether they are logged; read by our trainer
        f"{LOSS}.aggregation": mode,  # read by plugin.py
        "actor_rollout_ref.actor.loss_agg_mode": mode,  # [method.aggregation]
        "actor_rollout_ref.actor.loss_scale_factor": x.method.aggregation.get("max_tokens"),
        "actor_rollout_ref.actor.entropy_coeff": x.method.entropy_coef,
        "actor_rollout_ref.actor.use_kl_loss": x.method.kl_coef > 0 and not x.method.kl_in_reward,
        "actor_rollout_ref.actor.kl_loss_coef": x.method.kl_coef,
        "actor_rollout_ref.actor.kl_loss_type": x.method.kl_estimator,
        # -- optimiser
        "actor_rollout_ref.actor.ppo_mini_batch_size": mini,  # prompts an optimiser step
        "actor_rollout_ref.actor.ppo_epochs": 1,  # F-GRPO Table 5; the local backend's only one
        "actor_rollout_ref.actor.shuffle": False,
        "actor_rollout_ref.actor.data_loader_seed": x.seed,
        "actor_rollout_ref.actor.optim.lr": learning_rate(x),  # [optim.lr], equalised
        # steps; verl's step k has (k - 1) / warm-up of the rate, the local backend's k / warm-up
        "actor_rollout_ref.actor.optim.lr_warmup_steps": x.optim.warmup_steps,
        "actor_rollout_ref.actor.optim.lr_scheduler_type": "constant",
        "actor_rollout_ref.actor.optim.betas": list(x.optim.betas),
        "actor_rollout_ref.actor.optim.weight_decay": x.optim.weight_decay,
        "actor_rollout_ref.actor.optim.clip_grad": x.optim.grad_clip,
        # -- memory: what one pass holds, never the result
        "actor_rollout_ref.actor.strategy": "fsdp2",  # F-GRPO App. H.2
        "actor_rollout_ref.actor.use_dynamic_bsz": not cpu,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": micro,  # responses a GPU
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": max(16_384, 2 * trained),  # a GPU
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": micro,  # responses a GPU
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": micro,  # responses a GPU
        "actor_rollout_ref.actor.fsdp_config.seed": x.seed,
        # gradients are summed over the GPUs in every pass and kept sharded; verl's YAML has this
        # value too, but its dataclass has the opposite, which keeps whole gradients between passes
        "actor_rollout_ref.actor.fsdp_config.use_no_sync_for_gradient_accumulation": False,
        # -- model
        "actor_rollout_ref.model.path": place.model,
        "actor_rollout_ref.model.use_remove_padding": not cpu,  # needs flash-attn
        "actor_rollout_ref.model.enable_gradient_checkpointing": not cpu,
        # -- rollout
        "actor_rollout_ref.rollout.name": "vllm",  # F-GRPO trained with SGLang (App. H.2)
        "actor_rollout_ref.rollout.n": x.sampling.group_size,  # responses a prompt
        # [sampling.temperature] verl casts it to the type of the logits before it divides them.
        # vLLM does not, so it gets the number that is already rounded
        "actor_rollout_ref.rollout.temperature": (
            x.sampling.temperature if cpu else in_bfloat16(x.sampling.temperature)
        ),
        "actor_rollout_ref.rollout.top_p": 1.0,  # F-GRPO Table 5
        "actor_rollout_ref.rollout.top_k": -1,  # F-GRPO Table 5
        "actor_rollout_ref.rollout.seed": x.seed,
        "actor_rollout_ref.rollout.max_model_len": total,  # tokens
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,  # models up to 8 B fit one GPU
        "actor_rollout_ref.rollout.gpu_memory_utilization": 0.6,  # the rest is FSDP's
        "actor_rollout_ref.rollout.max_num_seqs": 64 if cpu else SEQUENCES,  # of an engine at once
        "actor_rollout_ref.rollout.max_num_batched_tokens": max(BATCHED, total),  # a GPU
        "actor_rollout_ref.rollout.calculate_log_probs": True,  # kept with the samples
        "actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls": (
            "common.backends.verl.extension.Extension"
        ),
        # the prompt's own tokens, no chat template (agent.py)
        "actor_rollout_ref.rollout.agent.default_agent_loop": "raw_prompt",
        "actor_rollout_ref.rollout.agent.agent_loop_config_path": str(
            Path(__file__).with_name("agent.yaml")
        ),
        "actor_rollout_ref.rollout.agent.num_workers": 1 if cpu else 8,  # processes
        # -- reward: our verifier (reward.py)
        "reward.custom_reward_function.path": "pkg://common.backends.verl.reward",
        "reward.custom_reward_function.name": "judge",
        "reward.custom_reward_function.reward_kwargs": {"described": str(work / "judge.json")},
        # processes, each with a pool of verification.workers
        "reward.num_workers": 1 if cpu else 8,
        # -- validation: our evaluation, counted by us from the samples
        "actor_rollout_ref.rollout.val_kwargs.n": x.eval.n,  # after the last step
        "actor_rollout_ref.rollout.val_kwargs.temperature": x.eval.temperature,
        "actor_rollout_ref.rollout.val_kwargs.top_p": 1.0,  # F-GRPO Table 7
        "actor_rollout_ref.rollout.val_kwargs.top_k": -1,
        "actor_rollout_ref.rollout.val_kwargs.do_sample": True,
        "trainer.validation_data_dir": str(work / "validation"),
        # no cap on samples; verl's own cap of 100,000 ends a run at its last step if the evaluation
        # has more
        "transfer_queue.backend.SimpleStorage.total_storage_size": None,
        # processes over all nodes
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": STORAGE_UNITS * place.nodes,
        "trainer.test_freq": x.eval.every,  # steps; the last is always evaluated
        # -- trainer
        "trainer.total_training_steps": x.optim.steps,  # rollouts
        "trainer.total_epochs": 1_000_000,  # total_training_steps ends the run before
        # steps; our trainer also saves at steps whose model is kept, and verl at the last step
        "trainer.save_freq": x.checkpoint_every,
        "trainer.keep_models": snapshots.steps(x),  # read by our trainer
        "trainer.max_actor_ckpt_to_keep": 2,  # the old one stays until the new one is whole
        "trainer.default_local_dir": str(work / "checkpoints"),
        "trainer.resume_mode": "auto",
        "trainer.logger": ["console", "file"],
        "trainer.project_name": x.paper,
        "trainer.experiment_name": x.run_id,
        "trainer.nnodes": place.nodes,
        "trainer.n_gpus_per_node": place.gpus,
        "trainer.device": place.device,
        "ray_kwargs.ray_init.num_cpus": place.cpus,
        "ray_kwargs.ray_init.include_dashboard": False,
        **launch,
        **_importance(x),
        **(_on_cpu(place) if cpu else {}),
    }


def _on_cpu(place: Place) -> dict[str, object]:
    """Return the keys of a run on a CPU: float32 throughout, so that the numbers can be compared
    with the local backend's."""
    own_ray = {
        "ray_kwargs.ray_init.num_cpus": 16,  # only counted: each of verl's actors reserves one
        "ray_kwargs.ray_init.num_gpus": place.gpus,  # these do not exist; each gets a process
        "ray_kwargs.ray_init.object_store_memory": 200_000_000,  # bytes
    }
    return {
        "actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        "actor_rollout_ref.actor.use_torch_compile": False,
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile": False,
        # fsdp_config.dtype alone leaves bfloat16 autocast on
        "actor_rollout_ref.actor.fsdp_config.mixed_precision": FP32,
        "actor_rollout_ref.actor.fsdp_config.dtype": "float32",
        "actor_rollout_ref.ref.fsdp_config.mixed_precision": FP32,
        "actor_rollout_ref.ref.fsdp_config.dtype": "float32",
        "actor_rollout_ref.rollout.dtype": "float32",
        "actor_rollout_ref.rollout.enforce_eager": True,
        "actor_rollout_ref.rollout.free_cache_engine": False,
        "actor_rollout_ref.rollout.enable_sleep_mode": False,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,  # processes
        **({} if place.joins else own_ray),
    }


def _importance(x: Experiment) -> dict[str, object]:
    """Return the keys of the factor that multiplies each token's loss (schema.Correction)
    [sampling.correction]. If a memory network takes part in sampling and has a cap, the factor is
    min(pi_theta / pi_sample, cap) [method.sampler.importance_cap]. verl's default is no factor."""
    correction, sampler = x.sampling.correction, x.method.sampler
    if sampler is not None and sampler.importance_cap is not None:
        correction = Correction(level="token", upper=sampler.importance_cap)
    if correction is None:
        return {}
    lower, upper = correction.lower, correction.upper
    return {
        "algorithm.rollout_correction.rollout_is": correction.level,
        "algorithm.rollout_correction.rollout_is_threshold": (
            upper if lower is None else f"{lower}_{upper}"  # verl spells a mask so
        ),
    }


def in_bfloat16(value: float) -> float:
    """Return the nearest number that bfloat16 can represent: 0.7 becomes 0.69921875."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", rounded))[0]


def learning_rate(x: Experiment) -> float:
    """Return optim.lr, equalised with `optim.equalise_to` (FADE Table 2): one learning rate for the
    whole run. A method with a controller gets the rate of its first step (`rate.at_start`), whereas
    the local backend follows the controller from step to step."""
    bound = x.bound
    return rate.equalised(
        x.optim.lr,
        bound,
        to=x.optim.equalise_to,
        group_size=x.sampling.group_size,
        reward=x.reward,
        arguments=rate.at_start(bound),
    )


def loss_method(x: Experiment) -> str:
    """Return the name of the method whose loss a run uses.

    It is the run's own method, or, if method.loss names the function of another method file, such
    as the dual clip, that other method. It is GRPO, for its clip, if our trainer has weighted the
    advantages. Raises UserError for a loss that is in no method file, and for another method's loss
    beside token weights of one response, which are computed with the method's own loss."""
    if _weights(x):
        return CLIPPED
    target = x.method.loss["_target_"]
    alike = [x.method.name]
    if x.method.token_weights is None:
        alike += [name for name in methods.names() if methods.plain_loss(name)]
    found = (name for name in alike if methods.compose(name).loss["_target_"] == target)
    name = next(found, None)
    if name is None:
        raise UserError(
            f"method.loss._target_={target}: backend=verl registers a loss by its method file; "
            "write configs/method/NAME.yaml with it and choose it with method=NAME"
        )
    return name


def check(x: Experiment, *, nodes: int, gpus: int) -> None:
    """Raise UserError for what verl cannot do on `nodes` nodes with `gpus` GPUs each."""
    node, gpus, shared = gpus, nodes * gpus, tuning.sequence_parallel(tuning.chosen(x))
    require(
        node % shared == 0,
        f"verl.{tuning.SEQUENCE}",
        shared,
        f"must divide the {node} GPU(s) of a node",
    )
    responses = x.sampling.prompts // x.optim.mini_batches * x.sampling.group_size
    require(
        responses % (gpus // shared) == 0,
        "sampling.prompts",
        x.sampling.prompts,
        f"a mini-batch has {responses} responses, which {gpus} GPUs cannot share evenly; change "
        "sampling.prompts, sampling.group_size, optim.mini_batches or the number of GPUs, or let "
        f"GPUs share a sequence: verl.{tuning.SEQUENCE}",
    )
    sampler = x.method.sampler
    require(
        sampler is None or sampler.remember == "kept" or x.sampling.dynamic_batches == 1,
        "method.sampler.remember",
        "all",
        "verl drops the groups that dynamic sampling evicts before a memory network could learn "
        "them; use kept, or backend=local",
    )
    methods.require_in_verl(loss_method(x))
    for part in methods.PART_KEYS:
        if part == "loss" or (part == "token_weights" and _weights(x)):
            continue
        ours = getattr(x.method, part)
        theirs = methods.compose(x.method.name).get(part)
        if (ours or {}).get("_target_") != (theirs or {}).get("_target_"):
            raise UserError(
                f"method.{part}={ours}: backend=verl registers a method by its file; write "
                f"configs/method/NAME.yaml with this {part} and choose it with method=NAME"
            )


def _weights(x: Experiment) -> dict:
    """Return the function and arguments of the token weights that compare responses; empty where
    the method has none.

    trainer.py multiplies the advantages with them before verl packs, so no result depends on the
    number of GPUs. Raises UserError where this would be another method: for a loss that uses the
    weights differently (KL-Cov), and for a second optimiser step a rollout, whose weights would be
    those of an outdated policy."""
    node, loss = dict(x.method.token_weights or {}), x.method.loss["_target_"]
    if loss == REPOSITORY:
        node = {
            "_target_": "common.backends.verl.repository.cw_grpo_repository_weights",
            "group_size": x.sampling.group_size,
        }
        mean, target = "sequence_mean_token_mean", x.method.aggregation["_target_"]
        said = f"with {loss} backend=verl computes {mean} alone"
        require(target.endswith(f".{mean}"), "method.aggregation._target_", target, said)
    if node.get("_target_") in (None, *ALONE):
        return {}
    why = "backend=verl computes weights that compare responses once a rollout, before it packs; "
    require(
        x.optim.mini_batches == 1,
        "optim.mini_batches",
        x.optim.mini_batches,
        f"{why}set it to 1, or use backend=local",
    )
    require(
        loss in (WEIGHTED, REPOSITORY),
        "method.loss._target_",
        loss,
        f"{why}it puts them into the advantages, which is {WEIGHTED} alone; use backend=local",
    )
    return {"function": node.pop("_target_"), **node}


def _arguments(x: Experiment, part: str) -> dict:
    """Return the arguments of one part of the method; plugin.py knows the function by the method's
    name."""
    node = getattr(x.method, part) or {}
    return {key: value for key, value in node.items() if key != "_target_"}


def _micro_batch(x: Experiment, mini: int, place: Place) -> int:
    """Return the responses of one pass on one GPU: the largest divisor of a GPU's part of a
    mini-batch that is at most optim.micro_batch. It is not used where verl packs by tokens
    (GPUs)."""
    ranks = place.nodes * place.gpus // tuning.sequence_parallel(tuning.chosen(x))
    rows = mini * x.sampling.group_size // ranks
    return max(d for d in range(1, rows + 1) if rows % d == 0 and d <= x.optim.micro_batch)


def tree() -> Path:
    """Return verl's folder of YAML files. Raises UserError where verl is not installed."""
    spec = importlib.util.find_spec("verl")  # does not import it
    if spec is None or spec.origin is None:
        raise UserError(f"backend=verl: verl is not installed in this environment; {SETUP}")
    return Path(spec.origin).parent / "trainer" / "config"


@cache
def defaults() -> DictConfig:
    """Return verl's own `ppo_trainer` configuration."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(tree()), version_base=None):
        return hydra_compose("ppo_trainer")


def compose(changes: dict[str, object]) -> DictConfig:
    """Return verl's `ppo_trainer` configuration with `changes`. Raises UserError for a key that the
    installed version of verl does not have."""
    config = deepcopy(defaults())
    with open_dict(config):
        for key, value in changes.items():
            parent, _, name = key.rpartition(".")
            node = OmegaConf.select(config, parent)
            require(
                key in NEW or (isinstance(node, DictConfig) and name in node.keys()),  # noqa: SIM118
                key,
                value,
                f"this version of verl has no such key; it was written for 0.9.1, {SETUP}",
            )
            OmegaConf.update(config, key, value, force_add=True)
    return config
