"""The Experiment: the frozen, strictly checked configuration of one run, and how to make one.

Values are in `configs/base.yaml`, never here; the classes state types and ranges. Bad input raises
a `UserError` that names key, value and remedy before any compute is spent.
"""

import re
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import NonNegativeInt, PositiveInt

from common.config.contents import contents
from common.config.resolve import resolve
from common.config.schema import (
    Data,
    Evaluation,
    Folder,
    Method,
    Model,
    Optim,
    Reward,
    Sampling,
    Verification,
)
from common.config.strict import strict
from common.errors import require
from common.results.files import config_hash

if TYPE_CHECKING:  # importing torch takes seconds, and --help does not need it
    from common.methods.binding import Bound

NOT_IDENTITY = (  # keys of an Experiment that change none of its numbers
    *("scope", "table", "label", "results_dir", "wandb", "threads", "verification", "verl"),
    *("checkpoint_every", "keep_checkpoints", "keep_at", "keep_state", "covariances"),
    *("stop_rules", "kl_from_start"),
)


@dataclass(frozen=True)
class Experiment:
    paper: str
    name: str  # of the row (named configuration); the run folder is <name>-s<seed>-<hash>
    scope: Literal["laptop", "cluster"]  # the comparison's part with its rows
    table: str  # first column of the result rows
    label: str  # the method column of the result rows
    seed: NonNegativeInt
    backend: str
    device: Literal["auto", "cpu", "cuda", "mps"]
    threads: PositiveInt  # CPU threads of one run
    # steps between resumable checkpoints; None: as backends/saving.py decides
    checkpoint_every: PositiveInt | None
    keep_checkpoints: bool  # keep the model of every evaluation step, not only the last
    results_dir: Folder
    wandb: Literal["off", "offline", "online"]
    model: Model
    data: Data
    reward: Reward
    sampling: Sampling
    method: Method
    optim: Optim
    eval: Evaluation
    verification: Verification
    keep_at: list[PositiveInt] = field(default_factory=list)  # further steps whose model is kept
    stop_rules: bool = True  # end an unhealthy run with a checkpoint (common/health.py)
    # keep what further steps would start from: weights, optimizer moments and position in the data
    keep_state: bool = False
    covariances: bool = False  # log how few tokens hold the covariance (losses/contributions.py)
    kl_from_start: bool = False  # measure this KL in each evaluation (backends/evaluations.py)
    # verl's own keys for memory and speed (backends/verl/tuning.py)
    verl: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        local, sampling = self.backend == "local", self.sampling
        named = re.fullmatch(r"[^./\\][^/\\]*", self.name) is not None
        remedy = "names the run's folder, so it must not contain a slash or begin with a dot"
        require(named, "name", self.name, remedy)
        batches = self.optim.mini_batches
        remedy = f"must divide sampling.prompts={sampling.prompts}: groups are never split"
        require(sampling.prompts % batches == 0, "optim.mini_batches", batches, remedy)
        own = not self.verl or self.backend == "verl"
        require(own, "verl", self.verl, "needs backend=verl")
        key, one = "sampling.log_prob_temperature", sampling.reported == sampling.temperature
        remedy = "with a memory network (method.sampler) it must be sampling.temperature; use null"
        require(one or self.method.sampler is None, key, sampling.log_prob_temperature, remedy)
        remedy = "vLLM reports log-probabilities at sampling.temperature or at 1; use one of them"
        require(one or local or sampling.reported == 1, key, sampling.log_prob_temperature, remedy)
        fits = not self.kl_from_start or (local and self.eval.temperature == 1)
        remedy = "needs backend=local and eval.temperature=1; set it to false"
        require(fits, "kl_from_start", self.kl_from_start, remedy)
        for key, value, off in (
            ("sampling.dtype", sampling.dtype, "float32"),
            ("optim.gradient_checkpointing", self.optim.gradient_checkpointing, False),
            ("optim.dtype", self.optim.dtype, "float32"),
            ("eval.also_at", self.eval.also_at, []),
            ("eval.full_at", self.eval.full_at, []),
        ):
            require(value == off or local, key, value, f"needs backend=local; set it to {off}")
        over, least = self.optim.decay_over, max(self.optim.steps, self.optim.warmup_steps + 1)
        remedy = (
            f"must be at least {least}: the run's steps, and more than its warm-up; null: constant"
        )
        require(over is None or over >= least, "optim.decay_over", over, remedy)
        from common.methods.binding import check

        check(self.bound, self.sampling.group_size, self.reward)
        if self.optim.equalise_to is not None:
            resolve(self.optim.equalise_to, "optim.equalise_to")
        resolve(self.data.verifier, "data.verifier")

    @property
    def bound(self) -> "Bound":
        from common.methods.binding import bind

        return bind(self.method)

    @property
    def identity(self) -> dict:
        """Everything that the numbers depend on: the configuration without NOT_IDENTITY, and the
        hashes of the local files and user-defined functions that it names. The number of steps is
        left out unless it is 0, because a shorter run is the beginning of a longer one. A method
        with a schedule over the steps states their number itself."""
        config = {key: value for key, value in asdict(self).items() if key not in NOT_IDENTITY}
        del config["optim"]["gradient_checkpointing"]  # changes memory only
        if self.optim.decay_over is None:  # stored runs lack the keys
            del config["optim"]["decay_over"], config["optim"]["decay_to"]
        if self.optim.dtype == "float32":  # stored runs lack the key
            del config["optim"]["dtype"]
        config["eval"] = {key: x for key, x in config["eval"].items() if x != []}  # as above
        if self.sampling.reported == self.sampling.temperature:  # stored runs lack the key
            del config["sampling"]["log_prob_temperature"]
        # stored runs have these keys, which nothing sets now
        config["method"]["rehearsal"], config["sampling"]["lag"] = None, 0
        if self.optim.steps > 0:
            del config["optim"]["steps"]
        named = contents(config, self.results_dir)
        return config | ({"contents": named} if named else {})

    @cached_property
    def run_id(self) -> str:
        return f"{self.name}-s{self.seed}-{config_hash(self.identity)}"

    @property
    def path(self) -> Path:
        return Path(self.results_dir) / self.paper / self.run_id


def load(overrides: list[str], paper: str) -> Experiment:
    """Return the Experiment that `rlvr train paper=<paper> <overrides>` would run."""
    from common.config.compose import compose

    return strict(Experiment, compose(paper, overrides))
