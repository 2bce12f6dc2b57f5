"""Whether a training fits a profile: the memory that it takes, predicted from sizes without torch,
and the checks that refuse it with the key to change."""

import math

from common.backends import backend
from common.backends.verl import layout, tuning
from common.errors import require
from common.experiment import Experiment
from common.models.size import Size
from common.sweeps.assumptions import FILE, Assumptions, accelerator
from common.sweeps.profiles import Profile


def laid_out(
    x: Experiment, models: list[Size], prompt: int, profile: Profile, a: Assumptions
) -> layout.Layout | None:
    """Return the layout that the verl backend will choose on this profile; None for the local
    backend, whose memory is not predicted. `models` are the policy and, with DLC, its memory
    network; `prompt` counts the tokens of the longest prompt. Raises UserError where the memory is
    more than the usable share of the accelerator's, with the key to change."""
    if not backend(x.backend).needs_gpu:
        return None
    load = layout.load_of(x, models, prompt=prompt)
    node, memory_gb = max(1, profile.gpus_per_node), accelerator(profile, a).memory_gb
    where = {"nodes": profile.nodes, "gpus": node, "gpu_gb": memory_gb}
    one = layout.choose(load, **where, given=tuning.tuned(x.verl), usable=a.usable_memory)
    if x.optim.steps == 0:
        return one
    gpus = profile.nodes * node
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
        held <= a.usable_memory * (profile.memory_gb or math.inf),
        "memory_gb",
        profile.memory_gb,
        f"weights, gradients and moments of {x.model.path} do not fit {gpus} GPUs of "
        f"{memory_gb:g} GB, and take {held:.0f} GB of main memory a node; choose a profile "
        "with more GPUs or more main memory",
    )
    return one


# ---- checks next to memory


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
    shared = tuning.sequence_parallel(tuning.tuned(x.verl))
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
    x: Experiment, profile: Profile, a: Assumptions, steps_s: float, curve_s: float
) -> None:
    """Check that an attempt reaches a checkpoint and ends an evaluation; otherwise no attempt would
    ever get further."""
    if x.optim.steps == 0:
        return
    points = len(x.eval.curve(x.optim.steps)) + 1
    needed = a.start(profile) + curve_s / points
    needed += min(x.checkpoint_every or 1, x.optim.steps) * steps_s / x.optim.steps
    require(
        needed < 60 * profile.time_min,
        "time_min",
        profile.time_min,
        f"an attempt on profile {profile.name} ends before the first checkpoint and an evaluation, "
        f"which take {needed / 60:,.0f} minutes at least; raise it",
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
