"""The parts of an Experiment: types and ranges. Values live in `configs/base.yaml`.

A type says its range (PositiveInt), and `strict` holds it where a configuration is read;
`__post_init__` has only what several keys must satisfy together.
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

Folder = Annotated[str, Field(min_length=1)]  # "" would be the current one
Decay = Annotated[float, Field(ge=0, lt=1)]  # of a running mean


@dataclass(frozen=True)
class Pretrain:
    """A language model made here: random-init Qwen2 trained on demonstrations, cached by its
    hash."""

    demonstrations: PositiveInt
    epochs: PositiveInt
    batch_size: PositiveInt  # sequences an optimiser step
    lr: PositiveFloat  # on the layers' matrices
    embedding_lr: PositiveFloat  # of AdamW, on everything else
    hidden_size: PositiveInt
    layers: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt
    intermediate_size: PositiveInt
    initializer_range: PositiveFloat  # standard deviation of the random weights
    rope_theta: PositiveFloat
    seed: NonNegativeInt
    # whose demonstrations and words; what follows has defaults, since configurations stored before
    # lack the keys
    task: Literal["countdown", "expressions", "maze"] = "countdown"
    options: dict[str, Any] = field(default_factory=dict)  # of the task's demonstrations
    # muon: Muon on the matrices, warm-up, then cosine to zero; adamw: on everything, constant rates
    optimizer: Literal["muon", "adamw"] = "muon"
    positions: PositiveInt = 256  # longest sequence, prompt and response

    def __post_init__(self):
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
    # markup around the prompts, by its name in common/datasets/templates.py; model: the template
    # of its own tokenizer
    chat: str | None
    pretrain: Pretrain | None
    # commit of a hub id, of which a folder has none; a default, since configurations stored before
    # it lack the key
    revision: str | None = None

    def __post_init__(self):
        require(
            (self.path is None) != (self.pretrain is None),
            "model.path",
            self.path,
            "give either a path (folder or hub id) or a pretrain block, not both and not neither",
        )


def prompts_alone(benchmarks: Any) -> Any:
    """Of benchmarks that a configuration takes from configs/eval/ (`/eval@data.benchmarks.NAME:
    FILE`) the prompts: a run samples and verifies them with its own settings."""
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
    # benchmark name -> the same, or a file of configs/eval/
    benchmarks: Annotated[dict[str, Any], BeforeValidator(prompts_alone)]
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
class Correction:
    """Importance weights for what separates vLLM's probabilities from the trainer's, as verl has
    them: rho = pi_old / pi_rollout of each token, or the product of a response's ("sequence"),
    multiplies the token's loss as a constant.

        lower null: min(rho, upper), truncated (TIS)
        else: rho inside [lower, upper], 0 outside, masked (IcePop)

    Source: verl 0.9.1, trainer/ppo/rollout_corr_helper.py. Left out: rejection of whole responses
    (groups would be of unequal size), normalisation over the batch, bypass_mode.
    """

    level: Literal["token", "sequence"]
    upper: PositiveFloat
    lower: PositiveFloat | None = None

    def __post_init__(self):
        require(
            self.lower is None or self.lower < self.upper,
            "sampling.correction.lower",
            self.lower,
            f"must be below upper={self.upper}",
        )


@dataclass(frozen=True)
class Sampling:
    prompts: PositiveInt  # P, prompts a step
    group_size: PositiveInt  # N in F-GRPO, G elsewhere: responses a prompt
    temperature: PositiveFloat
    max_tokens: PositiveInt  # T_max, response tokens
    dynamic_batches: PositiveInt  # rollout batches drawn at most to fill a step; 1: off
    # optimiser updates by which the weights that sample are older than those that are trained
    # (rollout/samplers.py); a default, since configurations stored before it lack the key
    lag: NonNegativeInt = 0
    # of the copy of the weights that samples; a default for the same reason
    dtype: Literal["float32", "bfloat16"] = "float32"
    # importance weights of the rollout; None: none, as in the papers
    correction: Correction | None = None


@dataclass(frozen=True)
class Sampler:
    """A memory network beside the policy (DLC): common/rollout/dlc.py."""

    mu: float
    lr: float
    start: Literal["random", "policy", "checkpoint"]
    shrink: int  # of the width of a random network
    importance_cap: float | None  # of pi_theta / pi_sample; null: no correction
    # of the checkpoint that it starts from, a folder or hub id; configurations stored before the
    # key existed lack it
    path: str | None = None
    # what it learns of a step, where dynamic sampling evicts groups: those that are trained on, or
    # all that was sampled; before the key existed the first
    remember: Literal["kept", "all"] = "kept"

    def __post_init__(self):
        require(
            (self.path is not None) == (self.start == "checkpoint"),
            "method.sampler.path",
            self.path,
            f"a folder or hub id goes with start=checkpoint alone, and start={self.start}",
        )


@dataclass(frozen=True)
class Rehearsal:
    """A divergence to the base model on what it solves already (DPH-RL):
    common/backends/rehearsal.py."""

    divergence: dict[str, Any]  # (log_prob, ref_log_prob) -> (B, T), on what the base model drew
    eta: PositiveFloat  # its coefficient in the loss
    samples: PositiveInt  # k, answers of the base model to each training prompt
    at_least: PositiveInt  # right ones of k from which a prompt is rehearsed, not explored
    share: PositiveFloat  # responses rehearsed for each one of the rollout

    def __post_init__(self):
        require(
            self.at_least <= self.samples,
            "method.rehearsal.at_least",
            self.at_least,
            f"must be at most samples={self.samples}",
        )


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
    entropy_coef: NonNegativeFloat
    kl_coef: NonNegativeFloat
    kl_estimator: Literal["k1", "k2", "k3"]
    # when the controller looks: once a rollout, or at each optimiser step, at the groups of its
    # mini-batch; a default, since configurations stored before it lack the key
    clock: Literal["rollout", "optimiser_step"] = "rollout"
    # taken off each response's reward, not added to the loss; a default, since configurations
    # stored before it lack the key
    kl_in_reward: bool = False
    # a default for the same reason
    rehearsal: Rehearsal | None = None


@dataclass(frozen=True)
class Optim:
    lr: PositiveFloat
    equalise_to: dict[str, Any] | None  # an advantage whose max |A| over the method's scales lr
    betas: tuple[Decay, Decay]
    weight_decay: NonNegativeFloat
    grad_clip: PositiveFloat
    warmup_steps: NonNegativeInt  # rollout steps
    steps: NonNegativeInt  # rollout steps; 0 evaluates the base model
    mini_batches: PositiveInt  # optimiser steps a rollout
    micro_batch: PositiveInt  # sequences a forward-backward pass: memory only, never the result
    # a layer's states are computed again for its gradient: memory and time, never the result; a
    # default, since configurations stored before it lack the key
    gradient_checkpointing: bool = False


@dataclass(frozen=True)
class Evaluation:
    n: PositiveInt  # samples a problem after the last step
    # the k of pass@k; those above an evaluation's n are left out of its rows
    k: Annotated[list[int], Field(min_length=1)]
    temperature: PositiveFloat
    max_tokens: PositiveInt
    every: PositiveInt  # steps between the evaluations of the training curve
    curve_n: PositiveInt  # samples a problem on the curve
    batch: PositiveInt  # sequences decoded at once
    rare_nll_samples: NonNegativeInt  # of the base model a prompt, F-GRPO App. F.2; 0: left out

    def __post_init__(self):
        require(self.curve_n <= self.n, "eval.curve_n", self.curve_n, f"must be 1..eval.n={self.n}")
        for k in self.k:
            require(
                0 < k <= self.n,
                "eval.k",
                k,
                f"pass@k needs 1 <= k <= n; raise eval.n={self.n} or drop this k",
            )


@dataclass(frozen=True)
class Verification:
    """The processes that judge responses; no number depends on it while none is too slow."""

    workers: PositiveInt
    deadline: PositiveFloat  # seconds a response
    memory_gb: PositiveFloat  # address space a worker, GiB
    # share of a batch's verdicts that may be timeouts or errors
    max_faults: Annotated[float, Field(ge=0, lt=1)]
