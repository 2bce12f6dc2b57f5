"""A Ray cluster over the nodes of one job. The first task is the head and the driver, the others
are workers, which find its address in a shared folder. Only processes started here are ended: `ray
stop` would end every Ray on a shared node."""

import math
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from common.backends.verl.process import LOST, RAY, keep_ray_logs
from common.backends.verl.sockets import MARK, READABLE
from common.errors import Fault
from common.results.files import write
from common.watch import Watch, parts
from slurm.stop import node_name

PROGRAM = str(Path(sys.executable).with_name("ray"))
WAIT_S = 600  # seconds to wait for the head's address, and for all nodes to join
STATUS_S = 60  # seconds for one answer of `ray status`, which never gives up on a dead head
LOOK_S = 20  # seconds between two looks at the nodes while the driver runs
SILENT = 3  # looks without an answer before the head counts as dead: a node may be busy
FAILED = "failed"  # the content of the file `done` if the driver did not end well
TRIES = 3  # starts of Ray, which ends itself if a busy node takes longer than 30 s to start


@contextmanager
def head(folder: Path, nodes: int, gpus: int):
    """Start a Ray cluster of all `nodes`, if there are several. Within the block RAY_ADDRESS names
    it. The workers end when `<folder>/done` appears, however the driver ends. If a node is lost,
    `<folder>/lost` says so, which ends the driver (common/backends/verl/process.py). After a
    failure Ray's logs of every node are in `<folder>/NODE.ray`."""
    if nodes == 1:
        yield
        return
    port, address = free_port(), node_address()
    folder.mkdir(parents=True, exist_ok=True)
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    os.environ |= _token(folder)
    where, scratch = f"{address}:{port}", tempfile.mkdtemp(prefix="ray-")
    here = [f"--node-ip-address={address}", f"--port={port}", f"--temp-dir={scratch}"]
    process, ended, how = None, threading.Event(), FAILED
    try:
        for attempt in range(1, TRIES + 1):
            process = _start("--head", "--include-dashboard=false", *here, gpus=gpus)
            if _wait(lambda: _alive(where) > 0, process, "the head", last=attempt == TRIES):
                break
            _end(process)
        # not written when the port opens: workers look for the head's own node, and give up
        write(folder / "address", f"{where} {scratch}")
        _wait(lambda: _alive(where) == nodes, process, f"all {nodes} nodes")
        write(folder / "whole", "")
        os.environ["RAY_ADDRESS"] = where
        os.environ[LOST] = str(folder / "lost")
        for look, what in ((_look, (where, nodes)), (_look_here, ())):
            looking = (*what, folder / "lost", process, ended)
            threading.Thread(target=look, args=looking, daemon=True).start()
        yield
        how = ""
    finally:
        ended.set()
        for name in ("RAY_ADDRESS", LOST, *_token(folder)):
            os.environ.pop(name, None)
        write(folder / "done", how)
        if process is not None:
            _end(process)
        _clear(Path(scratch), folder)


def _look(
    where: str, nodes: int, lost: Path, process: subprocess.Popen, ended: threading.Event
) -> None:
    missing = silent = 0
    while not ended.wait(LOOK_S):
        count = _alive(where)
        missing, silent = (missing + 1) * (0 < count < nodes), (silent + 1) * (count == 0)
        over = process.poll() is not None
        if ended.is_set():
            return
        if over or missing == 2 or silent == SILENT:
            what = "its head has ended" if over else f"{count} of {nodes} nodes answer"
            write(lost, f"Ray has lost a node: {what}; the logs of all tasks say more")
            return


def _look_here(lost: Path, process: subprocess.Popen, ended: threading.Event) -> None:
    watches: dict[str, Watch] = {}
    while not ended.wait(LOOK_S / 4) and process.poll() is None:
        if wrong := wrong_here(process.pid, watches, time.monotonic()):
            write(lost, f"node={node_name()}: {wrong}")
            return


def wrong_here(ray: int, watches: dict[str, Watch], now: float) -> str | None:
    """Return what is wrong with the processes below `ray`. Each launch of verl has a separate
    watch: processes that go with their launch have not died."""
    launches: dict[str, list[psutil.Process]] = {}
    with suppress(psutil.Error):
        for process in psutil.Process(ray).children(recursive=True):
            with suppress(psutil.Error):
                launches.setdefault(process.environ().get(MARK, ""), []).append(process)
    said = None
    for launch, processes in launches.items():
        alive = parts(processes)
        if any(part.needed for part in alive):
            watch = watches.setdefault(launch, Watch(math.inf))
            said = said or watch.look(alive, None, now)
        else:
            watches.pop(launch, None)
    return said


def work(folder: Path, gpus: int) -> str:
    """Join the head's cluster and stay until it is done. Raises Fault where Ray ends early."""
    _wait((folder / "address").exists, None, f"the head's address in {folder}")
    address, scratch = (folder / "address").read_text().split(" ", 1)
    os.environ |= _token(folder)
    try:
        for _ in range(TRIES):
            process = _start(
                f"--address={address}", f"--node-ip-address={node_address()}", gpus=gpus
            )
            ended = threading.Event()
            looking = (folder / "lost", process, ended)
            threading.Thread(target=_look_here, args=looking, daemon=True).start()
            try:
                while process.poll() is None and not (folder / "done").exists():
                    time.sleep(0.5)
            finally:
                ended.set()
                _end(process)
            if (folder / "done").exists():
                return "worker"
            if (folder / "whole").exists():  # a new Ray would be a node without verl's actors
                write(folder / "lost", f"node={node_name()}: its Ray has ended")
                break
    finally:
        _clear(Path(scratch), folder)  # Ray writes to this path on each node
    raise Fault(f"ray ended with {process.returncode} on {socket.gethostname()}")


def _token(folder: Path) -> dict[str, str]:
    """Return the variables of this job's token: without it anyone who reaches the head's port could
    run programs."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}


def _clear(scratch: Path, folder: Path) -> None:
    """Remove what Ray has written on this node. Its logs are kept unless all went well."""
    done = folder / "done"
    if not done.exists() or done.read_text() == FAILED:
        keep_ray_logs(scratch, folder / socket.gethostname().split(".")[0])
    shutil.rmtree(scratch, ignore_errors=True)


def _start(*arguments: str, gpus: int) -> subprocess.Popen:
    """Start `ray start --block` with the CPUs that SLURM gave; Ray would count the node's."""
    cpus = os.environ.get("SLURM_CPUS_PER_TASK") or os.environ.get("SLURM_CPUS_ON_NODE", "1")
    command = [PROGRAM, "start", *arguments, "--block", f"--num-cpus={cpus}"]
    command += [f"--num-gpus={gpus}", "--disable-usage-stats"]
    # SLURM sets AMD's variable as well as NVIDIA's, and verl refuses to see both.
    env = {name: value for name, value in os.environ.items() if name != "ROCR_VISIBLE_DEVICES"}
    return subprocess.Popen(command, env=env | READABLE | RAY, start_new_session=True)


def _alive(address: str) -> int:
    """Return how many nodes have joined, from `ray status`; 0 if it does not answer."""
    command = [PROGRAM, "status", f"--address={address}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=STATUS_S)
    except subprocess.TimeoutExpired:
        return 0
    return len(re.findall(r"^ *1 node_", done.stdout, re.MULTILINE))


def _end(process: subprocess.Popen) -> None:
    """Kill `ray start --block`, and with it what it has started (Ray's PR_SET_PDEATHSIG)."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait(condition, process: subprocess.Popen | None, what: str, last: bool = True) -> bool:
    """Wait until condition() holds and return whether it does. Raises Fault after WAIT_S and when
    the process has ended, if no other try follows (`last`)."""
    end = time.monotonic() + WAIT_S
    while process is None or process.poll() is None:
        if condition():
            return True
        if time.monotonic() > end:
            raise Fault(f"Ray: no sign of {what} after {WAIT_S} s; see the logs of all tasks")
        time.sleep(0.2)
    if last:
        raise Fault(f"ray ended with {process.returncode} while waiting for {what}")
    return False


def node_address() -> str:
    """Return this node's address as other nodes see it: of its host name or, if this is a loopback
    address (Debian's 127.0.1.1), of the interface through which packets leave."""
    named = socket.gethostbyname(socket.gethostname())
    if not named.startswith("127."):
        return named
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("198.51.100.1", 9))  # sends nothing; the address belongs to nobody
        return probe.getsockname()[0]
    return named


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]
