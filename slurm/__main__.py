"""A paper's jobs on a cluster; slurm/launch.py submits them.

    rlvr status paper=f_grpo
    rlvr cancel paper=f_grpo
    srun --gpus-per-node=8 rlvr preflight [device=auto|cpu] [backend=verl|local]
    rlvr rehearse paper=f_grpo [row=qwen15b_math_grpo] [samples=2048] [nodes=1]

status and cancel take scale=NAME and results_dir=FOLDER. preflight checks the node that it runs on,
as a job does before it computes: driver, GPUs and their free memory, flash-attn, shared memory,
TMPDIR, a sum over all GPUs.

rehearse runs one row (a named experiment) with its own numbers on a stub model, without a GPU
(tests/slurm/one_machine.py starts a SLURM for it). A training step and an evaluation draw at most
`samples` samples, a point of the training curve at most a quarter of them. The output says what is
cut because of that. With nodes=2 the training runs on a Ray cluster of two nodes.
"""

import os
from dataclasses import replace
from pathlib import Path

from common.cli import run
from common.config.files import known_paper
from common.config.words import split
from common.errors import require
from common.sweeps.plan import Reproduce
from slurm.tables import asked_for

OPTIONS = {
    "status": {"paper": "", "scale": "cluster"},
    "cancel": {"paper": "", "scale": "cluster"},
    "preflight": {"device": "auto", "backend": "verl", "folder": "."},
    "rehearse": {
        "paper": "",
        "profile": "rehearsal",
        "scale": "cluster",
        "row": "",
        "samples": "2048",
        "nodes": "1",
    },
}


def main(words: list[str]) -> None:
    verb, *arguments = words or [""]
    require(verb in OPTIONS, "command", verb, f"use one of {', '.join(OPTIONS)}")
    given, others = split(arguments, OPTIONS[verb])
    if verb == "preflight":
        require(not others, "preflight", " ".join(others), f"takes {', '.join(given)}")
        _preflight(**given)
        return
    paper = known_paper(given["paper"])
    asked = asked_for(paper, given["scale"], others)
    if verb == "rehearse":
        _rehearse(given, asked)
        return
    from slurm import status

    if verb == "status":
        print(status.show(Path(asked.root), paper))
    else:
        status.submitted(Path(asked.root), paper)  # fails without jobs: a wrong argument
        cancelled = status.cancel(Path(asked.root), paper)
        print(f"{len(cancelled)} jobs cancelled; finished runs and checkpoints are kept")


def _preflight(device: str, backend: str, folder: str) -> None:
    """Check this node. srun starts this on every node, with one task per node, and the tasks tell
    each other what they find through the folder `folder`/preflight-JOB-STEP."""
    require(device in ("auto", "cpu", "cuda"), "device", device, "use auto, cpu or cuda")
    require(backend in ("verl", "local"), "backend", backend, "use verl or local")
    from slurm import node

    words = {key: os.environ.get(f"SLURM_{key}", "0") for key in ("PROCID", "NNODES", "STEP_ID")}
    need = node.by_hand(device, backend == "verl", int(words["NNODES"]) or 1)
    name = f"preflight-{os.environ.get('SLURM_JOB_ID', '')}-{words['STEP_ID']}"
    node.ready(need, Path(folder).resolve() / name, int(words["PROCID"]))


def _rehearse(given: dict[str, str], asked: Reproduce) -> None:
    from common.sweeps.profiles import load_profile
    from slurm.rehearsal.run import rehearse
    from slurm.rehearsal.stub import Most

    for key in ("samples", "nodes"):
        fits = given[key].isdecimal() and int(given[key]) > 0
        require(fits, key, given[key], "a whole number above 0")
    samples, profile = int(given["samples"]), load_profile(given["profile"])
    profile = replace(profile, nodes=int(given["nodes"]))
    most = Most(step=samples, curve=max(1, samples // 4), job=samples)
    rehearse(asked, given["row"], profile=profile, most=most)


if __name__ == "__main__":
    run(main, __doc__)
