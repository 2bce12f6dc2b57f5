"""What a job of each kind asks SLURM for, from the profile."""

from dataclasses import dataclass

from common.sweeps.profiles import Profile
from slurm import plan


@dataclass(frozen=True)
class Ask:
    """Of one job."""

    nodes: int
    gpus_per_node: int
    cpus_per_node: int
    memory_gb: int
    time_min: int
    signal_lead_s: int  # USR2 comes so long before the limit
    parallel: int  # of its array, at once


def ask(profile: Profile, kind: plan.Kind, gpus: int) -> Ask:
    """What a job of this kind asks for; `gpus` are its Estimate's.

    Fine-tuning, and a training on all GPUs of the profile, have its nodes whole. A training on one
    GPU (the local backend), and what samples, take `gpus` of a node and their share of its CPUs and
    memory. As many of them run at once as there are GPUs for the profile's training jobs.
    """
    if kind in plan.LIGHT:
        cpus, memory = profile.light_cpus, profile.light_memory_gb
        # of a short limit at most a half: a signal in its first minute would requeue it for ever
        lead = min(profile.signal_lead_s, 30 * profile.light_time_min)
        return Ask(1, 0, cpus, memory, profile.light_time_min, lead, profile.array_parallelism)
    if kind in plan.WHOLE and gpus >= profile.gpus:
        size = (profile.nodes, profile.gpus_per_node, profile.cpus_per_node, profile.memory_gb)
        return Ask(*size, profile.time_min, profile.signal_lead_s, profile.array_parallelism)
    share = max(1, profile.gpus_per_node)
    cpus, memory = (
        max(1, gpus * whole // share) for whole in (profile.cpus_per_node, profile.memory_gb)
    )
    parallel = max(1, profile.array_parallelism * max(1, profile.gpus) // gpus)
    size = (1, min(gpus, profile.gpus_per_node), cpus, memory)
    return Ask(*size, profile.time_min, profile.signal_lead_s, parallel)
