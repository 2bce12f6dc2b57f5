"""The checks of a node before a job computes on it. Each check is a function of facts, so that all
can be tested without a GPU. slurm/node.py gathers the facts."""

from dataclasses import dataclass
from pathlib import Path

from common.backends.verl.layout import reserved_cpus

# The oldest driver for each CUDA version: docs.nvidia.com/deploy/cuda-compatibility
DRIVERS = {12: 525, 13: 580}
SOCKET = 107  # the most bytes in the path of a Unix socket
RAY_OWN = len("/ray/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store")  # 68
VERL_OWN = len("/rlvr-00000000")  # the folder that common/backends/verl/process.py makes in TMPDIR
SHARED_GIB = 1.0  # per GPU, as NVIDIA's PyTorch containers ask; for NCCL and vLLM's queues
TAKEN_GIB = 2.0  # most used on a GPU before a job; our choice. An idle H100 with our probe: about 1


@dataclass(frozen=True)
class Need:
    """What a job is about to do on this node."""

    cuda: bool
    gpus: int  # GPUs that SLURM or the profile gave the job on this node
    nodes: int = 1
    verl: bool = False  # trains through Ray: needs its sockets and flash-attn
    reduce: str = ""  # nccl or gloo, which sums over all GPUs of the job; "": not checked


@dataclass(frozen=True)
class Found:
    """The result of one check: what was seen, and `key=value: remedy` if that is not good
    enough."""

    what: str
    seen: str
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.what:16} {self.seen}"


def found(what: str, seen: str, bad: bool, problem: str) -> Found:
    """Return the result of a check, with its problem only where what was seen is `bad`."""
    return Found(what, seen, problem if bad else "")


def driver(version: str | None, torch: str, cuda: str | None, fault: str) -> Found:
    """Check the driver against torch's CUDA. An older driver passes where torch works all the same:
    NVIDIA's cuda-compat package makes that possible on data centre GPUs."""
    seen = f"driver {version or 'unknown'}, torch {torch} for CUDA {cuda or 'none'}"
    if cuda is None:
        said = f"torch={torch}: built without CUDA; make setup-cluster, submit from .venv-cluster"
        return Found("driver", seen, said)
    needed = DRIVERS.get(int(cuda.split(".")[0]))
    old = bool(fault and version and needed and int(version.split(".")[0]) < needed)
    said = (
        f"driver={version}: torch {torch} for CUDA {cuda} needs {needed} or newer; ask for "
        "nodes that have it (constraint in the profile), or load NVIDIA's cuda-compat in setup"
    )
    return found("driver", seen, old, said)


def gpus(free: list, wanted: int, fault: str, node: str) -> Found:
    """Check that torch sees as many GPUs as the job was given."""
    said = (
        f"gpus_per_node={wanted}: torch sees {len(free)} on {node}{f' ({fault})' if fault else ''}"
        "; look at CUDA_VISIBLE_DEVICES and setup in the profile, or leave the node out "
        f"(sbatch: {{exclude: {node}}})"
    )
    bad = bool(fault) or len(free) < wanted
    return found("GPUs", f"{len(free)} of {wanted}", bad, said)


def memory(sizes: list, others: list[str], node: str) -> Found:
    """Check that no other process uses the GPUs; `sizes` are (free, all) in GiB."""
    taken = [(i, full - free, full) for i, (free, full) in enumerate(sizes)]
    most = max((used for _, used, _ in taken), default=0.0)
    bad = [f"GPU {i}={used:.1f} of {full:.1f} GiB" for i, used, full in taken if used > TAKEN_GIB]
    said = (
        f"{', '.join(bad)}: in use on {node} before this job has begun ("
        f"{'; '.join(others) or 'by whom nvidia-smi does not say'}); end that process, or "
        f"leave the node out (sbatch: {{exclude: {node}}} in the profile)"
    )
    return found("GPU memory", f"at most {most:.1f} GiB in use before we begin", bool(bad), said)


def flash_attention(fault: str, torch: str) -> Found:
    """Check that flash-attn can be imported. verl's packed batches call it, and it is compiled
    against one version of torch."""
    said = (
        f"flash-attn={fault}: backend=verl needs it on GPUs, compiled for torch {torch}; "
        "make setup-cluster FLASH_ATTN=WHEEL (docs/cluster.md)"
    )
    return found("flash-attn", "cannot be imported" if fault else "imported", bool(fault), said)


def cpus(there: int, count: int) -> Found:
    """Check the CPUs of this job on this node against what verl reserves for `count` GPUs."""
    needed = reserved_cpus(count)
    said = (
        f"cpus={there}: verl reserves {needed} for {count} GPU(s), and Ray would wait for ever "
        f"for what is missing; set cpus_per_node={needed} or more in the profile"
    )
    return found("CPUs", f"{there} of at least {needed}", there < needed, said)


def locks(fault: str, folder: Path) -> Found:
    """Check that files in the results folder can be locked, because a run is written by one
    process."""
    said = (
        f"flock={fault}: files in {folder} cannot be locked; mount Lustre with -o flock, or "
        "take another results_dir"
    )
    return found("flock", "fails" if fault else "works", bool(fault), said)


def kernel(fault: str) -> Found:
    """Check that Triton compiles a kernel, because verl's losses and vLLM call such kernels. Its
    launcher is built with a C compiler and Python.h."""
    said = (
        f"triton={fault}: no kernel compiles on this node; load a C compiler in setup of the "
        "profile (module load gcc) and take a Python that has Python.h, or a container"
    )
    return found("Triton", "fails" if fault else "compiles", bool(fault), said)


def loopback(address: str, interface: str | None, node: str) -> Found:
    """Check that other nodes reach this one under its own name, because gloo binds to that
    address."""
    said = (
        f"GLOO_SOCKET_IFNAME=: the name {node} means {address} on {node} itself, where no "
        "other node can reach it; name the network in setup: export GLOO_SOCKET_IFNAME=ib0"
    )
    seen = f"{address}{f' ({interface})' if interface else ''}"
    return found("own address", seen, address.startswith("127.") and not interface, said)


def sockets(folder: str) -> Found:
    """Check that the temporary folder's path leaves room for the path of Ray's sockets."""
    long, room = len(folder.encode()), SOCKET - RAY_OWN - VERL_OWN
    said = (
        f"TMPDIR={folder}: {long} bytes, and Ray's sockets leave room for {room}; add "
        '"export TMPDIR=/tmp" to setup in the profile'
    )
    return found("TMPDIR", f"{long} of at most {room} bytes", long > room, said)


def shared_memory(free: float, count: int) -> Found:
    """Check the `free` GiB in /dev/shm (0 if there is none) for `count` GPUs."""
    wanted = SHARED_GIB * max(1, count)
    said = (
        f"/dev/shm={free:.2f} GiB: {wanted:.0f} GiB needed for weights and NCCL; delete what "
        f"killed jobs left there, or give a container more (--shm-size={wanted:.0f}g; apptainer "
        "takes the node's)"
    )
    return found("shared memory", f"{free:.1f} GiB free", free < wanted, said)


def reduction(need: Need, got: dict | None, fault: str) -> Found:
    """Report the all-reduce; `got` is what its first process printed, `fault` why it failed."""
    name, count = need.reduce, processes(need) * need.nodes
    seen = f"{name}, {got['count']} processes, {got['gb_per_s']:.3g} GB/s" if got else "failed"
    said = (
        f"{name}={fault}: a sum over {count} processes on {need.nodes} node(s) failed; name "
        "the network in setup (export NCCL_SOCKET_IFNAME=ib0); NCCL_DEBUG=INFO there says more"
    )
    return found("all-reduce", seen, bool(fault), said)


def processes(need: Need) -> int:
    """Return the number of processes of the all-reduce on one node: one per GPU, or two to try it
    on a CPU."""
    return need.gpus if need.cuda else 2
