"""The checks of a node before a job computes on it, as functions of the facts that slurm/node.py
gathers, so that all can be tested without a GPU."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from common.backends.verl.layout import reserved_cpus

SOCKET = 107  # the most bytes in the path of a Unix socket
RAY_OWN = len("/ray/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store")  # 68
VERL_OWN = len("/rlvr-00000000")  # the folder that common/backends/verl/process.py makes in TMPDIR
SHARED_GIB = 1.0  # per GPU, as NVIDIA's PyTorch containers ask; for NCCL and vLLM's queues
TMP_GIB = 20.0  # for compiled kernels, Arrow copies of prompts and Ray's session; our choice
SLOW_GB_S = 20  # between nodes; our choice: one link of 100 Gbit/s has 12.5
TAKEN_GIB = 2.0  # most used on a GPU before a job; our choice. An idle H100 with our probe: about 1


@dataclass(frozen=True)
class Need:
    cuda: bool
    gpus: int  # GPUs that SLURM or the profile gave the job on this node
    nodes: int = 1
    verl: bool = False  # trains through Ray: needs its sockets and flash-attn
    reduce: str = ""  # nccl or gloo, which sums over all GPUs of the job; "": not checked
    verifiers: tuple[dict, ...] = ()

    @property
    def processes(self) -> int:
        """Processes of the sum on one node: one per GPU, or two to try it on a CPU."""
        return self.gpus if self.cuda else 2


class CheckResult(NamedTuple):
    """A check: what was seen, and `key=value: remedy` if that is not good enough."""

    what: str
    seen: str
    problem: str = ""
    here: bool = False  # whether another node may be well

    def __str__(self) -> str:
        return f"{self.what:16} {self.seen}"


@dataclass(frozen=True)
class Facts:
    """What a node has. `torch` is what slurm/probe.py prints; empty where the job needs no GPU."""

    node: str
    folder: Path  # in the results folder
    lock: str  # why a file in `folder` cannot be locked; "" if it can
    tmpdir: str
    tmp_gib: float  # free there
    shared_gib: float  # free in /dev/shm; 0 if there is none
    cpus: int
    address: str  # what the node's own name means on it
    interface: str | None  # GLOO_SOCKET_IFNAME
    verifier: str  # why one that the job needs cannot work; "" if all can
    torch: dict


def judged(need: Need, f: Facts) -> list[CheckResult]:
    """Return what was seen of everything that the job needs, each with the problem, if any."""
    said = f"files in {f.folder} cannot be locked; mount Lustre with -o flock, or take another"
    found = [_found("flock", f.lock or "works", f.lock, f"flock={f.lock}: {said} results_dir")]
    if need.verifiers:
        found.append(_found("verifier", f.verifier or "works", f.verifier, f.verifier))
    if need.verl:
        long, room = len(f.tmpdir.encode()), SOCKET - RAY_OWN - VERL_OWN
        said = f"TMPDIR={f.tmpdir}: {long} bytes, and Ray's sockets leave room for {room}; add "
        said += '"export TMPDIR=/tmp" to setup in the profile'
        found.append(_found("TMPDIR", f"{long} of at most {room} bytes", long > room, said))
    if need.verl or need.gpus > 1:
        said = (
            f"TMPDIR={f.tmpdir}: {f.tmp_gib:.1f} GiB free, {TMP_GIB:.0f} wanted; Ray stops near a "
            "full disk. Name another folder in setup of the profile (a short path), or empty it"
        )
        bad = f.tmp_gib < TMP_GIB
        found.append(_found("TMPDIR's room", f"{f.tmp_gib:.0f} GiB free", bad, said, here=True))
        wanted = SHARED_GIB * max(1, need.gpus)
        said = f"/dev/shm={f.shared_gib:.2f} GiB: {wanted:.0f} GiB needed for weights and NCCL; "
        said += "delete what killed jobs left there, or give a container more "
        said += f"(--shm-size={wanted:.0f}g; apptainer takes the node's)"
        seen = f"{f.shared_gib:.1f} GiB free"
        found.append(_found("shared memory", seen, f.shared_gib < wanted, said, here=True))
    if need.verl and need.nodes > 1:  # gloo binds to this address
        said = (
            f"GLOO_SOCKET_IFNAME=: on {f.node} its name resolves to {f.address}, which no other "
            "node can reach; name the network in setup: export GLOO_SOCKET_IFNAME=ib0"
        )
        bad = f.address.startswith("127.") and not f.interface
        found.append(_found("own address", f"{f.address} {f.interface or ''}", bad, said))
    if need.verl and need.cuda:
        needed = reserved_cpus(need.gpus)
        said = (
            f"cpus={f.cpus}: verl reserves {needed} for {need.gpus} GPU(s), and Ray would wait for "
            f"ever for what is missing; set cpus_per_node={needed} or more in the profile"
        )
        found.append(_found("CPUs", f"{f.cpus} of at least {needed}", f.cpus < needed, said))
    return found + (_gpus(need, f) if need.cuda else [])


def _gpus(need: Need, f: Facts) -> list[CheckResult]:
    """Check GPUs, Triton (for verl's losses and vLLM) and flash-attn (for verl's packed passes)."""
    t, leave = f.torch, f"leave the node out (sbatch: {{exclude: {f.node}}} in the profile)"
    said = f"torch={t['torch']}: built without CUDA; make setup-cluster, submit from .venv-cluster"
    found = [_found("torch", f"{t['torch']} for CUDA {t['cuda']}", t["cuda"] is None, said)]
    count, fault = len(t["memory"]), t["fault"] and f" ({t['fault']})"
    if "driver" in fault and "too old" in fault:  # on every node: another would say the same
        said = (
            f"driver={t['fault']}: CUDA {t['cuda']} needs 580 or newer; ask for it, or add "
            "NVIDIA's cuda-compat for this CUDA to setup (LD_LIBRARY_PATH), for data-centre GPUs"
        )
        return [*found, _found("driver", "too old", True, said)]
    if t["cuda"] is not None:
        said = f"gpus_per_node={need.gpus}: torch sees {count} on {f.node}{fault}; look at "
        said += f"CUDA_VISIBLE_DEVICES and setup in the profile, or {leave}"
        bad = fault or count < need.gpus
        found.append(_found("GPUs", f"{count} of {need.gpus}", bad, said, here=True))
    taken = [f"GPU {i}={used:.1f} of {full:.1f} GiB" for i, used, full in busy(t["memory"])]
    said = f"{', '.join(taken)}: in use on {f.node} before this job began; end what "
    said += f"nvidia-smi shows there, or {leave}"
    most = max((full - free for free, full in t["memory"]), default=0.0)
    seen = f"at most {most:.1f} GiB in use before we begin"
    found.append(_found("GPU memory", seen, taken, said, here=True))
    said = (
        f"triton={t['kernel']}: no kernel compiles on this node; load a C compiler in setup of the "
        "profile (module load gcc) and take a Python that has Python.h, or a container"
    )
    found.append(_found("Triton", t["kernel"] or "compiles", t["kernel"], said))
    said = (
        f"flash-attn={t['flash']}: backend=verl needs it on GPUs, compiled for torch {t['torch']}; "
        "make setup-cluster FLASH_ATTN=WHEEL (docs/cluster.md)"
    )
    flash = _found("flash-attn", t["flash"] or "imported", t["flash"], said)
    return [*found, flash] if need.verl else found


def busy(memory: list) -> list[tuple[int, float, float]]:
    """Return (number, GiB used, GiB) of the GPUs that are not free; `memory` is (free, all)."""
    taken = [(i, full - free, full) for i, (free, full) in enumerate(memory)]
    return [one for one in taken if one[1] > TAKEN_GIB]


def reduction(need: Need, got: dict | None, fault: str) -> CheckResult:
    """Report the all-reduce; `got` is what its first process printed, `fault` why it failed."""
    name, count = need.reduce, need.processes * need.nodes
    seen = f"{name}, {got['count']} processes, {got['gb_per_s']:.3g} GB/s" if got else "failed"
    if got and name == "nccl" and need.nodes > 1 and got["gb_per_s"] < SLOW_GB_S:
        seen += f"; warning: below {SLOW_GB_S} GB/s between nodes NCCL may not use InfiniBand or "
        seen += "the cloud's plugin (aws-ofi-nccl, gIB): NCCL_DEBUG=INFO names what it uses"
    said = f"{name}={fault}: a sum over {count} processes on {need.nodes} node(s) failed; name "
    said += "the network in setup (export NCCL_SOCKET_IFNAME=ib0); NCCL_DEBUG=INFO there says more"
    return _found("all-reduce", seen, fault, said, here=True)


def _found(what: str, seen: str, bad: object, problem: str, here: bool = False) -> CheckResult:
    return CheckResult(what, seen, problem if bad else "", here)
