"""What a job looks at before it computes: every check refuses what it should, without a GPU."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from threading import Thread

import pytest
import torch
import yaml
from refuses import refuses
from tiny import ROOT, TINY

from common.errors import UserError
from common.experiment import load
from slurm import checks, node
from slurm.attempts import attempts

OLD = "RuntimeError: The NVIDIA driver on your system is too old (found version 12040)"
GOOD = {"torch": "2.11.0", "cuda": "13.0", "memory": [[78.2, 79.2]] * 2, "fault": "", "flash": ""}
GOOD |= {"kernel": ""}
H100 = node.Need(cuda=True, gpus=2, verl=True)


@pytest.mark.parametrize(
    ("version", "cuda", "fault", "said"),
    [
        ("580.65.06", "13.0", "", None),
        ("550.54.15", "13.0", OLD, "driver=550.54.15: torch 2.11.0 for CUDA 13.0 needs 580 or"),
        ("550.54.15", "13.0", "", None),  # cuda-compat
        ("550.54.15", "12.8", "RuntimeError: other", None),  # not the driver's fault
        ("580.65.06", None, "", "torch=2.11.0: built without CUDA; make setup-cluster"),
        (None, "13.0", OLD, None),  # the count of GPUs says it, in torch's words
    ],
)
def test_the_driver_fits_the_cuda_of_torch(version, cuda, fault, said):
    problem = checks.driver(version, "2.11.0", cuda, fault).problem
    assert problem == "" if said is None else problem.startswith(said)


def test_the_driver_is_read_from_the_kernel_module(monkeypatch):
    for line, version in (
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5", "550.54.15"),
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build", "580.65.06"),
        ("NVRM version: none", None),
    ):
        monkeypatch.setattr(node.Path, "read_text", lambda self, line=line: line)
        assert node._driver() == version


NCCL = replace(H100, nodes=2, reduce="nccl")


@pytest.mark.parametrize(
    ("good", "bad", "key", "says"),
    [
        (checks.gpus([1, 2], 2, "", "n1"), checks.gpus([1], 2, "", "n1"), "gpus_per_node=2", "n1"),
        (checks.gpus([1], 1, "", "n1"), checks.gpus([], 2, OLD, "n1"), "gpus_per_node=2", OLD),
        (
            checks.memory([[78.2, 79.2], [77.3, 79.2]], [], "n1"),
            checks.memory([[78.2, 79.2], [38.0, 79.2]], ["pid 12"], "n1"),
            "GPU 1=41.2",
            "pid 12",
        ),
        (checks.flash_attention("", "2.11"), checks.flash_attention("E", "2"), "flash-attn=E", "2"),
        (checks.sockets("/" + 24 * "x"), checks.sockets("/" + 25 * "x"), "TMPDIR=/xxx", "25"),
        (checks.sockets("/tmp"), checks.sockets("/" + 20 * "ü"), "TMPDIR=/ü", "41 bytes"),
        (checks.shared_memory(8.0, 8), checks.shared_memory(0.06, 8), "/dev/shm=0.06", "=8g"),
        (checks.shared_memory(1.0, 0), checks.shared_memory(0.0, 0), "/dev/shm=0.00", "=1g"),
        (
            checks.reduction(NCCL, {"count": 4, "gb_per_s": 321.4}, ""),
            checks.reduction(NCCL, None, "E"),
            "nccl=E",
            "4 processes on 2 node(s)",
        ),
        (checks.cpus(27, 8), checks.cpus(26, 8), "cpus=26", "27"),
        (checks.cpus(9, 2), checks.cpus(8, 2), "cpus=8", "9"),
        (
            checks.loopback("127.0.1.1", "ib0", "n1"),
            checks.loopback("127.0.1.1", None, "n1"),
            "GLOO_SOCKET_IFNAME=",
            "n1",
        ),
        (checks.locks("", ROOT), checks.locks("E", ROOT), "flock=E", str(ROOT)),
        (checks.kernel(""), checks.kernel("E"), "triton=E", ""),
    ],
)
def test_each_check_names_its_key_and_what_it_saw(good, bad, key, says):
    assert good.problem == ""
    assert bad.problem.startswith(key)
    assert says in bad.problem


def test_what_a_job_needs():
    x = load(TINY, "f_grpo")
    verl, cuda = replace(x, backend="verl"), replace(x, backend="verl", device="auto")
    assert node.need_of("train", x, 1, 8) is None  # device=cpu
    assert node.need_of("compare", None, 1, 0) is None
    assert node.need_of("train", verl, 1, 1) == node.Need(False, 1, 1, True)
    assert node.need_of("train", cuda, 2, 8) == node.Need(True, 8, 2, True, "nccl")
    assert node.need_of("train", cuda, 1, 1) == node.Need(True, 1, 1, True)
    assert node.need_of("train", replace(x, device="cuda"), 1, 8) == node.Need(True, 8, 1)
    assert node.need_of("evaluate", cuda, 1, 1) == node.Need(True, 1, 1)


@pytest.fixture
def machine(monkeypatch):
    """A node with two H100s: what slurm/probe.py would print, to be changed by a test."""
    facts = dict(GOOD)
    monkeypatch.setattr(node, "_probe", lambda: facts)
    monkeypatch.setattr(node, "_driver", lambda: "580.65.06")
    monkeypatch.setattr(node, "_others", list)
    monkeypatch.setattr(node, "_shared_gib", lambda: 500.0)
    monkeypatch.setattr(node, "_cpus", lambda: 16)
    monkeypatch.setattr(node, "_lock_fault", lambda folder: "")
    monkeypatch.setattr(node.tempfile, "gettempdir", lambda: "/tmp")
    monkeypatch.setattr(node, "PATIENCE_S", 0)
    monkeypatch.setattr(node, "_reduce", lambda *_: ({"count": 2, "gb_per_s": 300.0}, ""))
    return facts


def test_a_job_on_a_sound_node_prints_what_it_saw(machine, tmp_path, capsys):
    assert node.ready(replace(H100, reduce="nccl"), tmp_path)
    assert capsys.readouterr().out.splitlines() == [
        "preflight:",
        "flock            works",
        "TMPDIR           4 of at most 25 bytes",
        "shared memory    500.0 GiB free",
        "CPUs             16 of at least 9",
        "driver           driver 580.65.06, torch 2.11.0 for CUDA 13.0",
        "GPUs             2 of 2",
        "GPU memory       at most 1.0 GiB in use before we begin",
        "Triton           compiles",
        "flash-attn       imported",
        "all-reduce       nccl, 2 processes, 300 GB/s",
    ]
    assert list(tmp_path.iterdir()) == []  # one node has nobody to tell


def test_every_problem_is_said_at_once(machine, tmp_path, monkeypatch):
    machine.update(flash="ImportError: no", memory=[[1.0, 79.2]], kernel="no C compiler")
    monkeypatch.setattr(node, "_shared_gib", lambda: 0.06)
    monkeypatch.setattr(node, "_cpus", lambda: 8)
    monkeypatch.setattr(node, "_lock_fault", lambda folder: "Function not implemented")
    with pytest.raises(UserError) as caught:
        node.ready(H100, tmp_path)
    keys = [line.split("=")[0] for line in str(caught.value).splitlines()]
    assert keys == ["flock", "/dev/shm", "cpus", "gpus_per_node", "GPU 0", "triton", "flash-attn"]


def test_files_that_cannot_be_locked_are_found(tmp_path, monkeypatch):
    assert node._lock_fault(tmp_path / "new") == ""

    def no_locks(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(node.fcntl, "flock", no_locks)
    assert node._lock_fault(tmp_path) == "Function not implemented"


def test_the_first_task_says_what_another_node_has_found(machine, tmp_path, monkeypatch):
    """The second task must not raise: its end would end the first before it has spoken."""
    need, answers = replace(H100, nodes=2, reduce="nccl"), {}
    monkeypatch.setattr(node, "GATHER_S", 30)
    seen = node.Found("flash-attn", "", "flash-attn=gone: on the second node")
    monkeypatch.setattr(node, "local", lambda *_: [node.Found("driver", "580")])
    first = Thread(target=lambda: answers.update(first=outcome(need, tmp_path, 0)))
    first.start()
    while not (tmp_path / "node-0.json").exists():
        pass
    monkeypatch.setattr(node, "local", lambda *_: [seen])
    answers["second"] = outcome(need, tmp_path, 1)
    first.join(30)
    assert answers == {"first": "flash-attn=gone: on the second node", "second": False}


def test_a_node_that_says_nothing_is_named(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(node, "GATHER_S", 0)
    with refuses("nodes", "2"):
        node.ready(replace(H100, nodes=2), tmp_path)


def outcome(need, folder, rank):
    try:
        return node.ready(need, folder, rank)
    except UserError as error:
        return str(error)


def test_a_command_that_fails_or_hangs_says_why_and_leaves_nothing():
    broken = "import sys; print('x', file=sys.stderr); raise RuntimeError('ncclInvalidUsage')"
    out, fault = node._run([sys.executable, "-c", broken], 60)
    assert (out, fault) == ("", "RuntimeError: ncclInvalidUsage")
    child = "import subprocess as s, time; s.Popen(['sleep', '987']); time.sleep(987)"
    assert node._run([sys.executable, "-c", child], 0.5) == ("", "no answer in 0.5 s")
    left = subprocess.run(["pgrep", "-f", "^sleep 987$"], capture_output=True, text=True)
    assert left.stdout == ""


@pytest.mark.process
def test_the_command_looks_at_this_machine(tmp_path):
    """torch is really asked, and two processes really sum, over gloo."""
    command = [sys.executable, "-m", "slurm", "preflight", "device=cpu", f"folder={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "driver           not looked at: device=cpu\n" in done.stdout
    assert "all-reduce       gloo, 2 processes, " in done.stdout
    probed = subprocess.run(
        [sys.executable, "-m", "slurm.probe"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert set(json.loads(probed.stdout)) == set(GOOD)


JOB = """
import sys
from slurm.job import Task
print(Task(kind="train", key="x", paper="f_grpo", root=sys.argv[1], config=sys.argv[2], time_min=9,
           folder=sys.argv[3], signal_lead_s=9, nodes=1, gpus=1)())
"""


@pytest.mark.process
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_job_on_an_unsound_node_ends_before_it_computes_and_the_status_can_say_why(tmp_path):
    """A profile with GPUs on this machine, which has none."""
    x = load([*TINY, "device=cuda"], "f_grpo")
    config = tmp_path / "x.yaml"
    config.write_text(yaml.safe_dump(asdict(x)))
    command = [sys.executable, "-c", JOB, str(tmp_path), str(config), str(tmp_path / "own")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "UserError: " in done.stderr
    ended = attempts(tmp_path / "own")[-1]["how"]
    assert ended.startswith(("failed: torch=", "failed: gpus_per_node=1: torch sees 0"))
    assert not (tmp_path / "f_grpo").exists()  # nothing was computed, no model was made
