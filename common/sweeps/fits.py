"""Whether a training fits a profile: the memory that it takes, predicted from sizes without torch,
and the checks that refuse it with the key to change."""

import math

from common.backends import backend
from common.backends.verl import layout, tuning
from common.backends.verl.layout import STATE_BYTES
from common.datasets.prompts import stated
from common.errors import require
from common.experiment import Experiment
from common.models.size import Size
from common.sweeps.assumptions import FILE, Assumptions, accelerator
from common.sweeps.profiles import Profile


def laid_out(
    x: Experiment, models: list[Size], prompt: int, profile: Profile, a: Assumptions
) -> layout.Layout:
    """Return the layout that the verl backend will choose on this profile. `models` are the policy
    and, with DLC, its memory network; `prompt` counts the tokens of the longest prompt."""
    size, *network = models
    load = layout.load_of(x, size, prompt=prompt, memory=network[0] if network else None)
    gpus, memory_gb = max(1, profile.gpus_per_node), accelerator(profile, a).memory_gb
    where = {"nodes": profile.nodes, "gpus": gpus, "gpu_gb": memory_gb}
    return layout.choose(load, **where, given=tuning.chosen(x), usable=a.usable_memory)


def peak_gb(
    x: Experiment, models: list[Size], prompt: int, profile: Profile, a: Assumptions
) -> float:
    """Return the most GB that one accelerator holds at once: weights, gradients, moments and a
    pass, or vLLM's weights and cache. Raises UserError where that is more than the usable share of
    its memory, with the key to change."""
    size, memory_gb = models[0], accelerator(profile, a).memory_gb
    if x.optim.steps == 0:
        return 2 * size.parameters / 1e9
    if not backend(x.backend).needs_gpu:
        peak = _local_gb(x, models, prompt)
        require(
            peak <= a.usable_memory * memory_gb,
            "optim.micro_batch",
            x.optim.micro_batch,
            f"about {peak:.0f} GB of {memory_gb:g}: lower it, set "
            "optim.gradient_checkpointing=true, or choose a profile with more memory",
        )
        return peak
    one, gpus = laid_out(x, models, prompt, profile, a), max(1, profile.gpus)
    require(
        one.fits,
        "model.path",
        x.model.path,
        f"does not fit: about {one.training_gb:.0f} GB on each of {gpus} GPUs of "
        f"{memory_gb:g} GB in training, and {one.vllm_gb:.0f} of vLLM's weights in its share "
        f"of {one.share * memory_gb:.0f}, with what can be kept in main memory there; choose "
        "a profile with more GPUs or larger ones",
    )
    held = one.host_gb / profile.nodes
    require(
        held <= a.usable_memory * profile.memory_gb,
        "memory_gb",
        profile.memory_gb,
        f"weights, gradients and moments of {x.model.path} do not fit {gpus} GPUs of "
        f"{memory_gb:g} GB, and take {held:.0f} GB of main memory a node; choose a profile "
        "with more GPUs or more main memory",
    )
    return one.peak_gb


def _local_gb(x: Experiment, models: list[Size], prompt: int) -> float:
    """Return the GB of the local backend's one process: weights, gradients and moments in float32,
    and everything that one pass over micro_batch responses keeps."""
    size = models[0]
    length = min(prompt + x.sampling.max_tokens, size.context)
    kept = activation_bytes(size, checkpointing=x.optim.gradient_checkpointing)
    activations = x.optim.micro_batch * length * kept
    logits = 2 * 4 * x.optim.micro_batch * x.sampling.max_tokens * size.vocab  # and their gradient
    reference = 4 if x.method.kl_coef > 0 else 0
    rounded = 2 if x.sampling.dtype == "bfloat16" else 0  # the bfloat16 copy that samples
    states = STATE_BYTES * sum(one.parameters for one in models)
    return (states + (reference + rounded) * size.parameters + activations + logits) / 1e9


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


# ---- checks beside memory


def check_layout(x: Experiment, profile: Profile, size: Size, prompt: int, gpus: int) -> None:
    """Check nodes, CPUs and the division of a mini-batch over the GPUs."""
    check_prompt(prompt, size, x.model.name)
    if not backend(x.backend).needs_gpu:
        said = f"backend={x.backend} is one process; choose a profile with one node, not "
        require(profile.nodes == 1, "nodes", profile.nodes, said + profile.name)
        return
    needed = layout.reserved_cpus(profile.gpus_per_node)
    require(
        profile.gpus_per_node == 0 or profile.cpus_per_node >= needed,
        "cpus_per_node",
        profile.cpus_per_node,
        f"verl reserves {needed} CPUs of a node with {profile.gpus_per_node} GPU(s), and Ray would "
        f"wait for ever for what is missing; set at least {needed} in profile {profile.name}",
    )
    each = x.sampling.prompts * x.sampling.group_size // x.optim.mini_batches
    shared = tuning.sequence_parallel(tuning.chosen(x))
    ranks = gpus // shared
    require(
        each % ranks == 0 and profile.gpus_per_node % shared == 0,
        "sampling.prompts",
        x.sampling.prompts,
        f"{each} responses a mini-batch do not divide over {gpus} GPUs of profile {profile.name}; "
        f"make prompts x group_size / mini_batches a multiple of {ranks}, or let more GPUs share "
        f"a sequence: verl.{tuning.SEQUENCE}",
    )


def check_time(
    x: Experiment, profile: Profile, a: Assumptions, *, steps_s: float, curve_s: float
) -> None:
    """Check that an attempt reaches a checkpoint; otherwise no attempt would ever get further."""
    if x.optim.steps == 0:
        return
    points = math.ceil(x.optim.steps / x.eval.every)
    needed = a.start(profile) + curve_s / points
    needed += min(x.checkpoint_every, x.optim.steps) * steps_s / x.optim.steps
    require(
        needed < 60 * profile.time_min,
        "checkpoint_every",
        x.checkpoint_every,
        f"so many steps and an evaluation take {needed / 60:,.0f} minutes at least, and an attempt "
        f"on profile {profile.name} ends after {profile.time_min}; lower it, or raise time_min",
    )


def check_main_memory(
    x: Experiment, profile: Profile, a: Assumptions, *, rollout: float, evaluated: float
) -> None:
    """Check that a whole rollout or evaluation, which verl's TransferQueue holds in main memory,
    takes less than half of it."""
    if not backend(x.backend).needs_gpu:
        return
    problems = sum(stated(node) or a.benchmark_problems for node in x.data.benchmarks.values())
    draws = problems * (
        x.eval.n + max(0, math.ceil(x.optim.steps / x.eval.every) - 1) * x.eval.curve_n
    )
    largest = evaluated / max(1, draws) * problems * max(x.eval.n, x.eval.curve_n)
    held = a.queue_bytes_per_token * max(largest, rollout / max(1, x.optim.steps)) / 1e9
    room = profile.nodes * profile.memory_gb
    require(
        held < 0.5 * room,
        "eval.n",
        x.eval.n,
        f"an evaluation or a rollout takes about {held:,.0f} GB of main memory, and profile "
        f"{profile.name} has {room:,} GB for everything; lower eval.n, eval.curve_n or "
        "sampling.prompts, or raise memory_gb",
    )


def check_prompt(prompt: int, size: Size, name: str) -> None:
    """Check that the longest prompt leaves room for a response. A long prompt gets shorter
    responses; one that fills the context gets none."""
    require(
        prompt < size.context,
        "prompt_tokens",
        prompt,
        f"prompts of so many tokens leave no room for a response in the context of {name}, "
        f"{size.context}; take a model with a longer one, or correct prompt_tokens in {FILE}",
    )
