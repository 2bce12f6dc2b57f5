"""Verdicts from persistent worker processes: no response can hang, crash or bloat the caller.

    node = {"_target_": "common.verifiers.math.verify"}
    with Pool(node, workers=2, deadline=3, memory_gb=4) as pool:
        verdicts = pool.map([(response, reference), ...])

Each item has a hard deadline, after which SIGKILL ends its worker; a new worker is forked in
milliseconds and gets the items behind it. Equal pairs are judged once, and the pairs of one
reference go to one worker where possible, for the verifier's caches. A pool works from any thread,
from asyncio (`await asyncio.to_thread(pool.map, pairs)`), in a Ray actor and in a script without a
main guard; nothing is left running after `close()`, Ctrl-C or the death of the caller.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from pathlib import Path

import psutil

from common.errors import Fault, UserError, require
from common.types import Verdict
from common.verifiers.worker import NO_MEMORY

CHUNK_ITEMS, CHUNK_BYTES = 64, 65_536  # most sent ahead: no worker waits, no socket fills
TOO_LATE = "no verdict within"  # prefix of the reason of a killed item
LOOK = 0.05  # seconds between two looks at the resident memory of a worker that nothing else limits
START = 600.0  # seconds that importing a verifier may take, on a cold shared file system too


class Pool:
    """`workers` processes that apply one verifier, named as in a config by `_target_` and options.

    `deadline` is in seconds for each item, `memory_gb` in GiB of address space (macOS: of resident
    memory) for each worker. An item past the deadline or out of memory gets the outcome "timeout",
    one whose worker dies gets "error". Raises UserError where the verifier cannot be imported, or
    rejects a reference or an option; where `lenient` is set, what it rejects gets "error" too.
    """

    lenient = False

    def __init__(self, verifier: dict, *, workers: int, deadline: float, memory_gb: float):
        whole = isinstance(workers, int) and workers > 0
        require(whole, "verification.workers", workers, "must be a whole number, at least 1")
        for key, value in {"deadline": deadline, "memory_gb": memory_gb}.items():
            fits = isinstance(value, (int, float)) and value > 0
            require(fits, f"verification.{key}", value, "must be a number above 0")
        self._settings: dict = {"verifier": verifier, "memory_gb": memory_gb}
        self.deadline, self.memory = deadline, memory_gb * 2**30  # seconds, bytes
        self._workers = [_Worker(self) for _ in range(workers)]
        self._mapping, self._starting = threading.Lock(), threading.Lock()
        self.stopped = threading.Event()
        self._mother: subprocess.Popen | None = None
        self._control: socket.socket | None = None

    def map(self, pairs: list[tuple[str, str]]) -> list[Verdict]:
        """Return the verdicts of (response, reference) pairs, in order."""
        groups: dict[str, dict[str, None]] = {}
        for response, reference in pairs:
            groups.setdefault(reference, {})[response] = None
        total = sum(map(len, groups.values()))
        most = min(CHUNK_ITEMS, -(-total // (8 * len(self._workers))))
        chunks = deque(_chunks(groups, most))
        verdicts: dict[tuple[str, str], Verdict] = {}
        with self._mapping:
            self.stopped.clear()
            try:
                self._work(chunks, verdicts, total)
            finally:
                if self.stopped.is_set():  # nobody listens any more
                    for worker in self._workers:
                        worker.kill()
        if len(verdicts) < total:
            raise UserError("the pool of verifiers was closed while it worked")
        return [verdicts[pair] for pair in pairs]

    def _work(self, chunks: deque, verdicts: dict, total: int) -> None:
        with ThreadPoolExecutor(len(self._workers)) as threads:
            try:
                ended = [threads.submit(w.run, chunks, verdicts, total) for w in self._workers]
                for future in ended:
                    future.result()
            except BaseException:  # Ctrl-C or a bad reference: nobody waits for the rest
                self._stop()
                raise

    def close(self) -> None:
        self._stop()
        with self._mapping, self._starting:
            for worker in self._workers:
                worker.kill()
            self._end_mother()

    def _stop(self) -> None:
        """End the workers while their threads listen to them; the threads notice it and return."""
        self.stopped.set()
        for worker in self._workers:
            worker.signal()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def fork(self) -> socket.socket:
        """Return a connection to a new worker; start the mother process if there is none."""
        with self._starting:
            ours, theirs = socket.socketpair()
            for end, size in product((ours, theirs), (socket.SO_SNDBUF, socket.SO_RCVBUF)):
                end.setsockopt(socket.SOL_SOCKET, size, 4 * CHUNK_BYTES)  # macOS's own are 8 KiB
            with theirs:
                try:
                    self._send(theirs)
                except OSError:  # the mother has died: once more with a new one
                    self._end_mother()
                    self._send(theirs)
            return ours

    def _send(self, descriptor: socket.socket) -> None:
        if self._mother is None:
            self._start_mother()
        socket.send_fds(self._control, [b"f"], [descriptor.fileno()])
        if not self._control.recv(1):
            raise ConnectionError("the mother has died")

    def _start_mother(self) -> None:
        self._control, theirs = socket.socketpair()
        path = os.pathsep.join(part or os.getcwd() for part in sys.path)
        with theirs:
            self._mother = subprocess.Popen(
                [sys.executable, "-P", "-m", "common.verifiers.worker"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C must reach only the caller, which closes the pool
            )
        self._control.sendall(json.dumps(self._settings).encode() + b"\n")
        self._control.settimeout(START)
        try:
            answer = self._control.makefile("r").readline()
        except TimeoutError:
            answer = ""
        failure = json.loads(answer) if answer else "its process ended or did not start in time"
        if failure is not None:
            self._end_mother()
            target = self._settings["verifier"]["_target_"]
            kind = UserError if answer else Fault
            raise kind(f"verifier {target} cannot be started: {failure}")

    def _end_mother(self) -> None:
        if self._mother is not None:
            self._control.close()
            with suppress(ProcessLookupError, PermissionError):  # macOS's word for an ended group
                os.killpg(self._mother.pid, signal.SIGKILL)
            self._mother.wait()
            self._mother = None


class _Worker:
    """A worker process as its thread in the caller sees it, forked when needed and after each
    kill."""

    def __init__(self, pool: Pool):
        self._pool = pool
        self._pid: int | None = None
        self._limited = 1  # by the kernel, in its memory; else 0
        self._socket: socket.socket | None = None
        self._received = b""

    def run(self, chunks: deque, verdicts: dict, total: int) -> None:
        while len(verdicts) < total and not self._pool.stopped.is_set():
            try:
                chunk = chunks.popleft()
            except IndexError:
                time.sleep(0.005)  # another worker may yet give a part of its chunk back
                continue
            try:
                left = self._judge(chunk, verdicts)
            except BaseException:
                self._pool.stopped.set()  # or the others would wait for this chunk's verdicts
                raise
            chunks.extendleft([item] for item in reversed(left))

    def _judge(self, chunk: list, verdicts: dict) -> list:
        """Judge the items of a chunk in order. Return those left: behind an item that ended the
        worker, or all if the pool was stopped first."""
        if self._socket is None:
            self._start()
        if self._pool.stopped.is_set():  # while it started
            return chunk
        try:
            # a worker that cannot take the chunk has died; the loop below sees which item it was
            self._socket.settimeout(self._pool.deadline)
            with suppress(OSError):
                self._socket.sendall(b"".join(line for _, line in chunk))
            waited = self._waited()
            for done, (pair, _) in enumerate(chunk):
                line = self._line(waited)
                if not line:
                    self.kill()
                    verdicts[pair] = Verdict("error", 0.0, reason="the worker process died")
                    return chunk[done + 1 :]
                reply = json.loads(line)
                if isinstance(reply, str) and not self._pool.lenient:
                    raise UserError(reply)
                if isinstance(reply, str):
                    reply = ["error", 0.0, None, reply[:300]]
                verdicts[pair] = Verdict(*reply)
        except TimeoutError as error:
            self.kill()
            verdicts[pair] = Verdict("timeout", 0.0, reason=str(error))
            return chunk[done + 1 :]
        return []

    def _start(self) -> None:
        connection = self._pool.fork()
        connection.settimeout(START)
        line = connection.makefile("rb", buffering=0).readline()
        if not line:
            raise Fault("verifier: a worker ended as it started; is there memory left?")
        self._pid, self._limited = map(int, line.split())
        self._received, self._socket = b"", connection

    def _line(self, waited: float) -> bytes:
        """Return the next reply; b"" if the worker has died. Raises TimeoutError with the reason
        past the deadline, and if a worker that the kernel does not limit has too much memory.

        Time that the worker waited for a processor does not count, so a busy machine changes no
        verdict, up to four times the deadline. Nor does time for which all processes were stopped
        (scontrol suspend, SIGSTOP): each wait counts at most its own limit.
        """
        deadline, spent = self._pool.deadline, 0.0
        look, allowed = deadline / 4 if self._limited else min(LOOK, deadline / 4), deadline
        while b"\n" not in self._received:
            began = time.monotonic()
            self._socket.settimeout(max(min(look, allowed - spent), 0.001))
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                data = None
            except ConnectionError:
                return b""
            spent += min(time.monotonic() - began, look)
            if data is None:
                allowed = min(deadline + self._waited() - waited, 4 * deadline)
                if spent >= allowed:
                    raise TimeoutError(f"{TOO_LATE} {deadline:g} s")
                if not self._limited and self._resident() > self._pool.memory:
                    raise TimeoutError(NO_MEMORY)
                continue
            if not data:
                return b""
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _resident(self) -> int:
        with suppress(psutil.Error):
            return psutil.Process(self._pid).memory_info().rss
        return 0

    def _waited(self) -> float:
        """Return the seconds for which the ready worker waited for a processor; 0 if not known."""
        try:
            return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def signal(self) -> None:
        """End the process, from any thread."""
        pid = self._pid
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill(self) -> None:
        """End the process and forget it; only its listening thread may do so, if there is one."""
        self.signal()
        self._pid = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _chunks(groups: dict[str, dict[str, None]], most: int):
    """Yield lists of (pair, its line) of at most `most` items and, if more than one, CHUNK_BYTES,
    with the pairs of a reference together."""
    chunk, size = [], 0
    for reference, responses in groups.items():
        for response in responses:
            line = json.dumps((response, reference)).encode() + b"\n"
            if chunk and (len(chunk) == most or size + len(line) > CHUNK_BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(((response, reference), line))
            size += len(line)
    if chunk:
        yield chunk
