import json
import subprocess
import sys
from dataclasses import asdict, replace
from threading import Thread
from types import SimpleNamespace

import pytest
import torch
import yaml
from refuses import refuses
from tiny import ROOT, TINY

from common.errors import UserError
from common.experiment import load
from slurm import node
from slurm.attempts import attempts
from slurm.checks import CheckResult, Facts, Need, judged, reduction

CODE = {"_target_": "common.verifiers.code.verify"}
H100 = Need(cuda=True, gpus=2, verl=True, verifiers=(CODE,))
OLD = "RuntimeError: The NVIDIA driver on your system is too old (found version 12040)"
TORCH = {"torch": "2.11.0", "cuda": "13.0", "memory": [[78.2, 79.2]] * 2, "fault": "", "flash": ""}
TORCH |= {"kernel": ""}
# a node with two H100s
SOUND = Facts("n1", ROOT, "", "/tmp", 99.0, 500.0, 16, "10.0.0.1", None, "", TORCH)


@pytest.mark.parametrize(
    ("bad", "key", "says"),
    [
        ({"lock": "E"}, "flock=E", str(ROOT)),
        ({"tmpdir": "/" + 25 * "x"}, "TMPDIR=/xxx", "25"),
        ({"tmpdir": "/" + 20 * "ü"}, "TMPDIR=/ü", "41 bytes"),
        ({"shared_gib": 0.06}, "/dev/shm=0.06", "=2g"),
        ({"cpus": 8}, "cpus=8", "9"),
        ({"address": "127.0.1.1"}, "GLOO_SOCKET_IFNAME=", "n1"),
        ({"torch": TORCH | {"cuda": None}}, "torch=2.11.0", "make setup-cluster"),
        ({"torch": TORCH | {"memory": [[78.2, 79.2]]}}, "gpus_per_node=2", "n1"),
        ({"torch": TORCH | {"memory": [], "fault": "E"}}, "gpus_per_node=2", "(E)"),
        ({"torch": TORCH | {"memory": [], "fault": OLD}}, "driver=", OLD),
        ({"tmp_gib": 3.0}, "TMPDIR=/tmp: 3.0", "20"),
        ({"verifier": "bwrap=: not here"}, "bwrap=", "not here"),
        ({"torch": TORCH | {"memory": [[78.2, 79.2], [38.0, 79.2]]}}, "GPU 1=41.2", "n1"),
        ({"torch": TORCH | {"kernel": "E"}}, "triton=E", "Python.h"),
        ({"torch": TORCH | {"flash": "E"}}, "flash-attn=E", "2.11.0"),
    ],
)
def test_each_check_names_its_key_and_what_it_saw(bad, key, says):
    need = replace(H100, nodes=2)
    for well in (SOUND, replace(SOUND, cpus=9, tmpdir="/" + 24 * "x")):
        assert not [one for one in judged(need, well) if one.problem]
    (found,) = [one for one in judged(need, replace(SOUND, **bad)) if one.problem]
    assert found.problem.startswith(key)
    assert says in found.problem
    assert found.here == key.startswith(("/dev/shm", "gpus_per_node", "GPU 1", "TMPDIR=/tmp"))


def test_the_sum_over_all_gpus_is_judged():
    need = replace(H100, nodes=2, reduce="nccl")
    for need_of, speed, slow in ((need, 321.4, False), (need, 4.2, True), (H100, 4.2, False)):
        seen = reduction(replace(need_of, reduce="nccl"), {"count": 4, "gb_per_s": speed}, "")
        assert (seen.problem, "warning: below 20 GB/s" in seen.seen) == ("", slow)
    assert reduction(need, None, "E").problem.startswith("nccl=E: a sum over 4 processes on 2 node")


def test_what_a_job_needs():
    x = load(TINY, "f_grpo")
    verl, cuda = replace(x, backend="verl"), replace(x, backend="verl", device="auto")
    assert node.need_of("train", x, 1, 8) is None  # device=cpu
    assert node.need_of("compare", None, 1, 0) is None
    judge = (x.data.verifier,)
    assert node.need_of("train", verl, 1, 1) == Need(False, 1, 1, True, "", judge)
    assert node.need_of("train", cuda, 2, 8) == Need(True, 8, 2, True, "nccl", judge)
    assert node.need_of("train", cuda, 1, 1) == Need(True, 1, 1, True, "", judge)
    alone = Need(True, 8, 1, verifiers=judge)
    assert node.need_of("train", replace(x, device="cuda"), 1, 8) == alone
    sampled = SimpleNamespace(device="cuda", eval=SimpleNamespace(verifier=CODE))
    suite = SimpleNamespace(evaluations=[sampled, sampled])
    assert node.need_of("evaluate", suite, 1, 1) == Need(True, 1, 1, verifiers=(CODE, CODE))
    assert node.need_of("score", suite, 1, 1) == Need(True, 1, 1)
    assert node.by_hand("cpu", 2, "code") == Need(False, 0, 2, True, "gloo", (CODE,))


def test_a_verifier_without_bubblewrap_is_found_before_a_model_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    need = Need(False, 0, verifiers=(CODE,))
    (found,) = [one for one in judged(need, node.facts(need, tmp_path)) if one.problem]
    assert found.what == "verifier"
    assert found.problem.startswith("bwrap ")


def test_the_first_task_says_what_another_node_has_found(tmp_path, monkeypatch):
    """The second task must not raise: its end would end the first before it has spoken."""
    need, answers = replace(H100, nodes=2, reduce="nccl"), {}
    monkeypatch.setattr(node, "GATHER_S", 30)
    monkeypatch.setattr(node, "facts", lambda *_: SOUND)
    seen = CheckResult("flash-attn", "", "flash-attn=gone: on the second node")
    monkeypatch.setattr(node, "judged", lambda *_: [CheckResult("torch", "2.11")])
    first = Thread(target=lambda: answers.update(first=outcome(need, tmp_path, 0)))
    first.start()
    while not (tmp_path / "node-0.json").exists():
        pass
    monkeypatch.setattr(node, "judged", lambda *_: [seen])
    answers["second"] = outcome(need, tmp_path, 1)
    first.join(30)
    assert answers == {"first": "flash-attn=gone: on the second node", "second": False}


@pytest.mark.parametrize("here", [True, False])
def test_a_problem_of_one_node_may_be_none_of_another(tmp_path, monkeypatch, here):
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    monkeypatch.setattr(node, "facts", lambda *_: SOUND)
    both = [
        CheckResult("GPUs", "", "gpus_per_node=2", here=True),
        CheckResult("CPUs", "", "cpus=8", here),
    ]
    monkeypatch.setattr(node, "judged", lambda *_: both)
    with pytest.raises(UserError, match="gpus_per_node=2\ncpus=8") as error:
        node.ready(H100, tmp_path)
    assert getattr(error.value, "nodes", None) == (("n7",) if here else None)


def test_a_node_that_says_nothing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(node, "facts", lambda *_: SOUND)
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
    assert "flock            works\n" in done.stdout
    assert "all-reduce       gloo, 2 processes, " in done.stdout
    probed = subprocess.run(
        [sys.executable, "-m", "slurm.probe"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert set(json.loads(probed.stdout)) == set(TORCH)


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
