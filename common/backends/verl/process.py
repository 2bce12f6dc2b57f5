"""A child process that runs verl with its own Ray: it is started, followed, ended, reported.

The child dies with this process, Ray's processes are found by their mark and ended, and caches and
sockets are in a temporary folder. If this process is killed, the run's next launch removes them.
"""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from common.backends.verl.checkpoints import drop_old
from common.backends.verl.eased import HOST
from common.backends.verl.progress import BEAT, START_S, STOP, progress
from common.backends.verl.reward import FAULT
from common.backends.verl.sockets import MARK, READABLE
from common.backends.verl.stand_in import stand_in
from common.config.files import ROOT
from common.errors import Fault, UserError
from common.results.files import write, write_json
from common.watch import Watch, die_with_parent, parts, stall_s

PLUGIN = "common.backends.verl.plugin"
MODULES = "VERL_USE_EXTERNAL_MODULES"  # verl imports these in each of its processes
LEFT = "left.json"  # in the work folder: lists what a launch has made outside it
LOST = "RLVR_RAY_LOST"  # environment: a file that appears if a job's Ray has lost a node
LOOK_S = 5.0  # seconds between two looks at the processes
LINES, WIDTH = 25, 300  # last lines of the log in an error message, and characters of each
STARTS = 3  # tries to start Ray: on a busy machine one in a few dozen never gets its node up
NO_NODE = "The current node timed out during startup"  # Ray's message in that case
NO_AGENT = "Timed out waiting for file"  # or the raylet's, which ends after 30 s; Ray waits longer
ERROR = re.compile(r"\b\w*(Error|Exception): .*")
# Not passed on: verl sets its own ranks, and refuses to start if SLURM names the GPUs for AMD too.
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "ROCR_VISIBLE_DEVICES")
SEGMENT = r"(/dev/shm/(?:psm_|sem\.mp-|verl_weights_)\S+)$"  # in /proc/PID/maps
# Imports from a slow, shared file system take minutes; Ray would give up after half a minute.
RAY = {
    "RAY_prestart_worker_first_driver": "0",  # else Ray starts a process for every CPU it counts
    "RAY_gcs_server_port_wait_time_s": "600",
    "RAY_agent_register_timeout_ms": "180000",
    "RAY_worker_register_timeout_seconds": "600",
}


def environment(scratch: Path, metrics: Path, threads: int) -> dict[str, str]:
    """Return the environment of a launch: ours, with our modules, caches below `scratch` and no
    telemetry. A launch's own Ray has a new token; a job's cluster keeps its token in a file
    (slurm/ray_cluster.py), to which Ray would prefer the variable."""
    stand, rays = stand_in(), ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    own = not any(name in os.environ for name in rays)
    modules = [*(stand.MODULES if stand else ()), PLUGIN]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    ours = {key: value for key, value in os.environ.items() if key not in RANKS}
    return {
        "VERL_USE_EXTERNAL_PLUGINS": "none",  # ours is for stock verl, and takes seconds a process
        **ours,
        **RAY,
        MARK: str(scratch),
        **READABLE,
        "PYTHONPATH": os.pathsep.join(paths),
        MODULES: ",".join(modules),
        "VERL_FILE_LOGGER_PATH": str(metrics),
        "OMP_NUM_THREADS": str(threads),
        "TMPDIR": str(scratch),
        "RAY_TMPDIR": str(scratch),
        **({"RAY_AUTH_TOKEN": secrets.token_hex(32)} if own else {}),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_worker_niceness": "0",  # Ray's 15 starves a run if anything else wants the cores
        "HF_DATASETS_CACHE": str(scratch / "datasets"),
        "VLLM_CACHE_ROOT": str(scratch / "vllm"),
        "VLLM_CONFIG_ROOT": str(scratch / "vllm-config"),
        "VLLM_NO_USAGE_STATS": "1",
        # verl's vLLM serves HTTP on the node's address, and its own requests go through Ray
        "VLLM_API_KEY": secrets.token_hex(32),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "HYDRA_FULL_ERROR": "1",
    }


class Dead(Exception):
    """Says that a part of the launch has died or was stopped, or that it makes no progress."""


def launch(
    settings: Path,
    work: Path,
    *,
    threads: int,
    keep_open: int,
    on_step: Callable[..., None] = lambda *_: None,
) -> Iterator[dict]:
    """Run verl on the configuration file `settings` and yield the lines of its metrics as they
    come.

    The child inherits `keep_open`, the run folder's lock. Its output goes to `work`/log, and Ray's
    logs too if it fails. `on_step` is called a few times a second with the seconds of the longest
    step so far; if it raises, the trainer saves after the current step, and the exception is raised
    here after that (Ctrl-C: at once). Raises UserError with the last lines of the log if a part
    fails, dies or is stopped, or makes no progress (common/watch.py).
    """
    for left in reversed(range(STARTS)):
        failure = yield from _attempt(settings, work, threads, keep_open, on_step)
        if failure is None:
            return
        raylet = max((work / "log").glob("*.txt")).with_suffix(".ray") / "raylet.out"
        late = raylet.exists() and NO_AGENT in raylet.read_text(errors="replace")
        if not (NO_NODE in failure or late) or not left:
            fault = work / FAULT  # the verifier's; only one of type Fault may pass by itself
            lasts = fault.exists() and not fault.read_text().startswith(Fault.__name__)
            raise UserError(failure) if lasts else Fault(failure)


def _attempt(
    settings: Path, work: Path, threads: int, keep_open: int, on_step: Callable
) -> Generator[dict, None, str | None]:
    """Run one child and yield its metrics. Return the report of its failure, if it failed."""
    number = len(list((work / "log").glob("*.txt"))) + 1
    log, metrics = work / "log" / f"{number:03d}.txt", work / "log" / f"{number:03d}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    for name in (FAULT, STOP, BEAT):
        (work / name).unlink(missing_ok=True)
    remove_leftovers(work / LEFT)
    drop_old(work)
    with tempfile.TemporaryDirectory(prefix="rlvr-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        with open(log, "wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "common.backends.verl.main", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(scratch, metrics, threads),
                cwd=scratch,
                start_new_session=True,  # Ctrl-C goes to us only; we end the child below
                pass_fds=(keep_open,),
                preexec_fn=die_with_parent,
            )
        shared: set[str] = set()
        failure = None
        try:
            yield from follow(metrics, child, scratch, shared, log, on_step)
        except Dead as dead:
            failure = str(dead)
        finally:
            end_all(scratch)
            child.wait()
            remove(shared)
        if failure is None:
            return None
        keep_ray_logs(scratch, log)
    return report(failure, log, work / FAULT)


def keep_ray_logs(scratch: Path, log: Path) -> None:
    for logs in (*scratch.glob("session_latest/logs"), *scratch.glob("ray/session_latest/logs")):
        with suppress(OSError):  # report the launch's failure, not this one
            shutil.copytree(logs, log.with_suffix(".ray"), ignore_dangling_symlinks=True)


def follow(
    path: Path,
    child: subprocess.Popen,
    scratch: Path,
    shared: set[str],
    log: Path,
    on_step: Callable,
) -> Iterator[dict]:
    """Yield the whole JSON lines that `child` appends to `path`, to its end. Add to `shared` its
    files in shared memory, which processes that Ray kills leave behind, and write to `left.json`
    what must be removed if this process is killed too. Raises Dead, also if the child fails, or
    what `on_step` has raised, after the child's end."""
    work, began, asked = log.parents[1], time.monotonic(), None
    position, over, told, looked, watched = 0, False, False, 0.0, Watch(stall_s())
    while not over:
        over = child.poll() is not None
        rows, position = _whole_lines(path, position)
        for row in rows:
            seconds = row.get("data", {}).get("timing_s/step", 0.0)
            watched.longest = max(watched.longest, seconds)
            yield row
        if over:
            break
        try:
            if asked is None:
                on_step(watched.longest)
        except KeyboardInterrupt:  # a user at a terminal would have to wait for a whole step
            raise
        except BaseException as error:
            asked = error
        if asked is not None and not told:
            with suppress(UserError):  # a shared file system may fail for a moment
                write(work / STOP, str(asked))
                told = True
        if time.monotonic() > looked + LOOK_S:
            processes = marked(scratch)
            shared.update(*map(shared_memory, processes))
            with suppress(UserError):  # it ends no healthy run that this cannot be written
                write_json(work / LEFT, {"scratch": str(scratch), "shared": sorted(shared)})
            talks = time.monotonic() < began + START_S
            moved = progress(work, log if talks else None, path)
            wrong = watched.look(parts(processes), moved, time.monotonic())
            if wrong := wrong or _lost_node():
                raise Dead(wrong)
            looked = time.monotonic()
        time.sleep(0.3)
    if child.returncode:
        first = watched.had_died(time.monotonic()) or _lost_node()
        ended = f"common.backends.verl.main ended with exit code {child.returncode}"
        raise Dead(f"{ended}; {first}" if first else ended)
    if asked is not None:
        raise asked


def _whole_lines(path: Path, position: int) -> tuple[list[dict], int]:
    """Return the JSON lines of a growing file from `position` on, and where the next one begins."""
    rows: list[dict] = []
    with suppress(OSError), open(path, "rb") as file:  # not there yet, or not for a moment
        file.seek(position)
        for line in file:
            if not line.endswith(b"\n"):
                break
            position += len(line)
            rows.append(json.loads(line))
    return rows, position


def _lost_node() -> str | None:
    path = os.environ.get(LOST)
    with suppress(OSError):
        return Path(path).read_text() if path else None
    return None


def end_all(scratch: Path, patience: float = 20.0) -> None:
    """End every process that carries this launch's mark, and wait until they are gone."""
    until = time.monotonic() + patience
    while (processes := marked(scratch)) and time.monotonic() < until:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.1)


def remove(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


def remove_leftovers(left: Path) -> None:
    """Remove what an earlier launch has left because its follower was killed too."""
    with suppress(OSError, ValueError):
        noted = json.loads(left.read_text())
        end_all(Path(noted["scratch"]))
        remove(noted["shared"])
        shutil.rmtree(noted["scratch"], ignore_errors=True)
    left.unlink(missing_ok=True)


def shared_memory(process: psutil.Process) -> set[str]:
    """Return a process's files in shared memory; psutil would count their pages first."""
    with suppress(OSError):
        maps = Path("/proc", str(process.pid), "maps").read_text()
        return set(re.findall(SEGMENT, maps, re.MULTILINE))
    return set()


def marked(scratch: Path) -> list[psutil.Process]:
    """Return the living processes of a launch, found by their environment."""
    everyone = psutil.process_iter(["environ"])
    return [p for p in everyone if (p.info["environ"] or {}).get(MARK) == str(scratch)]


def report(failure: str, log: Path, fault: Path) -> str:
    """Return a bounded report: the verifier's fault, the log's errors and its last lines."""
    tail, errors = deque(maxlen=LINES), {}
    with open(log, errors="replace") as file:
        while line := file.readline(100_000):
            tail.append(line[:WIDTH].rstrip())
            if match := ERROR.search(line[:10_000]):
                # the first error is most often the cause, and the last one ended the launch
                errors[match[0][: 2 * WIDTH].rstrip()] = None
                if len(errors) > 4:
                    del errors[list(errors)[3]]
    said = [f"backend=verl: {failure}; its log is {log}"]
    if re.search(HOST, "\n".join([*errors, *tail])):
        said.append("memory_gb: a node's main memory ran out; ask for more, or use fewer processes")
    if fault.exists():
        said.append("the verifier failed: " + fault.read_text()[:2000].strip())
    said += [f"error: {text}" for text in errors]
    return "\n".join([*said, "the last lines:", *(f"  {line}" for line in tail)])
