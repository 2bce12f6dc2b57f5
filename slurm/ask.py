"""The resources that a job of each kind asks SLURM for, taken from the profile."""

from dataclasses import dataclass

from common.sweeps.profiles import Profile
from slurm import plan


@dataclass(frozen=True)
class Ask:
    """The resources that one job asks for."""

    nodes: int
    gpus_per_node: int
    cpus_per_node: int
    memory_gb: int | None
    time_min: int
    signal_lead_s: int  # how long before the time limit SLURM sends USR2


def ask(profile: Profile, kind: plan.Kind, gpus: int) -> Ask:
    """Return the resources that a job of this kind asks for; `gpus` is the number of GPUs in its
    Estimate.

    A command of the paper (fine-tuning) or a training run that uses all GPUs of the profile takes
    whole nodes. A training run on fewer GPUs (one with the local backend) and a job that samples
    take `gpus` GPUs of one node, with their share of its CPUs and memory.
    """
    if kind in plan.LIGHT:
        cpus, memory = profile.light_cpus, profile.light_memory_gb
        # at most half of the time limit: a signal in the first minute would requeue it for ever
        lead = min(profile.signal_lead_s, 30 * profile.light_time_min)
        return Ask(1, 0, cpus, memory, profile.light_time_min, lead)
    nodes, count, cpus = profile.nodes, profile.gpus_per_node, profile.cpus_per_node
    memory, share = profile.memory_gb, max(1, count)
    if kind not in plan.WHOLE or gpus < profile.gpus:
        nodes, count, cpus = 1, min(gpus, count), max(1, gpus * cpus // share)
        memory = memory and max(1, gpus * memory // share)
    return Ask(nodes, count, cpus, memory, profile.time_min, profile.signal_lead_s)
