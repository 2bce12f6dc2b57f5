"""Checks for trainings that a profile cannot run. Each raises UserError with the key to change."""

import math

from common.backends import backend
from common.backends.verl import layout, tuning
from common.datasets.prompts import stated
from common.errors import require
from common.experiment import Experiment
from common.models.size import Size
from common.sweeps.assumptions import FILE, Assumptions
from common.sweeps.profiles import Profile


def check_layout(x: Experiment, profile: Profile, size: Size, prompt: int, gpus: int) -> None:
    check_prompt(prompt, size, x.model.name)
    if not backend(x.backend).needs_gpu:
        require(
            profile.nodes == 1,
            "nodes",
            profile.nodes,
            f"backend={x.backend} is one process; "
            f"choose a profile with one node, not {profile.name}",
        )
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
