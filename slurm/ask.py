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
    parallel: int  # of its array, at once


def ask(profile: Profile, kind: plan.Kind) -> Ask:
    """An evaluation takes one GPU and its share of the node: engines work side by side, one a
    (model, benchmark)."""
    if kind in plan.LIGHT:
        cpus, memory = profile.light_cpus, profile.light_memory_gb
        return Ask(1, 0, cpus, memory, profile.light_time_min, profile.array_parallelism)
    if kind == "train":
        size = (profile.nodes, profile.gpus_per_node, profile.cpus_per_node, profile.memory_gb)
        return Ask(*size, profile.time_min, profile.array_parallelism)
    share = max(1, profile.gpus_per_node)
    cpus, memory = max(1, profile.cpus_per_node // share), max(1, profile.memory_gb // share)
    parallel = profile.array_parallelism * max(1, profile.gpus)
    return Ask(1, min(1, profile.gpus_per_node), cpus, memory, profile.time_min, parallel)
