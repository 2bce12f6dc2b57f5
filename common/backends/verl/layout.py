"""How a model is laid out on the GPUs there are: what saves memory is used only where it is needed.

From fastest to slowest: all on the GPUs, in passes as long as there is room for; shorter passes;
weights, gradients and moments in main memory while vLLM samples (verl's param_offload and
optimizer_offload move all of them back to train); in main memory always, where the CPU steps too
(FSDP2's offload_policy). vLLM's weights are split over GPUs until they take half of its share. An
estimate from sizes, within 15 % of what PyTorch's tracker counts, and that was measured for one
model on one GPU (docs/memory.md). Imports no verl and no torch.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from common.backends.verl.tuning import ACTOR, PASS, ROLLOUT, sequence_parallel
from common.errors import require
from common.experiment import Experiment
from common.models.size import Size

STATE_BYTES = 16  # a parameter: float32 weight, gradient and two Adam moments
HELD_BYTES = 12  # without the gradient, which verl frees before vLLM wakes; also of a checkpoint
# Of a logit of a packed pass, in bfloat16: as the model gives it, its gradient in its place (flash-
# attn's cross entropy); divided by a temperature that is not 1, and that one's gradient; the
# gradients of the cross entropy and of an entropy bonus beside it, which torch.compile fuses. verl
# 0.9.1, transformer_impl.py.
LOGIT_BYTES, TEMPERED_BYTES, BONUS_BYTES = 2, 4, 6
PACKED = 16_384  # tokens a GPU and pass at least, where there is room (verl's own value)
SHARE = 0.6  # of a GPU's memory, vLLM's: weights and cache
SEQUENCES = 512  # that one vLLM decodes at once: max_num_seqs
BATCHED = 8192  # tokens that it reads at once, at least: max_num_batched_tokens
BLOCK = 16  # tokens of its cache
RUNTIME_BYTES = 2.5e9  # of CUDA, its graphs and NCCL, outside its pools; ours
USABLE = 0.92  # of a GPU's memory; the rest is the driver's and lost between tensors
PARALLEL = (1, 2, 4)  # 8 does not divide the 28 heads of Qwen2.5-7B
STORAGE_UNITS = 2  # of TransferQueue, a node; verl's own eight would reserve eight CPUs
OFFLOAD = f"{ACTOR}.fsdp_config"
SPLIT, PART = f"{ROLLOUT}.tensor_model_parallel_size", f"{ROLLOUT}.gpu_memory_utilization"

States = Literal["gpu", "between", "cpu"]


def reserved_cpus(gpus: int) -> int:
    """CPUs of a node that verl reserves in Ray: one for TransferQueue's controller, one a storage
    unit, three a GPU. With fewer Ray waits for ever (verl 0.9.1, single_controller/ray/base.py)."""
    return 1 + STORAGE_UNITS + 3 * gpus


@dataclass(frozen=True)
class Load:
    """A training, as far as memory depends on it."""

    size: Size
    trained: int  # tokens of the longest prompt and response in training
    sampled: int  # tokens of the longest that vLLM samples, evaluation included
    reference: bool  # a second model, for KL; verl keeps it in main memory
    memory: Size | None = None  # DLC's memory network, trained and sampled with beside the policy
    logit_bytes: int = LOGIT_BYTES  # of a pass

    @property
    def models(self) -> list[Size]:
        return [self.size, *([self.memory] if self.memory else [])]

    @property
    def parameters(self) -> float:
        return sum(one.parameters for one in self.models)


def load_of(x: Experiment, size: Size, *, prompt: int, memory: Size | None) -> Load:
    """What `x` asks of the GPUs, with a model of this size, DLC's `memory` network beside it, and
    prompts of up to `prompt` tokens; what is longer than its context gets shorter responses."""
    longest = max(x.sampling.max_tokens, x.eval.max_tokens)
    tempered = LOGIT_BYTES if x.sampling.temperature == 1 else TEMPERED_BYTES
    return Load(
        size=size,
        trained=min(prompt + x.sampling.max_tokens, size.context),
        sampled=min(prompt + longest, size.context),
        reference=x.method.kl_coef > 0,
        memory=memory,
        logit_bytes=BONUS_BYTES if x.method.entropy_coef != 0 else tempered,
    )


@dataclass(frozen=True)
class Layout:
    states: States  # where weights, gradients and moments are: on the GPU in training alone, ...
    tokens: int  # of a pass, a GPU
    parallel: int  # GPUs that share one vLLM
    share: float  # of a GPU's memory, vLLM's
    training_gb: float  # a GPU, at its peak
    sampling_gb: float
    vllm_gb: float  # of weights, a GPU
    host_gb: float  # of main memory, all nodes together
    fits: bool

    @property
    def peak_gb(self) -> float:
        return max(self.training_gb, self.sampling_gb)

    def keys(self) -> dict[str, object]:
        """As verl's configuration says it."""
        return {
            f"{OFFLOAD}.param_offload": self.states == "between",
            f"{OFFLOAD}.optimizer_offload": self.states == "between",
            f"{OFFLOAD}.offload_policy": self.states == "cpu",
            PASS: self.tokens,
            SPLIT: self.parallel,
            PART: self.share,
        }


def choose(
    load: Load,
    *,
    nodes: int,
    gpus: int,
    gpu_gb: float,
    given: dict[str, Any],
    usable: float = USABLE,
) -> Layout:
    """The fastest layout that fits `nodes` x `gpus` GPUs of `gpu_gb` GB, or, with `fits` false, the
    smallest one. `given` are verl's keys that the user has set (tuning.py): they stay. Raises
    UserError for a vLLM over GPUs that do not divide a node's."""
    places: tuple = ("gpu", "between", "cpu")
    if given.get(f"{OFFLOAD}.offload_policy"):
        places = ("cpu",)
    elif given.get(f"{OFFLOAD}.param_offload") or given.get(f"{OFFLOAD}.optimizer_offload"):
        places = ("between",)
    longest = math.ceil(load.trained / sequence_parallel(given))  # a GPU's part of it
    long = max(PACKED, 2 * longest)
    passes = [given[PASS]] if PASS in given else [4 * long, 2 * long, long, longest]
    share = given.get(PART, SHARE)
    parallel = given.get(SPLIT) or fewest(load.parameters, gpus, share * gpu_gb)
    remedy = f"must divide the {gpus} GPU(s) of a node; change it or the profile"
    require(gpus % parallel == 0, f"verl.{SPLIT}", parallel, remedy)
    found = [
        _layout(load, nodes * gpus, gpu_gb, usable, states, tokens, parallel, share)
        for states, tokens in product(places, passes)
    ]
    # none of this was measured: longer passes take no more than vLLM, with what is held beside it
    room = (one for one in found if one.tokens <= long or one.training_gb <= one.sampling_gb)
    fitting = (one for one in room if one.fits)
    return next(fitting, min(found, key=lambda one: (one.peak_gb, one.training_gb)))


def fewest(parameters: float, gpus: int, share_gb: float) -> int:
    """GPUs of a node that share one vLLM: the fewest whose weights leave half of it for the cache.
    verl's replicas do not cross nodes evenly (vllm_async_server.py)."""
    counts = [count for count in PARALLEL if gpus % count == 0]
    enough = [count for count in counts if 2 * parameters / count / 1e9 <= share_gb / 2]
    return enough[0] if enough else counts[-1]


def _layout(load: Load, gpus, gpu_gb, usable, states, tokens, parallel, share) -> Layout:
    P, reference = load.parameters, 4 * load.reference * load.size.parameters
    here = {"gpu": (STATE_BYTES, HELD_BYTES), "between": (STATE_BYTES, 0), "cpu": (0, 0)}[states]
    # policy and memory network are trained one after the other
    passes = [pass_bytes(one, tokens, load.logit_bytes) for one in load.models]
    training = (here[0] * P / gpus + max(passes)) / 1e9
    sampling = here[1] * P / gpus / 1e9 + share * gpu_gb
    weights = 2 * P / parallel / 1e9
    a_token = sum(token_bytes(one) for one in load.models)
    cache = a_token * load.sampled / parallel / 1e9  # of one response
    host = {"gpu": 0, "between": STATE_BYTES, "cpu": STATE_BYTES}[states] * P + reference
    room = usable * gpu_gb
    kept = weights + reserved_bytes(load, parallel) / 1e9
    fits = max(training, sampling) <= room and kept + cache <= share * gpu_gb
    return Layout(states, tokens, parallel, share, training, sampling, weights, host / 1e9, fits)


def token_bytes(size: Size) -> int:
    """Of the cache, keys and values in bfloat16."""
    return 4 * size.layers * size.kv_width


def reserved_bytes(load: Load, parallel: int) -> float:
    """Of one GPU, what vLLM finds in use beside weights when it sizes its cache: states of the
    longest pass (about 32 bytes a token and unit of the width), and logits of all sequences, in
    float32 with two copies."""
    size = load.size
    states = 32 * size.hidden * max(BATCHED, load.sampled) / parallel
    return states + 3 * 4 * SEQUENCES * size.vocab + RUNTIME_BYTES


def pass_bytes(size: Size, tokens: int, logit_bytes: int = LOGIT_BYTES) -> float:
    """Beside the states, at the fullest of three moments: the loss; the backward pass of the output
    layer, with its weights and their gradient; that of the last block, computed again, while the
    output layer's gradient becomes float32 and is shared out."""
    logits, table = tokens * size.vocab, size.vocab * size.hidden
    layer = 2 * size.parameters / size.layers  # FSDP gathers one ahead, in bfloat16
    kept = 2 * tokens * size.hidden * (size.layers + 4)  # a checkpoint a layer, and the last states
    block = 2 * tokens * size.hidden * 12
    return layer + kept + max(logit_bytes * logits, 2 * logits + 4 * table, 6 * table + block)
