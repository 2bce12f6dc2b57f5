"""The layout of a model on the available GPUs: the fastest that fits.

From fastest to slowest: everything on the GPUs, with passes as long as fit; weights, gradients and
moments in main memory while vLLM samples (verl's param_offload and optimizer_offload); all of them
always there, where the CPU also makes the optimiser step (FSDP2's offload_policy). Memory figures
are estimates within 15 % of what PyTorch's tracker counts (docs/speed.md).
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from common.backends.verl.tuning import ACTOR, PASS, ROLLOUT, SEQUENCE, sequence_parallel, tuned
from common.errors import require
from common.experiment import Experiment
from common.models.size import Size

STATE_BYTES = 16  # per parameter: float32 weight, gradient and two Adam moments
HELD_BYTES = 12  # without the gradient, which verl frees before vLLM wakes; also in a checkpoint
# Bytes held for one logit of a packed pass, in bfloat16 (verl 0.9.1, transformer_impl.py): the
# logit, in whose place its gradient is written (flash-attn's cross entropy); with a temperature,
# the divided logit and its gradient; the logit and the gradients of loss and entropy bonus.
LOGIT_BYTES, TEMPERED_BYTES, BONUS_BYTES = 2, 4, 6
PACKED = 16_384  # tokens of a pass on one GPU, at least, if there is room (verl's own value)
SHARE = 0.6  # vLLM's share of a GPU's memory: weights and cache
SEQUENCES = 512  # sequences that one vLLM decodes at once: max_num_seqs
BATCHED = 8192  # tokens that one vLLM reads at once, at least: max_num_batched_tokens
BLOCK = 16  # tokens of one block of vLLM's cache
RUNTIME_BYTES = 2.5e9  # of CUDA, its graphs and NCCL, outside the memory pools; our own figure
# Of a vLLM that sleeps, by its GPUs: graphs, NCCL, all-reduce buffers. Others saw 0.8 GB on one,
# 2.4 to 7.4 on two and 7.0 on eight (NeMo-RL issue 223, vLLM issue 47654).
ASLEEP_GB = {1: 0.8, 2: 5.0}
USABLE = 0.92  # share of a GPU's memory; the rest is the driver's or is lost between tensors
PARALLEL = (1, 2, 4)  # GPUs of one vLLM; 8 does not divide the 28 heads of Qwen2.5-7B
HEAD = 128  # width of a head of keys, at most
STORAGE_UNITS = 2  # of verl's store of samples, on each node; its own eight would reserve 8 CPUs
OFFLOAD = f"{ACTOR}.fsdp_config"
SPLIT, PART = f"{ROLLOUT}.tensor_model_parallel_size", f"{ROLLOUT}.gpu_memory_utilization"

States = Literal["gpu", "between", "cpu"]


def reserved_cpus(gpus: int) -> int:
    """Return the CPUs of a node that verl 0.9.1 reserves in Ray: store, storage units, 3 a GPU."""
    return 1 + STORAGE_UNITS + 3 * gpus


def check_shares(x: Experiment, *, nodes: int, gpus: int) -> None:
    """Raise UserError where `nodes` x `gpus` GPUs cannot share a mini-batch evenly."""
    shared = sequence_parallel(tuned(x.verl))
    require(gpus % shared == 0, f"verl.{SEQUENCE}", shared, f"must divide a node's {gpus} GPU(s)")
    responses = x.sampling.prompts // x.optim.mini_batches * x.sampling.group_size
    remedy = (
        f"a mini-batch has {responses} responses, which {nodes * gpus} GPUs cannot share evenly; "
        "change sampling.prompts, sampling.group_size, optim.mini_batches or the number of GPUs, "
        f"or let GPUs share a sequence: verl.{SEQUENCE}"
    )
    fits = responses % (nodes * gpus // shared) == 0
    require(fits, "sampling.prompts", x.sampling.prompts, remedy)


@dataclass(frozen=True)
class Load:
    """The properties of a training run on which memory depends."""

    models: list[Size]  # the policy and, with DLC, its memory network: both are trained and sample
    trained: int  # tokens of the longest prompt and response in training
    sampled: int  # tokens of the longest prompt and response that vLLM samples, also to evaluate
    reference: bool  # whether there is a second model, for KL; verl keeps it in main memory
    logit_bytes: int = LOGIT_BYTES  # bytes of one logit of a pass

    @property
    def parameters(self) -> float:
        return sum(one.parameters for one in self.models)


def load_of(x: Experiment, models: list[Size], *, prompt: int) -> Load:
    """Return the load of `x` for models of these sizes and prompts of up to `prompt` tokens."""
    context = models[0].context
    longest = max(x.sampling.max_tokens, x.eval.max_tokens)
    tempered = LOGIT_BYTES if x.sampling.reported == 1 else TEMPERED_BYTES
    return Load(
        models=models,
        trained=min(prompt + x.sampling.max_tokens, context),
        sampled=min(prompt + longest, context),
        reference=x.method.kl_coef > 0,
        logit_bytes=BONUS_BYTES if x.method.entropy_coef != 0 else tempered,
    )


@dataclass(frozen=True)
class Layout:
    states: States  # where weights, gradients and moments are; "between": on GPUs only to train
    tokens: int  # of one pass on one GPU
    parallel: int  # GPUs that share one vLLM
    share: float  # vLLM's share of a GPU's memory
    training_gb: float  # on each GPU, at the peak
    sampling_gb: float
    vllm_gb: float  # vLLM's weights on each GPU
    host_gb: float  # of main memory, all nodes together
    fits: bool

    def __str__(self) -> str:
        where = {"gpu": "on the GPUs", "between": "in main memory while vLLM samples"}
        states = where.get(self.states, "in main memory, where the CPU makes the optimiser step")
        moved = "" if self.states == "gpu" else " (hours without moving them)"
        vllm = f"{self.parallel} GPU{'s' * (self.parallel > 1)} a vLLM"
        return f"states {states}{moved}, {self.tokens:,} tokens a pass, {vllm}"

    @property
    def peak_gb(self) -> float:
        return max(self.training_gb, self.sampling_gb)

    def keys(self) -> dict[str, object]:
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
    """Return the fastest layout that fits `nodes` x `gpus` GPUs of `gpu_gb` GB, or else the
    smallest one, with the user's keys `given` (tuning.py). Raises UserError for a wrong split of a
    node."""
    places: tuple = ("gpu", "between", "cpu")
    if given.get(f"{OFFLOAD}.offload_policy"):
        places = ("cpu",)
    elif given.get(f"{OFFLOAD}.param_offload") or given.get(f"{OFFLOAD}.optimizer_offload"):
        places = ("between",)
    longest = math.ceil(load.trained / sequence_parallel(given))  # one GPU's part
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
    # estimates: so passes longer than `long` must take no more than vLLM and what is held with it
    room = (one for one in found if one.tokens <= long or one.training_gb <= one.sampling_gb)
    fitting = (one for one in room if one.fits)
    return next(fitting, min(found, key=lambda one: (one.peak_gb, one.training_gb)))


def fewest(parameters: float, gpus: int, share_gb: float) -> int:
    """Return the fewest GPUs of a node on which one vLLM's weights leave half of its share for the
    cache. A submission may give more (sweeps/cost.py, `on`)."""
    counts = [count for count in PARALLEL if gpus % count == 0]
    enough = [count for count in counts if 2 * parameters / count / 1e9 <= share_gb / 2]
    return enough[0] if enough else counts[-1]


def whole_heads(models: list[Size], gpus: int) -> list[int]:
    """Return over how many of a node's GPUs one vLLM can split the keys' heads of all `models`."""
    whole = [n for n in PARALLEL if all(one.kv_width % (n * HEAD) == 0 for one in models)]
    return [count for count in whole if gpus % count == 0]


def _layout(load: Load, gpus, gpu_gb, usable, states, tokens, parallel, share) -> Layout:
    P, reference = load.parameters, 4 * load.reference * load.models[0].parameters
    here = {"gpu": (STATE_BYTES, HELD_BYTES), "between": (STATE_BYTES, 0), "cpu": (0, 0)}[states]
    # policy and memory network are trained one after the other
    passes = [pass_bytes(one, tokens, load.logit_bytes) for one in load.models]
    training = (here[0] * P / gpus + max(passes)) / 1e9 + ASLEEP_GB.get(parallel, 7.0)
    sampling = here[1] * P / gpus / 1e9 + share * gpu_gb
    weights = 2 * P / parallel / 1e9
    a_token = sum(token_bytes(one) for one in load.models)
    cache = a_token * load.sampled / parallel / 1e9  # of one prompt and response
    host = {"gpu": 0, "between": STATE_BYTES, "cpu": STATE_BYTES}[states] * P + reference
    room = usable * gpu_gb
    kept = weights + reserved_bytes(load, parallel) / 1e9
    fits = max(training, sampling) <= room and kept + cache <= share * gpu_gb
    return Layout(states, tokens, parallel, share, training, sampling, weights, host / 1e9, fits)


def token_bytes(size: Size) -> int:
    """Return the bytes of one token's keys and values in the cache, in bfloat16."""
    return 4 * size.layers * size.kv_width


def reserved_bytes(load: Load, parallel: int) -> float:
    """Return the bytes besides the weights when vLLM sizes its cache: states of the longest pass
    (about 32 bytes a token and unit of width), logits in float32 thrice, RUNTIME_BYTES."""
    size = load.models[0]
    states = 32 * size.hidden * max(BATCHED, load.sampled) / parallel
    return states + 3 * 4 * SEQUENCES * size.vocab + RUNTIME_BYTES


def pass_bytes(size: Size, tokens: int, logit_bytes: int = LOGIT_BYTES) -> float:
    """Return the bytes of one pass besides the states, at the fullest of three moments: the loss;
    the backward pass of the output layer; that of the last block, computed again while the output
    layer's gradient becomes float32 and is shared out over the GPUs."""
    logits, table = tokens * size.vocab, size.vocab * size.hidden
    layer = 2 * size.parameters / size.layers  # FSDP gathers one layer ahead, in bfloat16
    kept = 2 * tokens * size.hidden * (size.layers + 4)  # a checkpoint a layer, and the last states
    block = 2 * tokens * size.hidden * 12
    return layer + kept + max(logit_bytes * logits, 2 * logits + 4 * table, 6 * table + block)
