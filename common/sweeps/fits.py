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
    """Return the layout that the verl backend will choose on this profile; None for the local one,
    whose memory is not predicted. `models`: the policy and, with DLC, its memory network. Raises
    UserError where the usable memory is too small, with the key to change."""
    if not backend(x.backend).needs_gpu:
        return None
    load = layout.load_of(x, models, prompt=prompt)
    node, memory_gb = max(1, profile.gpus_per_node), accelerator(profile, a).memory_gb
    where = {"nodes": profile.nodes, "gpus": node, "gpu_gb": memory_gb}
    one = layout.choose(load, **where, given=tuning.tuned(x.verl), usable=a.usable_memory)
    if x.optim.steps == 0:
        return one
    gpus = profile.nodes * node
    remedy = f"does not fit: about {one.training_gb:.0f} GB on each of {gpus} GPUs of "
    remedy += f"{memory_gb:g} GB in training, and {one.vllm_gb:.0f} of vLLM's weights in its share "
    remedy += f"of {one.share * memory_gb:.0f}, with what can be kept in main memory there; choose "
    remedy += "a profile with more GPUs or larger ones"
    require(one.fits, "model.path", x.model.path, remedy)
    held = one.host_gb / profile.nodes
    remedy = f"weights, gradients and moments of {x.model.path} do not fit {gpus} GPUs of "
    remedy += f"{memory_gb:g} GB, and take {held:.0f} GB of main memory a node; choose a profile "
    remedy += "with more GPUs or more main memory"
    fits = held <= a.usable_memory * (profile.memory_gb or math.inf)
    require(fits, "memory_gb", profile.memory_gb, remedy)
    return one


# ---- checks next to memory


def check_layout(x: Experiment, profile: Profile, size: Size, prompt: int) -> None:
    check_prompt(prompt, size, x.model.name)
    if not backend(x.backend).needs_gpu:
        said = f"backend={x.backend} is one process; choose a profile with one node, not "
        require(profile.nodes == 1, "nodes", profile.nodes, said + profile.name)
        return
    needed = layout.reserved_cpus(profile.gpus_per_node)
    remedy = f"verl reserves {needed} CPUs of a node with {profile.gpus_per_node} GPU(s), and "
    remedy += f"Ray would wait for ever; set at least {needed} in profile {profile.name}"
    fits = profile.gpus_per_node == 0 or profile.cpus_per_node >= needed
    require(fits, "cpus_per_node", profile.cpus_per_node, remedy)
    layout.check_shares(x, nodes=profile.nodes, gpus=max(1, profile.gpus_per_node))


def check_time(
    x: Experiment, profile: Profile, a: Assumptions, steps_s: float, curve_s: float
) -> None:
    """Check that an attempt reaches a checkpoint and ends an evaluation."""
    if x.optim.steps == 0:
        return
    points = len(x.eval.curve(x.optim.steps)) + 1
    needed = a.start(profile) + curve_s / points
    needed += min(x.checkpoint_every or 1, x.optim.steps) * steps_s / x.optim.steps
    remedy = f"an attempt on profile {profile.name} ends before the first checkpoint and an "
    remedy += f"evaluation, which take {needed / 60:,.0f} minutes at least; raise it"
    require(needed < 60 * profile.time_min, "time_min", profile.time_min, remedy)


def check_prompt(prompt: int, size: Size, name: str) -> None:
    remedy = f"prompts of so many tokens leave no room for a response in the context of {name}, "
    remedy += f"{size.context}; take a model with a longer one, or correct prompt_tokens in {FILE}"
    require(prompt < size.context, "prompt_tokens", prompt, remedy)
