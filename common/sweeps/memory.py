"""Predicts the peak memory (GB) of a training's fullest accelerator from sizes, without torch."""

from common.backends import backend
from common.backends.verl import layout, tuning
from common.backends.verl.layout import STATE_BYTES
from common.errors import require
from common.experiment import Experiment
from common.models.size import Size
from common.sweeps.assumptions import Accelerator
from common.sweeps.profiles import Profile


def peak_gb(
    x: Experiment,
    size: Size,
    network: Size | None,
    prompt: int,
    unit: Accelerator,
    profile: Profile,
    usable: float,
) -> float:
    """Return the most GB that one accelerator holds at once. `network` is DLC's memory network.
    Raises UserError where that is more than the share `usable` of its memory, with the key to
    change."""
    if x.optim.steps == 0:
        return 2 * size.parameters / 1e9
    if backend(x.backend).needs_gpu:
        return _verl(x, size, network, prompt, unit, profile, usable)
    peak = _local(x, size, network, prompt)
    require(
        peak <= usable * unit.memory_gb,
        "optim.micro_batch",
        x.optim.micro_batch,
        f"about {peak:.0f} GB of {unit.memory_gb:g}: lower it, set "
        "optim.gradient_checkpointing=true, or choose a profile with more memory",
    )
    return peak


def laid_out(
    x: Experiment,
    size: Size,
    network: Size | None,
    prompt: int,
    unit: Accelerator,
    profile: Profile,
    usable: float,
) -> layout.Layout:
    """Return the layout that the verl backend will choose on these GPUs."""
    load = layout.load_of(x, size, prompt=prompt, memory=network)
    nodes, gpus = profile.nodes, max(1, profile.gpus_per_node)
    where = {"nodes": nodes, "gpus": gpus, "gpu_gb": unit.memory_gb, "given": tuning.chosen(x)}
    return layout.choose(load, **where, usable=usable)


def _verl(
    x: Experiment,
    size: Size,
    network: Size | None,
    prompt: int,
    unit: Accelerator,
    profile: Profile,
    usable: float,
) -> float:
    one = laid_out(x, size, network, prompt, unit, profile, usable)
    nodes, gpus = profile.nodes, max(1, profile.gpus_per_node)
    require(
        one.fits,
        "model.path",
        x.model.path,
        f"does not fit: about {one.training_gb:.0f} GB on each of {nodes * gpus} GPUs of "
        f"{unit.memory_gb:g} GB in training, and {one.vllm_gb:.0f} of vLLM's weights in its share "
        f"of {one.share * unit.memory_gb:.0f}, with what can be kept in main memory there; choose "
        "a profile with more GPUs or larger ones",
    )
    held = one.host_gb / nodes
    require(
        held <= usable * profile.memory_gb,
        "memory_gb",
        profile.memory_gb,
        f"weights, gradients and moments of {x.model.path} do not fit {nodes * gpus} GPUs of "
        f"{unit.memory_gb:g} GB, and take {held:.0f} GB of main memory a node; choose a profile "
        "with more GPUs or more main memory",
    )
    return one.peak_gb


def _local(x: Experiment, size: Size, network: Size | None, prompt: int) -> float:
    """Return the GB of the local backend's one process: weights, gradients and moments in float32,
    and everything that one pass over micro_batch responses keeps."""
    length = min(prompt + x.sampling.max_tokens, size.context)
    kept = activation_bytes(size, checkpointing=x.optim.gradient_checkpointing)
    activations = x.optim.micro_batch * length * kept
    logits = 2 * 4 * x.optim.micro_batch * x.sampling.max_tokens * size.vocab  # and their gradient
    return (_states(x, size, network) + activations + logits) / 1e9


def activation_bytes(size: Size, *, checkpointing: bool) -> float:
    """Return the bytes that a token keeps for the backward pass in float32, without logits: in
    every layer or, with checkpointing, in one layer and for the inputs of all. A block keeps about
    13.5 vectors as wide as the model and 4 as wide as its MLP (counted:
    tests/sweeps/test_local_memory.py). The width of the MLP follows from the number of
    parameters."""
    layer = (size.parameters - size.vocab * size.hidden) / size.layers
    wide = max(0.0, layer / size.hidden - 2 * (size.hidden + size.kv_width)) / 3
    block = 4 * (13.5 * size.hidden + 4 * wide)
    return block + 4 * size.hidden * size.layers if checkpointing else block * size.layers


def _states(x: Experiment, size: Size, network: Size | None) -> float:
    reference = 4 if x.method.kl_coef > 0 else 0
    rounded = 2 if x.sampling.dtype == "bfloat16" else 0  # the bfloat16 copy that samples
    beside = STATE_BYTES * network.parameters if network else 0
    return (STATE_BYTES + reference + rounded) * size.parameters + beside
