"""An Experiment as verl's own configuration: `settings` fills in settings.yaml, and `compose` lays
it over verl's YAML tree without importing verl, so a dry run shows exactly what a run will use."""

import importlib.util
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf, open_dict

from common.backends import snapshots
from common.backends.verl import tuning
from common.backends.verl.layout import BATCHED, PACKED, SEQUENCES, STORAGE_UNITS, check_shares
from common.config.schema import Method
from common.errors import UserError, require
from common.experiment import Experiment
from common.methods import rate

SETUP = "make setup-cluster (GPUs) or make setup-cluster-cpu makes an environment that has it"
NAME = "rlvr"  # of our estimator and loss in verl (plugin.py)
WEIGHTED = "common.losses.covariance.weighted_ppo_clip"  # on w_t A it is CLIPPED's loss
CLIPPED = "common.losses.clip.ppo_clip"
REPOSITORY = "common.losses.covariance.cw_grpo_repository"
# Our weights on a mini-batch's mask do what verl's agg_loss does with its global counts.
AGG_MODES = {
    "common.losses.aggregate.token_mean": "token-mean",
    "common.losses.aggregate.sequence_mean_token_mean": "seq-mean-token-mean",
    "common.losses.aggregate.token_sum": "seq-mean-token-sum-norm",
}
LOSS = "actor_rollout_ref.actor.policy_loss"
RATIO = "algorithm.rollout_correction.rollout_is"
NEW = (  # keys that verl's tree leaves to the user; any other unknown key is an error
    "algorithm.method",
    "algorithm.reward_correct",
    "algorithm.controller",
    "algorithm.clock",
    "algorithm.token_weights",
    "algorithm.covariances",
    "algorithm.decay_over",
    "algorithm.log_prob_temperature",
    f"{LOSS}.method",
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

    device: str  # cuda; cpu where GPUs are pretended (stand_in.py)
    nodes: int
    gpus: int  # for each node
    cpus: int | None  # the CPUs that Ray may use; None: all that it sees, or those of a job's Ray
    work: Path  # parquet files, checkpoints, validation samples, logs
    model: str  # folder or hub id


def settings(
    x: Experiment, place: Place, prompt_tokens: int, context: int, launch: dict
) -> dict[str, object]:
    """Return every key that we set in verl's configuration (settings.yaml), for prompts of at most
    `prompt_tokens` and a model that reads `context` tokens. `launch` holds the trainer keys of
    backend.launch_settings. Raises UserError for what verl cannot do, with the key to change."""
    check(x, nodes=place.nodes, gpus=place.gpus)
    length = max(x.sampling.max_tokens, x.eval.max_tokens)
    total = min(prompt_tokens + length, context)  # data.py gives long prompts shorter responses
    trained = min(prompt_tokens + x.sampling.max_tokens, context)
    mini = x.sampling.prompts // x.optim.mini_batches
    other_temperature = x.sampling.reported != x.sampling.temperature
    cap = x.method.sampler.importance_cap if x.method.sampler else None
    values = {
        "x": asdict(x) | {"run_id": x.run_id},
        "place": {name: getattr(place, name) for name in ("nodes", "gpus", "cpus", "device")},
        "folder": str(Path(__file__).parent),
        "name": NAME,
        "work": str(place.work),
        "model": place.model,
        "prompt_tokens": prompt_tokens,
        "length": length,
        "total": total,
        "dynamic": x.sampling.dynamic_batches > 1,
        "aggregation": AGG_MODES[x.method.aggregation["_target_"]],
        "max_tokens": x.method.aggregation.get("max_tokens"),
        "use_kl_loss": x.method.kl_coef > 0 and not x.method.kl_in_reward,
        "mini": mini,
        "pass_tokens": max(PACKED, 2 * trained),
        "lr": learning_rate(x),
        "scheduler": "cosine" if x.optim.decay_over else "constant",
        # bfloat16's nearest: 0.7 becomes 0.69921875
        "temperature": torch.tensor(x.sampling.temperature, dtype=torch.bfloat16).item(),
        "log_prob_temperature": x.sampling.reported if other_temperature else None,
        "logprobs_mode": "raw_logprobs" if other_temperature else "processed_logprobs",
        "sequences": SEQUENCES,
        "batched": max(BATCHED, total),
        "units": STORAGE_UNITS * place.nodes,
        "keep_models": snapshots.steps(x),
    }
    template = OmegaConf.load(Path(__file__).with_name("settings.yaml"))
    keys = tuning.flat(OmegaConf.to_container(template))
    filled = OmegaConf.merge(OmegaConf.create(values, flags={"allow_objects": True}), template)
    return {
        **{key: OmegaConf.select(filled, key) for key in keys},
        **parts(x.method, x.sampling.group_size),
        f"{LOSS}.method": loss(x.method),
        "reward.custom_reward_function.reward_kwargs": {
            "described": str(place.work / "judge.json")
        },
        # min(pi_theta / pi_sample, cap) multiplies each token's loss
        **({RATIO: "token", f"{RATIO}_threshold": cap} if cap is not None else {}),
        **launch,
    }


def learning_rate(x: Experiment) -> float:
    """Return optim.lr, equalised by `optim.equalise_to` (FADE Table 2) as at the first step."""
    bound = x.bound
    return rate.equalised(
        x.optim.lr,
        bound,
        to=x.optim.equalise_to,
        group_size=x.sampling.group_size,
        reward=x.reward,
        arguments=rate.at_start(bound),
    )


def parts(method: Method, group_size: int) -> dict[str, dict]:
    """Return what the estimator and our trainer read of a method: key -> function and arguments."""
    node = dict(method.token_weights or {})
    if method.loss["_target_"] == REPOSITORY:
        target = "common.backends.verl.repository.cw_grpo_repository_weights"
        node = {"_target_": target, "group_size": group_size}
    found = {"method": method.advantage, "controller": method.controller, "token_weights": node}
    return {f"algorithm.{key}": _function(part) for key, part in found.items()}


def loss(method: Method) -> dict:
    """Return the function and arguments of the method's loss: ppo_clip where our trainer has
    weighted the advantages, also for the repository's loss, whose only step reaches no clip."""
    found = _function(method.loss)
    never = {"eps_low": 0.2, "eps_high": 0.2} if found["function"] == REPOSITORY else {}
    weighted = method.token_weights or never
    return found | never | {"function": CLIPPED} if weighted else found


def check(x: Experiment, *, nodes: int, gpus: int) -> None:
    """Raise UserError for what verl cannot do on `nodes` nodes with `gpus` GPUs each."""
    check_shares(x, nodes=nodes, gpus=gpus)
    sampler = x.method.sampler
    remedy = "verl drops the groups that dynamic sampling evicts before a memory network could "
    remedy += "learn them; use kept, or backend=local"
    fits = sampler is None or sampler.remember == "kept" or x.sampling.dynamic_batches == 1
    require(fits, "method.sampler.remember", "all", remedy)
    aggregation = x.method.aggregation["_target_"]
    known = f"verl knows {list(AGG_MODES)}"
    require(aggregation in AGG_MODES, "method.aggregation._target_", aggregation, known)
    for part in ("advantage", "loss", "controller"):
        target = (getattr(x.method, part) or {}).get("_target_", "")
        remedy = "verl's processes start in other folders; name the function by its module"
        require(".py:" not in target, f"method.{part}._target_", target, remedy)
    if not parts(x.method, x.sampling.group_size)["algorithm.token_weights"]:
        return
    # trainer.py multiplies the advantages with the weights before verl packs, so no result depends
    # on the number of GPUs; a second optimiser step's would be those of an outdated policy
    target, why = x.method.loss["_target_"], "backend=verl computes token weights once a rollout, "
    if target == REPOSITORY:
        said = f"with {target} backend=verl computes only sequence_mean_token_mean"
        mean = aggregation.endswith(".sequence_mean_token_mean")
        require(mean, "method.aggregation._target_", aggregation, said)
    require(
        x.optim.mini_batches == 1,
        "optim.mini_batches",
        x.optim.mini_batches,
        f"{why}before it packs; set it to 1, or use backend=local",
    )
    require(
        target in (WEIGHTED, REPOSITORY),
        "method.loss._target_",
        target,
        f"{why}and puts them into the advantages, which only {WEIGHTED} allows; use backend=local",
    )


def _function(node: dict | None) -> dict:
    """Return a part of a method for plugin.py; at `_target_` verl would have Hydra call it."""
    return {"function" if key == "_target_" else key: value for key, value in (node or {}).items()}


def tree() -> Path:
    """Return verl's folder of YAML files. Raises UserError where verl is not installed."""
    spec = importlib.util.find_spec("verl")  # does not import it
    if spec is None or spec.origin is None:
        raise UserError(f"backend=verl: verl is not installed in this environment; {SETUP}")
    return Path(spec.origin).parent / "trainer" / "config"


@cache
def defaults() -> DictConfig:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    GlobalHydra.instance().clear()
    with initialize_config_dir(str(tree()), version_base=None):
        return hydra_compose("ppo_trainer")


def compose(changes: dict[str, object]) -> DictConfig:
    """Return verl's configuration with `changes`. Raises UserError for a key that it lacks."""
    config = deepcopy(defaults())
    with open_dict(config):
        for key, value in changes.items():
            parent, _, name = key.rpartition(".")
            node = OmegaConf.select(config, parent)
            remedy = f"this version of verl has no such key; it was written for 0.9.1, {SETUP}"
            fits = key in NEW or (isinstance(node, DictConfig) and name in node.keys())  # noqa: SIM118
            require(fits, key, value, remedy)
            OmegaConf.update(config, key, value, force_add=True)
    return config
