"""The contents of configs/cost.yaml: what cost predictions assume, and the sizes of models."""

import json
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from common.config.files import ROOT, read
from common.config.schema import Model
from common.config.strict import strict
from common.errors import UserError, require
from common.experiment import Experiment
from common.models.size import Size, with_memory
from common.sweeps.profiles import Profile

FILE = ROOT / "configs" / "cost.yaml"

Span = tuple[float, float]  # the least and the most that are expected


@dataclass(frozen=True)
class Accelerator:
    memory_gb: float
    tflops: float
    float32_tflops: float
    bandwidth_gb_s: float
    compute_efficiency: Span
    decode_efficiency: Span  # share of memory and compute speed that the local loop reaches


@dataclass(frozen=True)
class Vllm:
    """How fast vLLM's kernels are, and its server."""

    step_s: float  # of each step, besides reading and computing
    bandwidth: float  # share of the accelerator's
    prefill: float  # share of the peak of operations, in a pass over prompts
    sum_s: float  # of one sum over the GPUs of an engine, besides sending
    link_gb_s: float  # between two of them
    efficiency: Span  # share of the kernels' speed that the server reaches


@dataclass(frozen=True)
class Prompts:
    """Prompt lengths of a training set or benchmark, in tokens."""

    typical: int
    longest: int


@dataclass(frozen=True)
class Assumptions:
    accelerators: dict[str, Accelerator]
    vllm: Vllm
    models: dict[str, Size]
    pretrain_vocab: int
    prompt_tokens: dict[str, Prompts]
    response_tokens: dict[str, dict[str, Span]]
    response_share: Span
    benchmark_problems: int
    decode_batch: int
    scoring_efficiency: Span
    step_overhead_s: Span
    weights_gb_s: Span
    verdict_s: dict[str, Span]
    training_factor: Span
    start_s: dict[str, float]
    usable_memory: float
    samples_bytes_per_token: float
    scored_bytes: float

    def prompts(self, *names: str) -> Prompts:
        """Return the prompt lengths of the first named set that is known, else the default."""
        known = [self.prompt_tokens[name] for name in names if name in self.prompt_tokens]
        return known[0] if known else self.prompt_tokens["default"]

    def responses(self, model: Model, name: str, limit: int) -> Span:
        """Return the mean response length of a model on a set, (low, high) tokens up to `limit`."""
        known = self.response_tokens.get("made here" if model.pretrain else model.path or "", {})
        share = tuple(limit * one for one in self.response_share)
        low, high = known.get(name) or known.get("default") or share
        return min(low, limit), min(high, limit)

    def verdict(self, verifier: dict) -> Span:
        """Return the seconds of one CPU that a verdict takes, by the verifier's module."""
        module = verifier["_target_"].split(".")[-2]
        return self.verdict_s.get(module, self.verdict_s["default"])

    def start(self, profile: Profile) -> float:
        """Return the seconds from the start of a job on this profile until it computes."""
        return self.start_s["cpu" if profile.accelerator == "cpu" else "gpu"]


@cache
def assumptions() -> Assumptions:
    return strict(Assumptions, read(FILE))


def model_size(x: Experiment, a: Assumptions) -> Size:
    """Return the size of the model of `x`, from its pretrain block, the table of configs/cost.yaml
    or a config.json on this machine."""
    if x.model.pretrain is None:
        return size_at(x.model.path, "model.path", a)
    p = x.model.pretrain
    sizes = dict(
        num_attention_heads=p.heads, num_key_value_heads=p.kv_heads, hidden_size=p.hidden_size
    )
    sizes |= dict(intermediate_size=p.intermediate_size, num_hidden_layers=p.layers)
    sizes |= dict(max_position_embeddings=p.positions, vocab_size=a.pretrain_vocab)
    return size_of_config(sizes | {"tie_word_embeddings": True})


def size_at(path: str, key: str, a: Assumptions) -> Size:
    """Return the size of the model at `path`, which is the value of the configuration key `key`.
    Raises UserError where it is not known."""
    if path in a.models:
        return a.models[path]
    file = Path(path) / "config.json"
    if file.exists():
        return size_of_config(json.loads(file.read_text()))
    raise UserError(f"{key}={path}: its size is not known here; add it under `models` of {FILE}")


def size_of_config(c: dict) -> Size:
    hidden, layers, vocab = c["hidden_size"], c["num_hidden_layers"], c["vocab_size"]
    heads = c["num_attention_heads"]
    head = c.get("head_dim") or hidden // heads
    width = head * c.get("num_key_value_heads", heads)
    layer = 2 * hidden * (head * heads + width) + 3 * hidden * c["intermediate_size"]
    tables = 1 if c.get("tie_word_embeddings") else 2
    parameters = layers * layer + tables * vocab * hidden
    return Size(parameters, layers, hidden, width, vocab, c["max_position_embeddings"])


def accelerator(profile: Profile, a: Assumptions) -> Accelerator:
    known = ", ".join(sorted(a.accelerators))
    where = f"profile {profile.name}: use one of {known}, or describe it in {FILE}"
    require(profile.accelerator in a.accelerators, "accelerator", profile.accelerator, where)
    return a.accelerators[profile.accelerator]


def model_sizes(x: Experiment, a: Assumptions) -> list[Size]:
    """Return the sizes of the policy and, with DLC, of the memory network that samples next to
    it."""
    at = partial(size_at, key="method.sampler.path", a=a)
    return with_memory(model_size(x, a), x.method.sampler, at)


def longest_prompt(x: Experiment, a: Assumptions) -> int:
    """Return the tokens of the longest prompt in the training set (at most `max_prompt_tokens`,
    where the set drops longer ones) and in the benchmarks of the training curve."""
    kept = x.data.train.get("max_prompt_tokens")
    trained = a.prompts(x.data.name).longest
    names = [node.get("name", key) for key, node in x.data.benchmarks.items()]
    sets = [a.prompts(name, x.data.name).longest for name in names]
    return max(min(trained, kept or trained), *sets) if sets else trained
