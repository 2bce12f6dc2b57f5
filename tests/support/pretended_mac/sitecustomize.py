"""Python imports this first where a test puts this folder on PYTHONPATH: a macOS without a Mac.

It takes away what Linux has and macOS has not, as far as Python can see it, in this process and in
those that it starts: functions and constants, symbols of the C library, /proc, limits that can be
set, the start method fork. psutil keeps its /proc, because on macOS it asks the system otherwise,
and other libraries still read "Linux", because their builds for Linux run here.

Not pretended: BSD's programs, GNU make 3.81, file names without case, Accelerate's numerics.
"""

import builtins
import ctypes
import errno
import gc
import io
import multiprocessing
import os
import platform
import resource
import select
import signal
import socket
import sys
import time

gc.set_threshold(50_000, 50, 50)  # as in tests/support/sitecustomize.py

ABSENT = {
    os: "copy_file_range eventfd eventfd_read eventfd_write fdatasync getrandom getresgid "
    "getresuid getxattr listxattr memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate "
    "removexattr sched_getaffinity sched_getparam sched_getscheduler sched_rr_get_interval "
    "sched_setaffinity sched_setparam sched_setscheduler setns setresgid setresuid setxattr splice "
    "timerfd_create unshare waitid O_DIRECT O_NOATIME O_PATH O_TMPFILE",
    signal: "sigtimedwait sigwaitinfo pidfd_send_signal SIGPOLL SIGPWR SIGRTMAX SIGRTMIN SIGSTKFLT",
    select: "epoll",
    resource: "prlimit RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_OFILE RLIMIT_RTPRIO RLIMIT_RTTIME "
    "RLIMIT_SIGPENDING RUSAGE_THREAD",
    socket: "AF_ALG AF_NETLINK AF_VSOCK SO_PEERCRED SOCK_CLOEXEC SOCK_NONBLOCK",
    time: "CLOCK_BOOTTIME pthread_getcpuclockid",
}
for module, names in ABSENT.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
if hasattr(os, "process_cpu_count"):
    os.process_cpu_count = os.cpu_count  # it asks sched_getaffinity

SYMBOLS = "capset clone memfd_create mount pidfd_open prctl sched_getaffinity setns syscall unshare"
OURS = ("__main__", "bench", "common", "papers", "rlvr_papers", "slurm")
HIDDEN = ("/proc", "/dev/shm")


def called_by(*packages: str) -> bool:
    """Whether one of the next callers is a module of these packages."""
    frame, near = sys._getframe(2), []
    while frame is not None and len(near) < 4:
        near.append(frame.f_globals.get("__name__", "").partition(".")[0])
        frame = frame.f_back
    return not set(near).isdisjoint(packages)


class Library:
    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        if name in SYMBOLS.split():
            raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
        return getattr(self._real, name)


def without_symbols(load):
    def loaded(name=None, *arguments, **options):
        library = load(name, *arguments, **options)
        return Library(library) if name is None or "libc.so" in str(name) else library

    return loaded


def without_proc(function):
    def hiding(path, *arguments, **options):
        if isinstance(path, str | bytes | os.PathLike):
            text = os.fsdecode(path)
            inside = any(text == top or text.startswith(f"{top}/") for top in HIDDEN)
            if inside and not called_by("psutil"):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
        return function(path, *arguments, **options)

    return hiding


def refusing(setrlimit):
    def refused(which, limits):
        if which == resource.RLIMIT_AS and limits[0] != resource.RLIM_INFINITY:
            raise ValueError("current limit exceeds maximum limit")
        return setrlimit(which, limits)

    return refused


def with_zombies_refused(killpg):
    """macOS answers EPERM where all of a group have ended and nobody has waited for them."""

    def killed(group, number):
        states = set()
        for pid in filter(str.isdecimal, real_listdir("/proc")):
            try:
                with real_open(f"/proc/{pid}/stat") as file:
                    state, _, of = file.read().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(of) == (group or os.getpgrp()):
                states.add(state)
        if states == {"Z"}:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return killpg(group, number)

    return killed


def small_without_packets(socketpair):
    """A socket of macOS holds 8 KiB unless it is told to hold more."""

    def paired(family=socket.AF_UNIX, type=socket.SOCK_STREAM, proto=0):
        if type == socket.SOCK_SEQPACKET:
            raise OSError(errno.EPROTONOSUPPORT, os.strerror(errno.EPROTONOSUPPORT))
        both = socketpair(family, type, proto)
        for end in both:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # Linux doubles it
        return both

    return paired


def named(system):
    return lambda: "Darwin" if called_by(*OURS) else system()


real_open, real_listdir = io.open, os.listdir
ctypes.CDLL = without_symbols(ctypes.CDLL)
builtins.open = io.open = without_proc(io.open)
for name in ("access", "listdir", "lstat", "open", "readlink", "scandir", "stat"):
    setattr(os, name, without_proc(getattr(os, name)))
os.killpg = with_zombies_refused(os.killpg)
resource.setrlimit = refusing(resource.setrlimit)
socket.socketpair = small_without_packets(socket.socketpair)
platform.system = named(platform.system)
multiprocessing.set_start_method("spawn")
