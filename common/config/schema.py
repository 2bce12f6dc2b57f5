"""The parts of an Experiment: types and ranges. Values live in `configs/base.yaml`."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from common.errors import require


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
    chat: str | None  # markup around the prompts, by its name in common/datasets/templates.py
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
    """A memory network beside the policy (DLC): common/rollout/dlc.py."""

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
