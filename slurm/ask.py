"""What a job of each kind takes of a profile."""

from dataclasses import replace

from common.sweeps.profiles import Profile
from slurm import plan


def ask(profile: Profile, job: plan.Job) -> Profile:
    """Return the profile with what a job takes of it. A command of the paper, or a training on all
    GPUs of the profile, takes whole nodes; so would one that cannot run."""
    if job.kind in plan.LIGHT:
        # at most half of the time limit: a signal in the first minute would requeue it for ever
        lead = min(profile.signal_lead_s, 30 * profile.light_time_min)
        light = dict(cpus_per_node=profile.light_cpus, memory_gb=profile.light_memory_gb)
        light |= dict(time_min=profile.light_time_min, signal_lead_s=lead)
        return replace(profile, nodes=1, gpus_per_node=0, small=None, **light)
    gpus = max(1, profile.gpus) if job.gpus is None else job.gpus
    return profile if job.kind in plan.WHOLE and gpus >= profile.gpus else profile.share(gpus)
