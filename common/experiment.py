"""The Experiment: one frozen, strict configuration, and the only way to make one.

Values live in `configs/base.yaml`, never here; the classes state types and ranges. An unknown key,
a wrong type or a value out of range raises one `UserError` that names key, value and remedy, before
any compute is spent. `strict` does the same for any other frozen dataclass (a simulation, a theory
sweep).
"""

import difflib
import inspect
from dataclasses import asdict, dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from common.errors import UserError, require
from common.results import config_hash

T = TypeVar("T")


@dataclass(frozen=True)
class Pretrain:
    """A language model made here: random-init Qwen2 trained on demonstrations, cached by its
    hash."""

    demonstrations: int
    epochs: int
    batch_size: int  # sequences an optimiser step
    lr: float  # peak of Muon, on the layers' matrices; linear warm-up, then cosine to zero
    embedding_lr: float  # peak of AdamW, on everything else
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    intermediate_size: int
    initializer_range: float  # standard deviation of the random weights
    rope_theta: float
    seed: int
    # whose demonstrations and words; a default, since configurations stored before it lack the key
    task: Literal["countdown", "expressions"] = "countdown"

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "task":
                continue
            require(
                value >= 0 if field.name == "seed" else value > 0,
                f"model.pretrain.{field.name}",
                value,
                "must be positive",
            )
        require(
            self.hidden_size % self.heads == 0 and self.heads % self.kv_heads == 0,
            "model.pretrain.heads",
            self.heads,
            f"must divide hidden_size={self.hidden_size} and be a multiple of "
            f"kv_heads={self.kv_heads}",
        )


@dataclass(frozen=True)
class Model:
    name: str
    path: str | None  # folder or hub id
    chat: str | None  # markup around the prompts, by its name in common/templates.py
    pretrain: Pretrain | None

    def __post_init__(self):
        require(
            (self.path is None) != (self.pretrain is None),
            "model.path",
            self.path,
            "give either a path (folder or hub id) or a pretrain block, not both and not neither",
        )


def hashed(model: Model) -> dict:
    """What a model's cache folder and the runs on it are named after."""
    found = asdict(model)
    if found["pretrain"] is not None and found["pretrain"]["task"] == "countdown":
        del found["pretrain"]["task"]  # of no concern to the models that were before it
    return found


@dataclass(frozen=True)
class Data:
    name: str
    train: dict[str, Any]  # dotted path to a function that returns list[Prompt], and its arguments
    benchmarks: dict[str, Any]  # benchmark name -> the same
    verifier: dict[str, Any]  # dotted path to (response, reference) -> Verdict


@dataclass(frozen=True)
class Reward:
    correct: float  # R_c
    wrong: float  # R_w

    def __post_init__(self):
        require(
            self.correct > self.wrong, "reward.correct", self.correct, "must exceed reward.wrong"
        )


@dataclass(frozen=True)
class Sampling:
    prompts: int  # P, prompts a step
    group_size: int  # N in F-GRPO, G elsewhere: responses a prompt
    temperature: float
    max_tokens: int  # T_max, response tokens
    dynamic_batches: int  # rollout batches drawn at most to fill a step with mixed groups; 1: off

    def __post_init__(self):
        require(self.prompts > 0, "sampling.prompts", self.prompts, "must be at least 1")
        require(self.group_size > 0, "sampling.group_size", self.group_size, "must be at least 1")
        require(self.temperature > 0, "sampling.temperature", self.temperature, "must be above 0")
        require(self.max_tokens > 0, "sampling.max_tokens", self.max_tokens, "must be at least 1")
        require(
            self.dynamic_batches > 0,
            "sampling.dynamic_batches",
            self.dynamic_batches,
            "must be at least 1",
        )


@dataclass(frozen=True)
class Sampler:
    """A memory network beside the policy (DLC): common/rollout/memory.py."""

    mu: float
    lr: float
    start: Literal["random", "policy"]
    shrink: int  # of the width of a random network
    importance_cap: float | None  # of pi_theta / pi_sample; null: no correction


@dataclass(frozen=True)
class Method:
    """What a paper varies. The dicts name a pure function by `_target_` and give its arguments."""

    name: str
    advantage: dict[str, Any]
    loss: dict[str, Any]
    aggregation: dict[str, Any]
    token_weights: dict[str, Any] | None  # of a whole mini-batch, for losses that take them
    controller: dict[str, Any] | None  # sets arguments of the advantage from step to step
    sampler: Sampler | None  # what draws the responses, where it is not the policy itself
    entropy_coef: float
    kl_coef: float
    kl_estimator: Literal["k1", "k2", "k3"]

    def __post_init__(self):
        require(self.entropy_coef >= 0, "method.entropy_coef", self.entropy_coef, "must be >= 0")
        require(self.kl_coef >= 0, "method.kl_coef", self.kl_coef, "must be >= 0")


@dataclass(frozen=True)
class Optim:
    lr: float
    equalise_to: dict[str, Any] | None  # an advantage whose max |A| over the method's scales lr
    betas: tuple[float, float]
    weight_decay: float
    grad_clip: float
    warmup_steps: int  # rollout steps
    steps: int  # rollout steps; 0 evaluates the base model
    mini_batches: int  # optimiser steps a rollout
    micro_batch: int  # sequences a forward-backward pass: memory only, never the result

    def __post_init__(self):
        require(self.lr > 0, "optim.lr", self.lr, "must be above 0")
        require(
            all(0 <= beta < 1 for beta in self.betas), "optim.betas", self.betas, "each in [0, 1)"
        )
        require(self.weight_decay >= 0, "optim.weight_decay", self.weight_decay, "must be >= 0")
        require(self.warmup_steps >= 0, "optim.warmup_steps", self.warmup_steps, "must be >= 0")
        require(self.grad_clip > 0, "optim.grad_clip", self.grad_clip, "must be above 0")
        require(self.steps >= 0, "optim.steps", self.steps, "must be >= 0")
        require(
            self.mini_batches > 0, "optim.mini_batches", self.mini_batches, "must be at least 1"
        )
        require(self.micro_batch > 0, "optim.micro_batch", self.micro_batch, "must be at least 1")


@dataclass(frozen=True)
class Evaluation:
    n: int  # samples a problem after the last step
    k: list[int]  # the k of pass@k; those above a checkpoint's n are left out of its curve rows
    temperature: float
    max_tokens: int
    every: int  # steps between the checkpoints of the training curve
    curve_n: int  # samples a problem on the curve
    batch: int  # sequences decoded at once
    rare_nll_samples: int  # base-model samples a prompt for F-GRPO App. F.2; 0 leaves it out

    def __post_init__(self):
        require(self.n > 0, "eval.n", self.n, "must be at least 1")
        require(
            0 < self.curve_n <= self.n, "eval.curve_n", self.curve_n, f"must be 1..eval.n={self.n}"
        )
        require(bool(self.k), "eval.k", self.k, "name at least one k")
        for k in self.k:
            require(
                0 < k <= self.n,
                "eval.k",
                k,
                f"pass@k needs 1 <= k <= n; raise eval.n={self.n} or drop this k",
            )
        require(self.every > 0, "eval.every", self.every, "must be at least 1")
        require(self.temperature > 0, "eval.temperature", self.temperature, "must be above 0")
        require(self.max_tokens > 0, "eval.max_tokens", self.max_tokens, "must be at least 1")
        require(self.batch > 0, "eval.batch", self.batch, "must be at least 1")
        require(
            self.rare_nll_samples >= 0,
            "eval.rare_nll_samples",
            self.rare_nll_samples,
            "must be >= 0",
        )


@dataclass(frozen=True)
class Verification:
    """The processes that judge responses; no number depends on it while none is too slow."""

    workers: int
    deadline: float  # seconds a response
    memory_gb: float  # address space a worker, GiB
    max_faults: float  # share of a batch's verdicts that may be timeouts or errors

    def __post_init__(self):
        for key in ("workers", "deadline", "memory_gb"):
            value = getattr(self, key)
            require(value > 0, f"verification.{key}", value, "must be above 0")
        faults = self.max_faults
        require(0 <= faults < 1, "verification.max_faults", faults, "must be in [0, 1)")


@dataclass(frozen=True)
class Experiment:
    paper: str
    name: str  # the row or curve; the run folder is <name>-s<seed>-<hash>
    scope: Literal["laptop", "cluster"]  # where the comparison shows its rows
    table: str  # first column of the result rows
    label: str  # the method column of the result rows
    seed: int
    backend: str
    device: str  # auto, cpu, cuda
    threads: int  # CPU threads of one run
    checkpoint_every: int  # steps between resumable checkpoints
    keep_checkpoints: bool  # the model of every evaluation step, not of the last alone
    results_dir: str
    wandb: str  # off, offline, online
    model: Model
    data: Data
    reward: Reward
    sampling: Sampling
    method: Method
    optim: Optim
    eval: Evaluation
    verification: Verification

    def __post_init__(self):
        require(self.seed >= 0, "seed", self.seed, "must be >= 0")
        require(
            self.wandb in ("off", "offline", "online"), "wandb", self.wandb, "off|offline|online"
        )
        require(self.device in ("auto", "cpu", "cuda"), "device", self.device, "auto|cpu|cuda")
        require(self.checkpoint_every > 0, "checkpoint_every", self.checkpoint_every, "at least 1")
        require(self.threads > 0, "threads", self.threads, "must be at least 1")
        require(
            self.sampling.prompts % self.optim.mini_batches == 0,
            "optim.mini_batches",
            self.optim.mini_batches,
            f"must divide sampling.prompts={self.sampling.prompts}: groups are never split",
        )
        from common.method import bind

        bind(self.method)
        if self.optim.equalise_to is not None:
            resolve(self.optim.equalise_to, "optim.equalise_to")
        resolve(self.data.verifier, "data.verifier")

    @property
    def identity(self) -> dict:
        """All that the numbers depend on: the config without where it runs and how it is
        watched."""
        config = asdict(self) | {"model": hashed(self.model)}
        elsewhere = ("scope", "results_dir", "wandb", "threads", "verification")
        for key in (*elsewhere, "checkpoint_every", "keep_checkpoints"):
            del config[key]
        for group, key in (("method", "sampler"), ("model", "chat")):
            if config[group][key] is None:  # of no concern to the runs that were before it
                del config[group][key]
        return config

    @property
    def run_id(self) -> str:
        return f"{self.name}-s{self.seed}-{config_hash(self.identity)}"


def resolve(node: dict, key: str, supplied: tuple[str, ...] = (), open_ended: bool = False):
    """The function that `node["_target_"]` names, with the other entries bound as keyword
    arguments.

    The caller gives those named in `supplied` at every call, or, `open_ended`, any that are
    missing. Raises UserError if the path cannot be imported or an argument is unknown or missing,
    so that a typing mistake in a method file is found before the first rollout.
    """
    from functools import partial

    from hydra.utils import get_method

    target = node.get("_target_")
    require(
        isinstance(target, str), f"{key}._target_", target, "name a function by its dotted path"
    )
    try:
        function = get_method(target)
    except Exception as error:
        raise UserError(f"{key}._target_={target}: cannot be imported ({error})") from error
    arguments = {name: value for name, value in node.items() if name != "_target_"}
    parameters = inspect.signature(function).parameters
    known = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name, value in arguments.items():
        require(
            name in known, f"{key}.{name}", value, f"unknown argument of {target}; it takes {known}"
        )
    missing = [
        name
        for name in known
        if name not in (*arguments, *supplied) and parameters[name].default is inspect._empty
    ]
    require(open_ended or not missing, key, target, f"needs a value for {missing}")
    return partial(function, **arguments)


def strict(schema: type[T], config: DictConfig | dict) -> T:
    """`config` as a frozen `schema`, every `${...}` resolved.

    Raises UserError for an unknown key (with the nearest known one), a missing value or a wrong
    type.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        config = config if isinstance(config, DictConfig) else OmegaConf.create(config)
        values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        reason = str(error).split("\n")[0]
        raise UserError(f"{error.full_key or 'config'}: {reason}; give it a value") from error
    _refuse_unknown_keys(schema, values, "")
    try:
        return TypeAdapter(schema).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"] if str(part) != schema.__name__)
        raise UserError(f"{key}={first['input']!r}: {first['msg']}") from error


def load(overrides: list[str], paper: str) -> Experiment:
    """The Experiment that `python -m papers.<paper> <overrides>` would run."""
    from common.cli import compose

    return strict(Experiment, compose(paper, overrides))


def _refuse_unknown_keys(schema: type, values: dict, prefix: str) -> None:
    hints = get_type_hints(schema)
    for key, value in values.items():
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            hint = (
                f"did you mean {prefix}{near[0]}?" if near else f"known: {', '.join(sorted(hints))}"
            )
            raise UserError(f"unknown key {prefix}{key}={value}; {hint}")
        union = get_args(hints[key]) if get_origin(hints[key]) is UnionType else (hints[key],)
        for inner in filter(is_dataclass, union):
            if isinstance(value, dict):
                _refuse_unknown_keys(inner, value, f"{prefix}{key}.")
