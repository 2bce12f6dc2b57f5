"""What a node must have before a job computes on it; `rlvr preflight` asks by hand.

Each check is a function of facts, so that all are tested without a GPU. A job of several nodes asks
on each of them: the first task reports what any has found.
"""

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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.backends import backend
from common.errors import UserError
from common.results.files import write_json
from slurm.ray_cluster import free_port, node_address

# The oldest driver of each CUDA: CUDA Compatibility, docs.nvidia.com/deploy/cuda-compatibility
DRIVERS = {12: 525, 13: 580}
SOCKET = 107  # bytes in the path of a Unix socket
RAY_OWN = len("/ray/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store")  # 68
VERL_OWN = len("/rlvr-00000000")  # what common/backends/verl/process.py makes in it
SHARED_GIB = 1.0  # a GPU: NVIDIA's PyTorch containers ask for it; NCCL and vLLM's queues lie there
TAKEN_GIB = 2.0  # of a GPU, before a job begins; our choice. An idle H100 with our probe: about 1
PROBE_S, GATHER_S, REDUCE_S = 300, 600, 240  # limits: slow file systems, late nodes, NCCL
PATIENCE_S = 60  # for GPU memory that a process that has just ended still holds


@dataclass(frozen=True)
class Need:
    """What a job is about to do on this node."""

    cuda: bool
    gpus: int  # that SLURM or the profile gave it here
    nodes: int = 1
    verl: bool = False  # trains through Ray: its sockets, flash-attn
    reduce: str = ""  # nccl, gloo: what sums over all GPUs of the job at once; "" is not looked at


@dataclass(frozen=True)
class Found:
    """One check: what was seen, and `key=value: remedy` where that will not do."""

    what: str
    seen: str
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.what:16} {self.seen}"


# ---- the checks


def driver(version: str | None, torch: str, cuda: str | None, fault: str) -> Found:
    """The driver against torch's CUDA. An older one passes where torch works all the same: NVIDIA's
    cuda-compat package makes it so on data centre GPUs."""
    said = f"driver {version or 'unknown'}, torch {torch} for CUDA {cuda or 'none'}"
    needed = DRIVERS.get(int((cuda or "0").split(".")[0]))
    problem = ""
    if cuda is None:
        problem = (
            f"torch={torch}: built without CUDA; make setup-cluster, submit from .venv-cluster"
        )
    elif fault and version and needed and int(version.split(".")[0]) < needed:
        problem = (
            f"driver={version}: torch {torch} for CUDA {cuda} needs {needed} or newer; ask for "
            "nodes that have it (constraint in the profile), or load NVIDIA's cuda-compat in setup"
        )
    return Found("driver", said, problem)


def gpus(free: list, wanted: int, fault: str, node: str) -> Found:
    """As many as the job was given."""
    problem = ""
    if fault or len(free) < wanted:
        problem = (
            f"gpus_per_node={wanted}: torch sees {len(free)} on {node}"
            f"{f' ({fault})' if fault else ''}; look at CUDA_VISIBLE_DEVICES and setup in the "
            f"profile, or leave the node out (sbatch: {{exclude: {node}}})"
        )
    return Found("GPUs", f"{len(free)} of {wanted}", problem)


def memory(sizes: list, others: list[str], node: str) -> Found:
    """Nobody else's process on the GPUs; `sizes` are (free, all) in GiB."""
    taken = [(i, full - free, full) for i, (free, full) in enumerate(sizes)]
    most = max((used for _, used, _ in taken), default=0.0)
    bad = [f"GPU {i}={used:.1f} of {full:.1f} GiB" for i, used, full in taken if used > TAKEN_GIB]
    problem = ""
    if bad:
        problem = (
            f"{', '.join(bad)}: in use on {node} before this job has begun ("
            f"{'; '.join(others) or 'by whom nvidia-smi does not say'}); end that process, or "
            f"leave the node out (sbatch: {{exclude: {node}}} in the profile)"
        )
    return Found("GPU memory", f"at most {most:.1f} GiB in use before we begin", problem)


def flash_attention(fault: str, torch: str) -> Found:
    """verl's packed batches call it; it is compiled against one version of torch."""
    problem = ""
    if fault:
        problem = (
            f"flash-attn={fault}: backend=verl needs it on GPUs, compiled for torch {torch}; "
            "make setup-cluster FLASH_ATTN=WHEEL (docs/cluster.md)"
        )
    return Found("flash-attn", "cannot be imported" if fault else "imported", problem)


def sockets(folder: str) -> Found:
    """Room for the path of Ray's sockets in the temporary folder."""
    long, room = len(folder.encode()), SOCKET - RAY_OWN - VERL_OWN
    problem = ""
    if long > room:
        problem = (
            f"TMPDIR={folder}: {long} bytes, and Ray's sockets leave room for {room}; add "
            '"export TMPDIR=/tmp" to setup in the profile'
        )
    return Found("TMPDIR", f"{long} of at most {room} bytes", problem)


def shared_memory(free: float | None, count: int) -> Found:
    """`free` GiB in /dev/shm, None where there is none, for `count` GPUs."""
    wanted = SHARED_GIB * max(1, count)
    problem = ""
    if free is None or free < wanted:
        problem = (
            f"/dev/shm={'missing' if free is None else f'{free:.2f} GiB'}: {wanted:.0f} GiB needed "
            f"for weights and NCCL; delete what killed jobs left there, or give a container more "
            f"(--shm-size={wanted:.0f}g; apptainer takes the node's)"
        )
    return Found("shared memory", "none" if free is None else f"{free:.1f} GiB free", problem)


def reduction(need: Need, got: dict | None, fault: str) -> Found:
    """The all-reduce: `got` is what its first process printed."""
    name, count = need.reduce, _processes(need) * need.nodes
    seen = f"{name}, {got['count']} processes, {got['gb_per_s']:.3g} GB/s" if got else "failed"
    problem = ""
    if fault:
        problem = (
            f"{name}={fault}: a sum over {count} processes on {need.nodes} node(s) failed; name "
            "the network in setup (export NCCL_SOCKET_IFNAME=ib0); NCCL_DEBUG=INFO there says more"
        )
    return Found("all-reduce", seen, problem)


def _processes(need: Need) -> int:
    """Of the sum, on one node: one a GPU, or two to try it on a CPU."""
    return need.gpus if need.cuda else 2


# ---- the facts


def local(need: Need) -> list[Found]:
    """What this node alone can tell."""
    found, node = [], socket.gethostname().split(".")[0]
    if need.verl:
        found += [sockets(tempfile.gettempdir()), shared_memory(_shared_gib(), need.gpus)]
    if not need.cuda:
        skipped = ["driver", "GPUs", "GPU memory", *(["flash-attn"] if need.verl else [])]
        return found + [Found(what, "not looked at: device=cpu") for what in skipped]
    asked = _probe()
    end = time.monotonic() + PATIENCE_S
    while memory(asked["memory"], [], node).problem and time.monotonic() < end:
        time.sleep(5)
        asked = _probe()
    torch, cuda, fault = asked["torch"], asked["cuda"], asked["fault"]
    first = driver(_driver(), torch, cuda, fault)
    found += [first, *([] if first.problem else [gpus(asked["memory"], need.gpus, fault, node)])]
    found += [memory(asked["memory"], _others(), node)]
    return found + ([flash_attention(asked["flash"], torch)] if need.verl else [])


def _shared_gib() -> float | None:
    try:
        return shutil.disk_usage("/dev/shm").free / 2**30
    except OSError:
        return None


def _driver() -> str | None:
    """NVIDIA's kernel module, containers see it too; None where it does not say."""
    with suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text()
        if match := re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text):
            return match[1]
    return None


def _others() -> list[str]:
    """Processes that hold GPU memory, as far as nvidia-smi is there and shows them."""
    query = ["--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader"]
    try:
        done = subprocess.run(["nvidia-smi", *query], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [f"pid {line.strip()}" for line in done.stdout.splitlines()[:8] if line.strip()]


def _probe() -> dict:
    """What slurm/probe.py prints. Raises UserError where it does not end or breaks."""
    command = [sys.executable, "-m", "slurm.probe"]
    out, fault = _run(command, PROBE_S)
    if fault:
        raise UserError(f"torch={fault}: does not start here; run {' '.join(command)} on this node")
    return json.loads(out.splitlines()[-1])


def _reduce(need: Need, rank: int, address: str) -> tuple[dict | None, str]:
    """(what the first process of all printed, why it failed)."""
    host, port = address.rsplit(":", 1)
    command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={need.nodes}"]
    command += [f"--nproc-per-node={_processes(need)}", f"--node-rank={rank}"]
    command += [f"--master-addr={host}", f"--master-port={port}"]
    command += ["-m", "slurm.allreduce", need.reduce]
    out, fault = _run(command, REDUCE_S)
    lines = [line for line in out.splitlines() if line.startswith('{"rank"')]
    return (json.loads(lines[-1]) if lines else None), fault


def _run(command: list[str], seconds: float) -> tuple[str, str]:
    """(output, "" or how it failed: its last error). Nothing of it is left running."""
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


# ---- a job


def need_of(kind: str, x: Any, nodes: int, gpus: int) -> Need | None:
    """What a job of this kind needs of each of its nodes; None where there is nothing to look at:
    no GPU and no Ray."""
    if kind == "command":
        cuda, verl = gpus > 0, gpus > 0
    elif kind in ("train", "evaluate", "rates"):
        cuda = gpus > 0 and x.device != "cpu"
        verl = kind == "train" and backend(x.backend).needs_gpu
    else:
        return None
    reduce = "nccl" if verl and cuda and gpus * nodes > 1 else ""
    return Need(cuda, gpus, nodes, verl, reduce) if cuda or verl else None


def by_hand(device: str, verl: bool, nodes: int) -> Need:
    """What `rlvr preflight` looks at: as many GPUs as SLURM gave or torch sees."""
    count = int(os.environ.get("SLURM_GPUS_ON_NODE", "0"))
    if device == "auto" and not count:
        count = len(_probe()["memory"])
    cuda = device == "cuda" or (device == "auto" and (count > 0 or _driver() is not None))
    count = max(1, count) if cuda else 0
    reduce = "gloo" if not cuda else "nccl" if count * nodes > 1 else ""
    return Need(cuda, count, nodes, verl, reduce if verl else "")


def ready(need: Need, folder: Path, rank: int = 0) -> bool:
    """Look at this node and, with the other tasks of the job, at what is between them; prints what
    was seen. `folder` is one that all nodes see, of this attempt alone.

    Raises UserError with every problem of every node, on the first task; on another returns False,
    for its end would end the first before it has spoken.
    """
    try:
        found = local(need)
    except UserError as error:
        found = [Found("torch", "does not start", str(error))]
    print("\n".join(["preflight:", *map(str, found)]), flush=True)
    port = f"{node_address()}:{free_port()}" if rank == 0 else ""
    every = gather(
        folder, "node", rank, need.nodes, {"found": _found_lines(found), "address": port}
    )
    if not _well(every, rank):
        return False
    if need.reduce:
        got, fault = _reduce(need, rank, every[0]["address"])
        last = reduction(need, got, fault)
        every = gather(folder, "reduced", rank, need.nodes, {"found": _found_lines([last])})
    elif need.verl:
        last = Found("all-reduce", f"not looked at: {'one GPU' if need.cuda else 'device=cpu'}")
    if rank == 0 and need.verl:
        print(last, flush=True)
    return _well(every, rank)


def _found_lines(found: list[Found]) -> list[str]:
    return [one.problem for one in found if one.problem]


def _well(every: list[dict], rank: int) -> bool:
    problems = list(dict.fromkeys(line for one in every for line in one["found"]))
    if problems and rank == 0:
        raise UserError("\n".join(problems))
    return not problems


def gather(folder: Path, name: str, rank: int, nodes: int, said: dict) -> list[dict]:
    """What the tasks of all nodes say, in their order. Raises UserError where one does not."""
    if nodes == 1:
        return [said]
    write_json(folder / f"{name}-{rank}.json", said)
    files = [folder / f"{name}-{i}.json" for i in range(nodes)]
    end = time.monotonic() + GATHER_S
    while absent := [i for i, file in enumerate(files) if not file.exists()]:
        if time.monotonic() > end:
            raise UserError(
                f"nodes={nodes}: task(s) {absent} of this job said nothing in {GATHER_S} s; see "
                "their logs, or leave their nodes out (sbatch: {exclude: NODE} in the profile)"
            )
        time.sleep(0.5)
    return [json.loads(file.read_text()) for file in files]
