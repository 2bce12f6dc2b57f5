"""The parts of an Experiment: types and ranges. Values live in `configs/base.yaml`.

A type states its range (PositiveInt), which `strict` checks when a configuration is read.
`__post_init__` only checks what several keys must satisfy together. A field with a default is
younger than some stored configurations, which lack its key.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)

from common.errors import require

Text = Annotated[str, Field(min_length=1)]
Folder = Text  # "" would be the current folder
Decay = Annotated[float, Field(ge=0, lt=1)]  # decay rate of a running mean


@dataclass(frozen=True)
class Pretrain:
    """A Qwen2 made here from random weights and demonstrations, cached by its configuration."""

    demonstrations: PositiveInt
    epochs: PositiveInt
    batch_size: PositiveInt  # sequences per optimiser step
    lr: PositiveFloat  # learning rate of the layers' matrices
    embedding_lr: PositiveFloat  # AdamW's learning rate for everything else
    hidden_size: PositiveInt
    layers: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt
    intermediate_size: PositiveInt
    initializer_range: PositiveFloat  # standard deviation of the random weights
    rope_theta: PositiveFloat
    seed: NonNegativeInt
    # the task that gives demonstrations and vocabulary
    task: Literal["countdown", "expressions", "maze"] = "countdown"
    options: dict[str, Any] = field(default_factory=dict)  # arguments of `demonstrations`
    # muon: on matrices, AdamW on the rest, with warm-up and cosine to zero; adamw: constant rates
    optimizer: Literal["muon", "adamw"] = "muon"
    positions: PositiveInt = 256  # tokens of the longest sequence, prompt and response

    def __post_init__(self):
        fits = self.hidden_size % self.heads == 0 and self.heads % self.kv_heads == 0
        remedy = f"must divide hidden_size={self.hidden_size}; kv_heads={self.kv_heads} divides it"
        require(fits, "model.pretrain.heads", self.heads, remedy)


@dataclass(frozen=True)
class Model:
    name: str
    path: str | None  # folder or hub id
    # markup of common/datasets/templates.py; "model": the template of the model's own tokenizer
    chat: str | None
    pretrain: Pretrain | None
    revision: str | None = None  # commit of a hub id; a folder has none

    def __post_init__(self):
        one = (self.path is None) != (self.pretrain is None)
        remedy = "give either a path (folder or hub id) or a pretrain block"
        require(one, "model.path", self.path, remedy)


def prompts_alone(benchmarks: Any) -> Any:
    """Reduce files of configs/eval/ to their prompts: a run has its own settings of sampling."""
    if not isinstance(benchmarks, dict):
        return benchmarks
    return {
        name: node["prompts"] if isinstance(node, dict) and "prompts" in node else node
        for name, node in benchmarks.items()
    }


@dataclass(frozen=True)
class Data:
    name: str
    train: dict[str, Any]  # dotted path to a function that returns list[Prompt], and its arguments
    # benchmark name -> such a path and arguments, or a file of configs/eval/
    benchmarks: Annotated[dict[str, Any], BeforeValidator(prompts_alone)]
    verifier: dict[str, Any]  # dotted path to (response, reference) -> Verdict


@dataclass(frozen=True)
class Reward:
    correct: float  # R_c
    wrong: float  # R_w

    def __post_init__(self):
        above = self.correct > self.wrong
        require(above, "reward.correct", self.correct, "must exceed reward.wrong")


@dataclass(frozen=True)
class Sampling:
    prompts: PositiveInt  # P, prompts per step
    group_size: PositiveInt  # N in F-GRPO, G elsewhere: responses per prompt
    temperature: PositiveFloat
    max_tokens: PositiveInt  # T_max, response tokens
    dynamic_batches: PositiveInt  # most rollout batches drawn to fill a step; 1: off
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the copy of the weights that samples
    # of log pi in ratio, KL, covariance and entropy; None: as in sampling
    log_prob_temperature: PositiveFloat | None = None

    @property
    def reported(self) -> float:
        """The temperature of the log-probabilities that a run trains with."""
        return self.log_prob_temperature or self.temperature


@dataclass(frozen=True)
class MemorySettings:
    """DLC's memory network (common/rollout/dlc.py)."""

    mu: NonNegativeFloat
    lr: PositiveFloat
    start: Literal["random", "policy", "checkpoint"]
    shrink: PositiveInt  # divides the width of a random network
    importance_cap: float | None  # on pi_theta / pi_sample; null: no correction
    path: str | None = None  # folder or hub id of the checkpoint that it starts from
    # the groups that it learns from with dynamic sampling: those trained on, or all sampled
    remember: Literal["kept", "all"] = "kept"

    def __post_init__(self):
        fits = (self.path is not None) == (self.start == "checkpoint")
        remedy = f"start=checkpoint needs a folder or hub id, other starts null; start={self.start}"
        require(fits, "method.sampler.path", self.path, remedy)


@dataclass(frozen=True)
class Method:
    """What a paper varies. Each dict names a pure function by `_target_`, with its arguments."""

    name: str
    advantage: dict[str, Any]
    loss: dict[str, Any]
    aggregation: dict[str, Any]
    token_weights: dict[str, Any] | None  # of a whole mini-batch; for losses that take them
    controller: dict[str, Any] | None  # changes arguments of the advantage from step to step
    sampler: MemorySettings | None  # draws the responses, if the policy itself does not
    entropy_coef: NonNegativeFloat
    kl_coef: NonNegativeFloat
    kl_estimator: Literal["k1", "k2", "k3"]
    # when the controller is updated: per rollout, or per optimiser step from its mini-batch
    clock: Literal["rollout", "optimiser_step"] = "rollout"
    # the KL penalty is subtracted from each response's reward, not added to the loss
    kl_in_reward: bool = False


@dataclass(frozen=True)
class Optim:
    lr: PositiveFloat
    # an advantage; lr is multiplied by its max |A| divided by the method's max |A|
    equalise_to: dict[str, Any] | None
    betas: tuple[Decay, Decay]
    weight_decay: NonNegativeFloat
    grad_clip: PositiveFloat
    warmup_steps: NonNegativeInt  # rollout steps
    steps: NonNegativeInt  # rollout steps; 0 evaluates the base model
    mini_batches: PositiveInt  # optimiser steps per rollout
    micro_batch: PositiveInt  # sequences per forward-backward pass; changes memory, not results
    # rollout steps until a cosine after the warm-up is down at decay_to x lr; None: constant
    decay_over: PositiveInt | None = None
    decay_to: PositiveFloat = 0.1
    # compute a layer's states again for its gradient: changes memory and time, never the result
    gradient_checkpointing: bool = False
    # of the matrix products of a training pass (common/models/policy.py)
    dtype: Literal["float32", "bfloat16"] = "float32"


@dataclass(frozen=True)
class Evaluation:
    n: PositiveInt  # samples per problem after the last step
    # the k of pass@k; each k above an evaluation's n is left out of its rows
    k: Annotated[list[int], Field(min_length=1)]
    temperature: PositiveFloat
    max_tokens: PositiveInt
    every: PositiveInt  # steps between the evaluations of the training curve
    curve_n: PositiveInt  # samples per problem on the curve; n where n is lower
    batch: PositiveInt  # sequences decoded at once
    # base model samples per prompt for Delta NLL, F-GRPO App. F.2; 0: left out
    rare_nll_samples: NonNegativeInt
    also_at: list[PositiveInt] = field(default_factory=list)  # further steps of the curve
    full_at: list[PositiveInt] = field(default_factory=list)  # further ones, with n samples each

    def curve(self, steps: int) -> list[int]:
        """Return the steps before the last of `steps` that are evaluated."""
        every = range(self.every, steps, self.every)
        return sorted({*every, *(x for x in (*self.also_at, *self.full_at) if x < steps)})

    def __post_init__(self):
        object.__setattr__(self, "curve_n", min(self.curve_n, self.n))
        remedy = f"pass@k needs 1 <= k <= n; raise eval.n={self.n} or drop this k"
        for k in self.k:
            require(0 < k <= self.n, "eval.k", k, remedy)


@dataclass(frozen=True)
class Verification:
    """The processes that judge responses. No number depends on them if no verdict is slow."""

    workers: PositiveInt
    deadline: PositiveFloat  # seconds per response
    memory_gb: PositiveFloat  # address space per worker, GiB
    # largest share of a batch's verdicts that may be timeouts or errors
    max_faults: Annotated[float, Field(ge=0, lt=1)]
