"""What the tests of whole verl runs share: a tiny model, its flags, and what a run leaves."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from common.config.files import ROOT
from common.experiment import load
from common.models import load as load_module
from common.models import store

DEVICE = os.environ.get("CLUSTER_TESTS", "cpu")
SIZES = {  # heads of 32 are vLLM's smallest on a CPU
    "demonstrations": 8000,
    "batch_size": 64,
    "lr": 0.03,
    "embedding_lr": 0.02,
    "layers": 1,
    "hidden_size": 64,
    "heads": 2,
    "kv_heads": 1,
    "intermediate_size": 64,
    "seed": 0,  # one base model for all seeds
}
PRETRAIN = ["model.name=tiny", *(f"model.pretrain.{key}={value}" for key, value in SIZES.items())]
SMALL = [
    "backend=verl",
    f"device={DEVICE}",
    "data.train.size=40",
    "data.benchmarks.natural.size=4",
    "data.benchmarks.rare.size=4",
    "sampling.prompts=4",
    "sampling.group_size=8",
    "optim.lr=1e-3",
    "optim.warmup_steps=0",
    "optim.mini_batches=1",
    "optim.micro_batch=16",
    "eval.n=8",
    "eval.k=[1,4,8]",
    "eval.curve_n=4",
    "eval.rare_nll_samples=0",
    "checkpoint_every=1",
]


def pretrained(folder: Path, *more: str) -> Path:
    """The tiny model, as a folder of Hugging Face files."""
    x = load([*PRETRAIN, *more], "f_grpo")
    load_module.load_model(x.model, folder, "cpu")
    return Path(store.folder(x.model, folder))


def flags(model: Path, folder: Path, *more: str) -> list[str]:
    chosen = ["model=huggingface", f"model.path={model}", "model.name=tiny"]
    return [*SMALL, *chosen, f"results_dir={folder}", *more]


def policy(path: Path):
    """(model, tokenizer) of a Hugging Face folder."""
    chosen = load(["model=huggingface", f"model.path={path}"], "f_grpo").model
    return load_module.load_model(chosen, path, "cpu")


def program(name: str, folder: Path, **environment: str | None) -> None:
    """Run a program of this folder with more environment, None for less; its deadline is for one
    that hangs, not for a busy machine."""
    here = Path(__file__).parent
    paths = os.pathsep.join(map(str, (ROOT, here, here.parent / "support")))
    changed = os.environ | {"PYTHONPATH": paths} | environment
    done = subprocess.run(
        [sys.executable, str(here / name), str(folder)],
        cwd=ROOT,
        env={key: value for key, value in changed.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


def of_this_run(run: Path) -> list[int]:
    """Processes that have the run's folder on their command line or in their environment (where
    verl's log lies)."""
    pids = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        words = [*(process.info["cmdline"] or []), *(process.info["environ"] or {}).values()]
        if any(str(run) in word for word in words):
            pids.append(process.pid)
    return pids
