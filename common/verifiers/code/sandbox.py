r"""A sandbox for programs that a model wrote: bubblewrap, namespaces, rlimits, seccomp, no network.

    result = run("print(int(input()) + 1)", "41\n", seconds=6, memory=2 << 30)
    result.output == "42\n"

One long-lived process inside one bubblewrap (`sandbox_child.py`) forks an isolated child for each
test and ends with this process, by whatever signal. A program sees the Python prefix, the system
libraries and numpy, read-only; a private /tmp that vanishes; no network, no host directory, no
other process. Where bubblewrap is missing or cannot make namespaces, every entry point raises
UserError: nothing is ever run unprotected.

If the worker is root, the program runs as user UID + the worker's process id, because RLIMIT_NPROC
counts by user and no two sandboxes may share one; else in a user namespace of the caller's.
"""

import atexit
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.platforms import need_linux
from common.verifiers.code import seccomp

UID = 2_000_000_000  # above every real user; a worker's process id is added
WALL = 4  # a test ends after so many times its limit, even if it only waited for a processor
PROCESSES = 32  # processes and threads of one test
OUTPUT = 64 << 20  # bytes of one file that a program writes, standard output included
DISK = 64 << 20  # bytes of its /tmp
GRACE = 10.0  # seconds beyond WALL times the limit until the whole sandbox is given up
EXCERPT = 2000  # bytes of standard error that are kept
SCRIPT = Path(__file__).with_name("sandbox_child.py")


@dataclass(frozen=True)
class Result:
    """How a test ended. `status`: exited (with `code`), killed (by signal `code`), timeout, memory,
    processes (too many), output (too much), or sandbox: the sandbox itself failed, see `errors`."""

    status: str
    code: int = 0
    output: str = ""
    value: str = ""  # JSON that the called function returned
    errors: str = ""  # the end of standard error
    seconds: float = 0.0


def require_bwrap() -> None:
    """Start the sandbox with a trivial program. Raises UserError with the remedy if it cannot
    run."""
    result = run("print(input())", "ready", seconds=30, memory=256 << 20)
    if (result.status, result.output) != ("exited", "ready\n"):
        raise UserError(
            f"the sandbox for model-written programs does not work here: {result.status} "
            f"{result.code}, {result.errors[-500:]!r}; python and its libraries must be readable "
            "by other users, and a worker's memory limit must be above a test's"
        )


def run(
    program: str, text: str, *, seconds: float, memory: int, function: str | None = None
) -> Result:
    """Run `program` on `text` as standard input, or call its `function` with the JSON list `text`.

    seconds   the limit on processor time, and on the time in which no process of the test waited
              for a processor, so that a busy machine changes no result; WALL times it is the most
    memory    the limit in bytes, on the address space of each process and on the resident memory of
              all processes together

    Raises UserError where bubblewrap is missing or refused.
    """
    request = {"seconds": seconds, "memory": memory, "function": function}
    with _lock:
        result = _sandbox().run(request, program, text)
        if result.status == "sandbox":  # again: the thread that started it may have ended
            close()
            result = _sandbox().run(request, program, text)
        if result.status == "sandbox":
            close()
    return result


def close() -> None:
    global _current
    if _current is not None and _current.owner == os.getpid():
        _current.close()
    _current = None


atexit.register(close)
_lock = threading.RLock()
_current = None


def _sandbox() -> "_Sandbox":
    global _current
    need_linux("verifier", "code", "docs/platforms.md has a command for a container")
    if _current is None or _current.owner != os.getpid():
        _current = _Sandbox()
    return _current


class _Sandbox:
    def __init__(self):
        self.owner = os.getpid()
        # The root of an unprivileged container cannot become another user: not treated as root.
        root = os.geteuid() == 0 and "4294967295" in Path("/proc/self/uid_map").read_text()
        release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
        self._limits = {
            "wall": WALL,
            "uid": UID + self.owner if root else None,
            "processes": PROCESSES,
            # before Linux 5.14 it counted all processes of a user, outside the namespace too
            "limit_processes": root or release >= (5, 14),
            "output": OUTPUT,
            "disk": DISK,
            "seccomp": seccomp.program(platform.machine()).hex(),
        }
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        with theirs:
            self._process = subprocess.Popen(
                _command(root),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
            )

    def run(self, request: dict, program: str, text: str) -> Result:
        files = [os.memfd_create(name) for name in ("input", "output", "errors", "value", "text")]
        try:
            for file, content in ((files[0], text), (files[4], program)):
                with open(file, "wb", closefd=False) as stream:
                    stream.write(content.encode("utf-8", "replace"))
                os.lseek(file, 0, os.SEEK_SET)
            try:
                reply = self._ask(request | self._limits, files)
            except (OSError, ValueError) as error:
                return Result("sandbox", errors=f"{type(error).__name__}; {self._stderr_text()}")
            return _result(reply, files)
        finally:
            for file in files:
                os.close(file)

    def _ask(self, request: dict, files: list[int]) -> dict:
        self._socket.settimeout(WALL * request["seconds"] + GRACE)
        socket.send_fds(self._socket, [json.dumps(request).encode()], files)
        return json.loads(self._socket.recv(65_536))

    def _stderr_text(self) -> str:
        self._errors.seek(0)
        said = self._errors.read(EXCERPT).decode("utf-8", "replace").strip()
        if said.startswith("bwrap:"):
            raise UserError(
                f"bubblewrap cannot isolate model-written programs here ({said[:300]}); it needs "
                "root with CAP_SYS_ADMIN, or unprivileged user namespaces "
                "(sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces)"
            )
        return said or "no answer from the sandbox"

    def close(self) -> None:
        self._socket.close()
        self._process.send_signal(signal.SIGKILL)  # --die-with-parent ends all that is inside
        self._process.wait()
        self._errors.close()


def _result(reply: dict, files: list[int]) -> Result:
    size = os.fstat(files[1]).st_size
    end = os.fstat(files[2]).st_size
    status = "output" if size >= OUTPUT and reply["status"] != "sandbox" else reply["status"]
    return Result(
        status,
        reply.get("code", 0),
        "" if status == "output" else os.pread(files[1], size, 0).decode("utf-8", "replace"),
        os.pread(files[3], OUTPUT, 0).decode("utf-8", "replace"),
        reply.get("why")
        or os.pread(files[2], EXCERPT, max(0, end - EXCERPT)).decode("utf-8", "replace"),
        reply.get("seconds", 0.0),
    )


def _command(root: bool) -> list[str]:
    """Return bubblewrap's command line. It names every path of the host that a program can see."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise UserError(
            "bwrap is not installed: model-written programs are only run inside bubblewrap "
            "(apt-get install bubblewrap, or dnf install bubblewrap); never unprotected"
        )
    command = [bwrap, "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid"]
    command += ["--unshare-net", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
    command += ["--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"]
    if root:
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--uid", "60600", "--gid", "60600"]
    command += ["--clearenv", "--setenv", "HOME", "/tmp", "--setenv", "PATH", "/bin"]
    command += ["--setenv", "PYTHONHASHSEED", "0", "--setenv", "OPENBLAS_NUM_THREADS", "1"]
    command += ["--setenv", "PYTHONPATH", "/packages", "--setenv", "LANG", "C.UTF-8"]
    for folder in ("/usr", "/usr/bin", "/packages"):  # as mere parents they would be root's only
        command += ["--dir", folder]
    for folder in ("/usr/lib", "/usr/lib64"):
        if os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    for folder in ("/lib", "/lib64"):
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    python, binds = _python()
    command += [*binds, *_libraries()]
    numpy = importlib.util.find_spec("numpy")
    if numpy is not None:
        place = Path(numpy.submodule_search_locations[0])
        for folder in filter(Path.is_dir, (place, place.with_name("numpy.libs"))):
            command += ["--ro-bind", str(folder), f"/packages/{folder.name}"]
    command += ["--ro-bind", str(SCRIPT), "/sandbox_child.py", "--proc", "/proc", "--dir", "/tmp"]
    command += ["--tmpfs", "/dev"]
    for device in ("null", "zero", "full", "random", "urandom"):
        command += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        command += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
    command += ["--symlink", "/proc/self/fd", "/dev/fd", "--symlink", "/tmp", "/dev/shm"]
    command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--"]
    return [*command, python, "-s", "-B", "-P", "-X", "utf8", "/sandbox_child.py"]


def _python() -> tuple[str, list[str]]:
    executable = Path(os.path.realpath(sys.executable))
    prefix = Path(sys.base_prefix).resolve()
    if not executable.is_relative_to(prefix):
        raise UserError(f"python {executable} is not below its prefix {prefix}: cannot be bound")
    if prefix != Path("/usr"):
        return f"/python/{executable.relative_to(prefix)}", ["--ro-bind", str(prefix), "/python"]
    return str(executable), ["--ro-bind", str(executable), str(executable)]


def _libraries() -> list[str]:
    """Return the options for the interpreter's libraries outside the system's folders, which it
    names by absolute paths that the sandbox does not have."""
    traced = os.environ | {"LD_TRACE_LOADED_OBJECTS": "1"}  # the loader lists them and runs nothing
    listed = subprocess.run(
        [sys.executable], env=traced, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    options = ["--dir", "/libraries", "--setenv", "LD_LIBRARY_PATH", "/libraries"]
    for name, path in re.findall(r"(\S+) => (/(?!(?:usr/)?lib(?:64)?/).+) \(", listed.stdout):
        options += ["--ro-bind", path, f"/libraries/{name}"]
    return options
