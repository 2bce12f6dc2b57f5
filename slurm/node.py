"""The facts about a node that slurm/checks.py judges before a job computes on it, or by `rlvr
preflight`. A job checks all its nodes, and its first task reports their problems."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from common.backends import backend
from common.errors import UserError
from common.results.files import write_json
from common.verifiers.guard import prepare
from slurm.checks import CheckResult, Facts, Need, busy, judged, reduction
from slurm.ray_cluster import free_port, node_address
from slurm.retry import BadNodes
from slurm.stop import node_name

PROBE_S, GATHER_S, REDUCE_S = 300, 600, 240  # seconds: slow file systems, late nodes, NCCL
PATIENCE_S = 60  # seconds to wait for GPU memory that a process still holds just after its end


def facts(need: Need, folder: Path) -> Facts:
    torch = _probe() if need.cuda else {}
    end = time.monotonic() + PATIENCE_S
    while torch and busy(torch["memory"]) and time.monotonic() < end:
        time.sleep(5)
        torch = _probe()
    host, shared, tmpdir = socket.gethostname(), Path("/dev/shm"), tempfile.gettempdir()
    # what SLURM gave this job here; without SLURM, what this process may use
    cpus = os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("SLURM_CPUS_ON_NODE")
    return Facts(
        node=host.split(".")[0],
        folder=folder,
        lock=_lock_fault(folder),
        tmpdir=tmpdir,
        tmp_gib=shutil.disk_usage(tmpdir).free / 2**30,
        shared_gib=shutil.disk_usage(shared).free / 2**30 if shared.exists() else 0.0,
        cpus=int(cpus or len(os.sched_getaffinity(0))),
        address=socket.gethostbyname(host) if need.nodes > 1 else "",
        interface=os.environ.get("GLOO_SOCKET_IFNAME"),
        verifier=_verifier_fault(need.verifiers),
        torch=torch,
    )


def _verifier_fault(verifiers: Iterable[dict]) -> str:
    try:
        for one in verifiers:
            prepare(one)
    except UserError as error:
        return str(error)
    return ""


def _lock_fault(folder: Path) -> str:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return str(error.strerror)
    return ""


def _probe() -> dict:
    command = [sys.executable, "-m", "slurm.probe"]
    out, fault = _run(command, PROBE_S)
    if fault:
        raise UserError(f"torch={fault}: does not start here; run {' '.join(command)} on this node")
    return json.loads(out.splitlines()[-1])


def _reduce(need: Need, rank: int, address: str) -> tuple[dict | None, str]:
    """Run the all-reduce. Return (what the first of all processes printed, why it failed or "")."""
    host, port = address.rsplit(":", 1)
    command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={need.nodes}"]
    command += [f"--nproc-per-node={need.processes}", f"--node-rank={rank}"]
    command += [f"--master-addr={host}", f"--master-port={port}"]
    command += ["-m", "slurm.allreduce", need.reduce]
    out, fault = _run(command, REDUCE_S)
    lines = [line for line in out.splitlines() if line.startswith('{"rank"')]
    return (json.loads(lines[-1]) if lines else None), fault


def _run(command: list[str], seconds: float) -> tuple[str, str]:
    """Run `command` and all that it starts to its end. Return (output, "" or its first error)."""
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return "", f"no answer in {seconds:g} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode == 0:
        return out, ""
    sys.stderr.write(errors[-20_000:])
    # torchrun's own trace ends in ChildFailedError; the first error is the cause
    causes = re.findall(r"^(?:\[rank\d+\]: )?((?:\w+\.)*\w*(?:Error|Exception): .*)$", errors, re.M)
    return out, (causes or [f"exit code {process.returncode}"])[0].strip()[:300]


def need_of(kind: str, x: Any, nodes: int, gpus: int) -> Need | None:
    """Return what a job of this kind needs on each of its nodes, if it takes a GPU or Ray."""
    judged_by: list[Any] = []  # what has the verifiers
    if kind == "command":
        cuda, verl = gpus > 0, gpus > 0
    elif kind in ("train", "evaluate", "rates", "score") and x is not None:
        cuda = gpus > 0 and (x if kind == "train" else x.evaluations[0]).device != "cpu"
        verl = kind == "train" and backend(x.backend).needs_gpu
        if kind != "score":
            judged_by = [x.data] if kind == "train" else [e.eval for e in x.evaluations]
    else:
        return None
    verifiers = tuple(one.verifier for one in judged_by)
    reduce = "nccl" if verl and cuda and gpus * nodes > 1 else ""
    return Need(cuda, gpus, nodes, verl, reduce, verifiers) if cuda or verl else None


def by_hand(device: str, nodes: int, verifier: str) -> Need:
    """Return what `rlvr preflight` checks: as many GPUs as SLURM gave or torch sees, for verl."""
    verifiers = ({"_target_": f"common.verifiers.{verifier}.verify"},) if verifier else ()
    count = int(os.environ.get("SLURM_GPUS_ON_NODE", "0"))
    if device == "auto" and not count:
        count = len(_probe()["memory"])
    there = count > 0 or Path("/proc/driver/nvidia").exists()
    if device == "cpu" or (device == "auto" and not there):
        return Need(False, 0, nodes, True, "gloo", verifiers)
    count = max(1, count)
    return Need(True, count, nodes, True, "nccl" if count * nodes > 1 else "", verifiers)


def ready(need: Need, folder: Path, rank: int = 0) -> bool:
    """Check this node and, with the job's other tasks, the connection between nodes; print what was
    seen and return whether all is well. `folder` belongs to this attempt only. The first task
    raises UserError with every problem of every node: BadNodes if other nodes may be well. The
    others raise nothing, which would end the first before it reports."""
    try:
        found = judged(need, facts(need, folder))
    except UserError as error:
        found = [CheckResult("torch", "does not start", str(error), here=True)]
    print("\n".join(["preflight:", *map(str, found)]), flush=True)
    port = f"{node_address()}:{free_port()}" if rank == 0 else ""
    every = gather(folder, "node", rank, need.nodes, _said(found) | {"address": port})
    if not _well(every, rank):
        return False
    if need.reduce:
        got, fault = _reduce(need, rank, every[0]["address"])
        last = reduction(need, got, fault)
        every = gather(folder, "reduced", rank, need.nodes, _said([last]))
        if rank == 0:
            print(last, flush=True)
    return _well(every, rank)


def _said(found: list[CheckResult]) -> dict:
    bad = [one for one in found if one.problem]
    here = all(one.here for one in bad)
    return {"node": node_name(), "problems": [one.problem for one in bad], "here": here}


def _well(every: list[dict], rank: int) -> bool:
    bad = [one for one in every if one["problems"]]
    if bad and rank == 0:
        said = "\n".join(dict.fromkeys(line for one in bad for line in one["problems"]))
        here = all(one["here"] for one in bad)
        raise BadNodes(said, tuple(one["node"] for one in bad)) if here else UserError(said)
    return not bad


def gather(folder: Path, name: str, rank: int, nodes: int, said: dict) -> list[dict]:
    """Return what the tasks of all nodes say, in their order; this task says `said`."""
    if nodes == 1:
        return [said]
    write_json(folder / f"{name}-{rank}.json", said)
    files = [folder / f"{name}-{i}.json" for i in range(nodes)]
    end = time.monotonic() + GATHER_S
    while absent := [i for i, file in enumerate(files) if not file.exists()]:
        if time.monotonic() > end:
            raise UserError(
                f"nodes={nodes}: task(s) {absent} of this job gave no answer in {GATHER_S} s; see "
                "their logs, or leave their nodes out (sbatch: {exclude: NODE} in the profile)"
            )
        time.sleep(0.5)
    return [json.loads(file.read_text()) for file in files]
