"""The test cluster itself: what it offers, and that it leaves nothing behind."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import one_machine
from lab import sh


def test_three_nodes_with_gpus_preemption_and_accounting(slurm):
    assert sorted(sh("sinfo", "-hN", "-p", "low", "-o", "%N %G").splitlines()) == [
        f"node{i} gpu:{one_machine.GPUS}" for i in (1, 2, 3)
    ]
    words = ["srun", "-A", "lab", "-N3", "--gres=gpu:8", "bash", "-c"]
    seen = sh(*words, "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES")
    assert sorted(seen.splitlines()) == [f"node{i} 0,1,2,3,4,5,6,7" for i in (1, 2, 3)]
    assert "PreemptType             = preempt/partition_prio" in sh("scontrol", "show", "config")
    assert "lab" in sh("sacctmgr", "-nP", "show", "association", "format=account").splitlines()


def test_a_second_cluster_comes_and_goes_without_a_trace(slurm):
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    mounts, shared = Path("/proc/mounts").read_text(), traces()
    try:
        conf = one_machine.start(folder)
        assert len(one_machine.processes(folder)) >= 7  # munged, mariadbd, slurmdbd, slurmctld, 3
        words = ["sbatch", "-A", "lab", "--wrap", "sleep 1000", "-o", str(folder / "out")]
        environment = {"SLURM_CONF": str(conf), "PATH": one_machine.PATH}
        subprocess.run(words, env=environment, check=True, capture_output=True)
    finally:
        one_machine.stop(folder)
    assert one_machine.processes(folder) == []
    assert one_machine.processes(slurm) != []  # the other one is left alone
    shutil.rmtree(folder)
    assert Path("/proc/mounts").read_text() == mounts
    assert traces() == shared


def traces() -> dict[Path, float]:
    """What SLURM, munge and MariaDB keep where a system's own daemons do, with its times."""
    places = [
        Path("/", *words.split()) for words in ("etc", "run", "var lib", "var log", "dev shm")
    ]
    places += [Path("/", "var", "spool"), Path.home()]
    names = ("slurm", "munge", "mysql", "maria")
    found = [path for place in places if place.exists() for path in place.iterdir()]
    own = [path for path in found if any(name in path.name for name in names)]
    inside = [one for path in own if path.is_dir() for one in path.rglob("*")]
    return {path: path.lstat().st_mtime for path in (*own, *inside)}
