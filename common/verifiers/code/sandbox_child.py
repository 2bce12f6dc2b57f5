"""Runs inside the sandbox: forks one isolated process a test. A stand-alone script, no module.

`verifiers/code/sandbox.py` starts it within bubblewrap, as root or in a user namespace, with the
capability to make namespaces. Its standard input is a socket: a request is a small JSON object with
the descriptors of five memory files (input, output, errors, result, program text), the answer a
JSON object. Python and the usual modules are loaded once, so a test costs a fork.

For each test there are two new processes in a new pid namespace:

    zygote   waits, watches memory and the number of processes, kills at the deadline; it never
             reads the files, so nothing of one program is in the memory that the next one inherits
    init     pid 1 of the test: sleeps until the zygote kills it. It shares the zygote's memory, so
             it costs no copy; it keeps its privileges, so no program can signal or trace it
    program  pid 2, with private /tmp and /proc: another user, no capability, no_new_privs, seccomp,
             rlimits; runs the text

When init is killed, the kernel kills every process of the namespace and drops its mounts, so
nothing outlives a test. The program sees its own input and never an expected output; all that it
can forge is its own output. Text is executed here and nowhere else in the repository.
"""

import atexit
import builtins
import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import types

VM, NEWNS, NEWPID = 0x00000100, 0x00020000, 0x20000000
NOSUID_NODEV_NOEXEC = 2 | 4 | 8
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 4, 22, 38
CAP_VERSION_3 = 0x20080522
FILES = ("input", "output", "errors", "result", "program")  # descriptors 0 to 4 of a program

# What LiveCodeBench's checker imports before every program, in its order: `from x import *` for
# each (`builtins` late, so that `pow` and `open` are the usual ones), then the modules themselves.
PRELUDE = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json", "builtins"),
    "typing",
)

INIT_STACK = ctypes.create_string_buffer(65_536)
libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    host = socket.socket(fileno=0)
    own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
    _prelude()
    compile("", "", "exec")  # the first one builds the compiler's tables
    gc.collect()  # or every child would begin with it, and copy all that it touches
    gc.freeze()  # what is loaded stays shared with the children
    while True:
        message, files, _, _ = socket.recv_fds(host, 65_536, len(FILES))
        if not message:
            return  # the host is gone
        reply = _test(json.loads(message), files, own_pids)
        for file in files:
            os.close(file)
        host.sendall(json.dumps(reply).encode())


def _prelude() -> None:
    """Make every name of the checker's imports a builtin, if it is none: a program's own definition
    still comes first."""
    names = {}
    for name in PRELUDE:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")])
        names |= {n: getattr(module, n) for n in public}
    names |= {name: sys.modules[name] for name in PRELUDE if name not in ("builtins", "typing")}
    for name, value in names.items():
        vars(builtins).setdefault(name, value)


def _test(request: dict, files: list[int], own_pids: int) -> dict:
    """Run one test from fork to the last process's end. `status` is exited (`code`), killed (`code`
    is the signal), timeout, memory, processes or sandbox (the program was never started; `why` says
    it)."""
    ready, report = os.pipe()
    _checked(libc.unshare(NEWPID), "unshare")  # for the next forks; the zygote itself stays
    stack = ctypes.c_void_p(ctypes.addressof(INIT_STACK) + 65_536 & ~15)
    init = _checked(libc.clone(libc.pause, stack, VM | signal.SIGCHLD, None), "clone")
    began = time.monotonic()
    program = os.fork()
    if program == 0:
        os.close(ready)
        _program(request, files, report)
    os.close(report)
    _checked(libc.setns(own_pids, NEWPID), "setns")
    why = _watch(program, began, request)
    os.kill(init, signal.SIGKILL)
    _, status, used = os.wait4(program, 0)
    os.waitpid(init, 0)  # returns when all others are gone
    seconds = time.monotonic() - began
    with open(ready, "rb") as file:
        said = file.read(10_000).decode("utf-8", "replace")
    if said != "ready":
        return {"status": "sandbox", "why": said or f"no start: {why}, {status}"}
    if why:
        return {"status": why, "seconds": seconds}
    code = os.waitstatus_to_exitcode(status)
    if code < 0 and used.ru_utime + used.ru_stime > request["seconds"]:
        return {"status": "timeout", "seconds": seconds}  # RLIMIT_CPU was quicker
    return {"status": "killed" if code < 0 else "exited", "code": abs(code), "seconds": seconds}


def _watch(program: int, began: float, request: dict) -> str | None:
    """Return None when the program has ended by itself, else why it has to be killed."""
    handle = os.pidfd_open(program)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    why = None
    while why is None and not poll.poll(20 if request["seconds"] < 1 else 50):
        why = _excess(time.monotonic() - began, request)
    os.close(handle)
    return why


def _excess(passed: float, request: dict) -> str | None:
    """Return which limit the test's processes exceed together, if any."""
    used, waited, pages = [], [0], 0
    for name in os.listdir("/proc"):
        if name.isdecimal() and name not in ("1", str(os.getpid())):
            with contextlib.suppress(OSError):  # it has ended
                with open(f"/proc/{name}/statm") as file:
                    pages += int(file.read().split()[1])
                with open(f"/proc/{name}/schedstat") as file:  # ns on a processor, ns in its queue
                    times = file.read().split()
                used.append(int(times[0]))
                waited.append(int(times[1]))
    if pages * resource.getpagesize() > request["memory"]:
        return "memory"
    if len(used) > request["processes"] + 1:
        return "processes"
    limit = request["seconds"]
    late = passed - max(waited) / 1e9 > limit or passed > limit * request["wall"]
    return "timeout" if late or sum(used) / 1e9 > limit else None


def _program(request: dict, files: list[int], ready: int) -> None:
    """Be pid 2 of a test: give everything up, then run the text. Write "ready" to that descriptor
    before, or why it could not be started."""
    try:
        ready = os.dup2(ready, 200)
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(len(files), 200)
        with open(FILES.index("program"), encoding="utf-8", newline="") as file:
            text = file.read()
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # where memory ends, it dies first, unless it takes this back
        os.setsid()  # its kill(0) must reach nobody else
        _checked(libc.unshare(NEWNS), "unshare")
        uid = request["uid"]
        owner = "" if uid is None else f",uid={uid},gid={uid}"
        _mount("tmpfs", "/tmp", f"size={request['disk']},nr_inodes=4096,mode=700{owner}")
        _mount("proc", "/proc", "")
        _drop(request)
        os.chdir("/tmp")
        main = types.ModuleType("solution" if request["function"] else "__main__")
        _streams(main)
        arguments = json.load(sys.stdin) if request["function"] else []
        os.write(ready, b"ready")
        os.close(ready)
    except BaseException:
        os.write(ready, traceback.format_exc().encode()[-3000:])
        os._exit(1)
    os._exit(_run(text, request["function"], arguments, main, json.dumps))


def _drop(request: dict) -> None:
    seconds = int(request["seconds"]) + 1
    for name, most in (
        ("AS", request["memory"]),
        ("CPU", seconds + 1),
        ("FSIZE", request["output"]),
        ("NOFILE", 64),
        ("CORE", 0),
        ("MEMLOCK", 0),
        ("MSGQUEUE", 0),
        ("STACK", 120 << 20),  # the gap below the stack is 128 MiB, whatever the limit
        ("NPROC", request["processes"]),
    ):
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        if name != "NPROC" or request["limit_processes"]:
            resource.setrlimit(kind, (seconds if name == "CPU" else most, most))
    if request["uid"] is not None:
        os.setgroups([])
        os.setresgid(*[request["uid"]] * 3)
        os.setresuid(*[request["uid"]] * 3)
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    header, nothing = struct.pack("Ii", CAP_VERSION_3, 0), bytes(24)
    _checked(libc.capset(header, nothing), "capset")
    _checked(libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")  # or /dev/stdin cannot be opened
    seccomp = bytes.fromhex(request["seccomp"])
    buffer = ctypes.create_string_buffer(seccomp, len(seccomp))
    program = struct.pack("HxxxxxxP", len(seccomp) // 8, ctypes.addressof(buffer))
    _checked(libc.prctl(PR_SET_SECCOMP, 2, program, 0, 0), "seccomp")


def _streams(main: types.ModuleType) -> None:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        errors = "backslashreplace" if name == "stderr" else "strict"
        stream = open(number, "w" if number else "r", encoding="utf-8", errors=errors)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
        setattr(builtins, name, stream)
    sys.argv[:] = ["solution.py"]
    sys.setrecursionlimit(50_000)
    sys.set_int_max_str_digits(50_000)  # as LiveCodeBench's checker
    sys.modules[main.__name__] = main
    vars(main)["__builtins__"] = builtins


def _run(code: str, function: str | None, arguments: list, main, dumps) -> int:
    """Return the exit status of the program as a script: 0 also after sys.exit of any value, as in
    LiveCodeBench's checker; 1 after an exception. What `function` returns goes to descriptor 3 as
    JSON."""
    streams = (sys.stdout, sys.stderr)
    status = 0
    try:
        exec(compile(code, "solution.py", "exec", dont_inherit=True), vars(main))
        if function:
            value = _find(main, function)(*arguments)
            with open(FILES.index("result"), "w", encoding="utf-8", closefd=False) as file:
                file.write(dumps(value))
    except SystemExit:
        status = 1 if function else 0
    except BaseException as error:
        status = 1
        with contextlib.suppress(BaseException):
            said = " ".join(str(error)[:300].split())
            streams[1].write(f"\n{type(error).__name__}: {said}\n")
    try:  # what the interpreter does at its end, without the slow teardown
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        current = sys.stdout
        vars(main).clear()  # files that the program left open are flushed
        for stream in {current, *streams, sys.stderr}:
            if not getattr(stream, "closed", True):
                stream.flush()
    except BaseException:
        status = status or 1
    return status


def _find(main: types.ModuleType, function: str):
    solution = vars(main).get("Solution")
    if solution is not None and hasattr(solution, function):
        return getattr(solution(), function)
    defined = vars(main).get(function)
    if defined is None:
        raise NameError(f"no function {function!r}, neither in class Solution nor outside")
    return defined


def _mount(kind: str, target: str, options: str) -> None:
    flags = NOSUID_NODEV_NOEXEC
    done = libc.mount(kind.encode(), target.encode(), kind.encode(), flags, options.encode())
    _checked(done, f"mount {target}")


def _checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


if __name__ == "__main__":
    main()
