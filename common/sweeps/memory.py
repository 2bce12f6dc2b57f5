"""What the fullest accelerator of a training holds, in GB, from sizes alone: no torch, no GPU."""

from common.backends import backend
from common.errors import require
from common.experiment import Experiment
from common.sweeps.assumptions import Accelerator, Size

STATE_BYTES = 16  # a parameter: float32 weight, gradient and two Adam moments
# A logit of a packed pass, in bfloat16: as the model gives it, divided by the temperature, and the
# gradient that flash-attn's cross entropy writes in place of one (verl 0.9.1, transformer_impl.py).
LOGIT_BYTES = 6
PACKED = 16_384  # tokens a GPU and pass at least (backends/verl/config.py)


def peak_gb(
    x: Experiment, size: Size, prompt: int, gpus: int, unit: Accelerator, usable: float
) -> float:
    """The most that one of `gpus` accelerators holds at once. Raises UserError where that is more
    than the share `usable` of its memory, with the key to change."""
    if x.optim.steps == 0:
        return 2 * size.parameters / 1e9
    if not backend(x.backend).needs_gpu:
        key, value, peak = "optim.micro_batch", x.optim.micro_batch, _local(x, size, prompt, gpus)
        remedy = "lower it, or choose a profile with more nodes or memory"
    else:
        peak, sleeping = _passes(x, size, prompt, gpus), _sampling(x, size, gpus, unit)
        key, value, peak = "model.path", x.model.path, max(peak, sleeping)
        remedy = "choose a profile with more nodes or memory"
    require(
        peak <= usable * unit.memory_gb,
        key,
        value,
        f"about {peak:.0f} GB on each of {gpus} GPUs of {unit.memory_gb:g} GB: {remedy}",
    )
    return peak


def _local(x: Experiment, size: Size, prompt: int, gpus: int) -> float:
    """All in one pass of micro_batch responses: checkpointed activations (bfloat16), logits with
    their gradient (float32)."""
    tokens = x.optim.micro_batch * min(prompt + x.sampling.max_tokens, size.context)
    activations = 2 * tokens * size.hidden * (size.layers + 16)
    logits = 2 * 4 * x.optim.micro_batch * x.sampling.max_tokens * size.vocab
    return (_states(x, size) / gpus + _gathered(size) + activations + logits) / 1e9


def _passes(x: Experiment, size: Size, prompt: int, gpus: int) -> float:
    """verl's training while vLLM sleeps: passes are packed to a number of tokens, whatever
    micro_batch is."""
    tokens = max(PACKED, 2 * min(prompt + x.sampling.max_tokens, size.context))
    activations = 2 * tokens * size.hidden * (size.layers + 16)
    logits = LOGIT_BYTES * tokens * size.vocab
    return (_states(x, size) / gpus + _gathered(size) + activations + logits) / 1e9


def _sampling(x: Experiment, size: Size, gpus: int, unit: Accelerator) -> float:
    """verl's sampling: vLLM takes its share of the memory beside weights and moments."""
    return (_states(x, size) - 4 * size.parameters) / gpus / 1e9 + 0.6 * unit.memory_gb


def _states(x: Experiment, size: Size) -> float:
    reference = 4 if x.method.kl_coef > 0 else 0
    return (STATE_BYTES + reference) * size.parameters


def _gathered(size: Size) -> float:
    """Of FSDP: a layer's weights, whole, in bfloat16."""
    return 2 * size.parameters / size.layers
