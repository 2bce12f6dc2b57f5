"""A paper's jobs on a cluster; slurm/launch.py submits them.

    rlvr status paper=f_grpo
    rlvr cancel paper=f_grpo
    srun --gpus-per-node=8 rlvr preflight [device=auto|cpu] [verifier=code]

status and cancel take scale=NAME and results_dir=FOLDER. preflight checks the node that it runs on,
as a job does before it computes: driver, GPUs and their free memory, flash-attn, shared memory,
TMPDIR, a sum over all GPUs, and whether `verifier` works (`code` needs bubblewrap).
"""

import os
from pathlib import Path

from common.cli import run
from common.config.files import known_paper
from common.config.words import options, split
from common.errors import one_of, require
from common.evaluation.verify import NAMES
from common.platforms import need_linux
from slurm.tables import asked_for

OPTIONS = {
    "status": {"paper": "", "scale": "cluster"},
    "cancel": {"paper": "", "scale": "cluster"},
    "preflight": {"device": "auto", "folder": ".", "verifier": ""},
}


def main(words: list[str]) -> None:
    verb, *arguments = words or [""]
    require(verb in OPTIONS, "command", verb, f"use one of {', '.join(OPTIONS)}")
    if verb == "preflight":
        _preflight(**options(arguments, OPTIONS[verb]))
        return
    given, others = split(arguments, OPTIONS[verb])
    paper = known_paper(given["paper"])
    asked = asked_for(paper, given["scale"], others)
    from slurm import status

    if verb == "status":
        print(status.show(Path(asked.root), paper))
    else:
        cancelled = status.cancel(Path(asked.root), paper)
        print(f"{len(cancelled)} jobs cancelled; finished runs and checkpoints are kept")


def _preflight(device: str, folder: str, verifier: str) -> None:
    """Check this node. srun starts this once per node, and the tasks tell each other what they find
    through the folder `folder`/preflight-JOB-STEP."""
    require(device in ("auto", "cpu", "cuda"), "device", device, "use auto, cpu or cuda")
    one_of("verifier", verifier, ("", *NAMES))
    need_linux("command", "preflight", "run it on a node of the cluster")
    from slurm import node

    words = {key: os.environ.get(f"SLURM_{key}", "0") for key in ("PROCID", "NNODES", "STEP_ID")}
    need = node.by_hand(device, int(words["NNODES"]) or 1, verifier)
    name = f"preflight-{os.environ.get('SLURM_JOB_ID', '')}-{words['STEP_ID']}"
    node.ready(need, Path(folder).resolve() / name, int(words["PROCID"]))


if __name__ == "__main__":
    run(main, __doc__)
