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
    if kind in plan.WHOLE and gpus >= profile.gpus:
        size = (profile.nodes, profile.gpus_per_node, profile.cpus_per_node, profile.memory_gb)
        return Ask(*size, profile.time_min, profile.signal_lead_s)
    share = max(1, profile.gpus_per_node)
    cpus = max(1, gpus * profile.cpus_per_node // share)
    memory = max(1, gpus * profile.memory_gb // share) if profile.memory_gb else None
    size = (1, min(gpus, profile.gpus_per_node), cpus, memory)
    return Ask(*size, profile.time_min, profile.signal_lead_s)
