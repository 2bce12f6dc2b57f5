"""A private SLURM on this machine: three virtual nodes with fake GPUs, accounting, preemption. As a
program it prints what Debian calls the packages that it needs.

Needs root and Debian's packages (PACKAGES below), which it does not install. Keys, sockets,
database, spool and logs lie in FOLDER; nothing else is written. Jobs run as the caller. Left out:
cgroups (a container has none to give), so memory and CPU limits are bookkeeping only.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

# asked for before there is an environment: psutil is imported where it is used
PACKAGES = "munge slurmctld slurmd slurm-client slurmdbd mariadb-server-core"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "slurmdbd", "mariadbd")
NODES, GPUS, CPUS, MEMORY_MB = 3, 8, 64, 512_000
MARK = "SLURM_TEST_FOLDER"  # in the environment of every daemon, and so of what it starts
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])

SLURM_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
MailProg=/bin/true
# no cgroups, no affinity: works in any container
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
ReturnToService=2
MessageTimeout=30
# a node that does not answer is down, and its jobs are requeued, within seconds
SlurmdTimeout=8
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=10000,bf_interval=1
KillWait=3
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
# jobs of "low" are requeued for those of "high"; they get their --signal first
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd_port}
AccountingStoragePass={folder}/munge.sock
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations
JobAcctGatherType=jobacct_gather/linux
NodeName=node[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] \
CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus}
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE \
GraceTime=10
PartitionName=high Nodes=ALL MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
"""

SLURMDBD_CONF = """
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={dbd_port}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
"""


def missing() -> str | None:
    """Why no cluster can be started here, or None."""
    if os.geteuid() != 0:
        return "starting SLURM's daemons needs root"
    absent = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if absent:
        return f"{', '.join(absent)} not found; apt-get install {PACKAGES}"
    return None


def start(folder: Path) -> Path:
    """Start everything and wait until all nodes are idle; returns the SLURM_CONF. Raises
    RuntimeError with the end of the log of what did not start."""
    folder = folder.resolve()
    assert len(str(folder)) < 80, f"{folder}: unix sockets need a short path"
    for name in ("run", "log", "state", "db", "dev", *(f"spool/node{i + 1}" for i in range(NODES))):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for i in range(GPUS):
        (folder / "dev" / f"gpu{i}").symlink_to("/dev/null")
    port = _free_ports(NODES + 2)
    values = dict(folder=folder, port=port, dbd_port=port + 1, first=port + 2, nodes=NODES)
    values |= dict(last=port + 1 + NODES, host=socket.gethostname().split(".")[0], user="root")
    values |= dict(cpus=CPUS, memory=MEMORY_MB, gpus=GPUS)
    conf = folder / "slurm.conf"
    conf.write_text(SLURM_CONF.format(**values))
    gres = f"NodeName=node[1-{NODES}] Name=gpu File={folder}/dev/gpu[0-{GPUS - 1}]\n"
    (folder / "gres.conf").write_text(gres)
    (folder / "slurmdbd.conf").write_text(SLURMDBD_CONF.format(**values))
    (folder / "slurmdbd.conf").chmod(0o600)
    try:
        _start_munge(folder)
        _start_accounting(folder, port + 1)
        _daemon(folder, "slurmctld", "-c", "-f", str(conf))
        for i in range(NODES):
            start_node(folder, f"node{i + 1}")
        idle = ["idle"] * NODES
        _wait(folder, "slurm", lambda: _run(folder, "sinfo", "-hN", "-plow", "-o%T") == idle)
    except BaseException:
        stop(folder)
        raise
    return conf


def start_node(folder: Path, name: str) -> None:
    _daemon(folder, "slurmd", "-N", name, "-f", str(folder / "slurm.conf"))


def stop_node(folder: Path, name: str) -> None:
    """Kill a node's slurmd; what it had started lives on, as after a crash of the daemon."""
    os.kill(int((folder / "run" / f"slurmd-{name}.pid").read_text()), signal.SIGKILL)


def stop(folder: Path) -> None:
    """End the jobs, then the daemons, then whatever carries this folder's mark. The logs stay."""
    folder = folder.resolve()
    with_jobs = _run(folder, "squeue", "-ho", "%A")
    if with_jobs:
        _run(folder, "scancel", "--full", *sorted(set(with_jobs)))
        _until(lambda: not _run(folder, "squeue", "-ho", "%A"), 8)
    for daemon in ("slurmd", "slurmctld", "slurmdbd", "mariadbd", "munged"):
        found = [pid for pid in processes(folder) if name(pid) == daemon]
        _signal(found, signal.SIGTERM)
        _until(lambda found=found: not any(map(alive, found)), 8)
    _signal(processes(folder), signal.SIGTERM)
    _until(lambda: not processes(folder), 2)
    _signal(processes(folder), signal.SIGKILL)
    if not _until(lambda: not processes(folder), 5):
        raise RuntimeError(f"still running: {[(p, name(p)) for p in processes(folder)]}")


def processes(folder: Path) -> list[int]:
    """The living daemons of this cluster and the processes of its jobs, by their environment."""
    import psutil

    found = []
    for process in psutil.process_iter(["environ"]):
        words = process.info["environ"] or {}
        job = words.get("SLURM_CONF") == f"{folder}/slurm.conf" and "SLURM_JOB_ID" in words
        ours = job or words.get(MARK) == str(folder)
        if ours and process.pid != os.getpid() and alive(process.pid):
            found.append(process.pid)
    return found


def alive(pid: int) -> bool:
    import psutil

    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    return False


def name(pid: int) -> str:
    import psutil

    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).name()
    return ""


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _environment(folder: Path) -> dict[str, str]:
    ours = {"PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf"), MARK: str(folder)}
    return os.environ | ours | {"LC_ALL": "C", "MYSQL_UNIX_PORT": str(folder / "run" / "db.sock")}


def _daemon(folder: Path, *command: str) -> None:
    """Run a program that ends, or goes to the background by itself, in a session of its own."""
    out = folder / "log" / f"{command[0]}.out"
    with open(out, "ab") as log:
        done = subprocess.run(
            command,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            timeout=60,
        )
    if done.returncode:
        raise RuntimeError(f"{command[0]} did not start:\n{out.read_text()[-2000:]}")


def _start_munge(folder: Path) -> None:
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    files = dict(key="munge.key", seed="munge.seed", pid="run/munged.pid", log="log/munged.log")
    named = [f"--{kind}-file={folder / file}" for kind, file in files.items()]
    _daemon(folder, "munged", "--force", f"--socket={folder / 'munge.sock'}", *named)
    _wait(folder, "munged", lambda: _run(folder, "munge", "-S", f"{folder}/munge.sock", "-n"))


def _start_accounting(folder: Path, port: int) -> None:
    """MariaDB without a network, then slurmdbd. Without accounting submitit sees no job end."""
    base = ["mariadbd", "--no-defaults", "--user=root", f"--datadir={folder / 'db'}"]
    base += ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--skip-log-bin"]
    base += ["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"]
    share = Path("/usr/share/mysql")
    tables = ["mysql_system_tables.sql", "mysql_system_tables_data.sql"]
    script = "create database mysql;\nuse mysql;\nset @auth_root_socket=NULL;\n"
    script += "set @skip_auth_anonymous='yes';\n" + "".join((share / t).read_text() for t in tables)
    subprocess.run(
        [*base, "--bootstrap"],
        input=script,
        env=_environment(folder),
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    with open(folder / "log" / "mariadbd.out", "wb") as log:
        subprocess.Popen(
            [*base, f"--socket={folder / 'run' / 'db.sock'}", "--skip-networking",
             f"--pid-file={folder / 'run' / 'mariadbd.pid'}", "--skip-name-resolve",
             "--innodb-lock-wait-timeout=900", "--performance-schema=OFF"],
            env=_environment(folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    _wait(folder, "mariadbd", (folder / "run" / "db.sock").exists)
    _daemon(folder, "slurmdbd")
    _wait(folder, "slurmdbd", lambda: _open(port))
    for words in (["cluster", "test"], ["account", "lab"], ["user", "root", "account=lab"]):
        _daemon(folder, "sacctmgr", "-iQ", "add", *words)


def _run(folder: Path, *command: str) -> list[str]:
    """The lines that a SLURM command prints; none if it fails."""
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            command, env=_environment(folder), capture_output=True, text=True, timeout=20
        )
        return done.stdout.splitlines() if done.returncode == 0 else []
    return []


def _until(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return bool(met)


def _wait(folder: Path, name: str, condition) -> None:
    if not _until(condition, 60):
        logs = "".join(p.read_text()[-2000:] for p in (folder / "log").glob(f"{name}*"))
        raise RuntimeError(f"{name} is not ready after 60 s:\n{logs}")


def _open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_ports(count: int) -> int:
    for port in range(17800, 19800, 20):
        if not any(_open(port + i) for i in range(count)):
            return port
    raise RuntimeError("no free block of ports between 17800 and 19800")


if __name__ == "__main__":
    print(PACKAGES)
