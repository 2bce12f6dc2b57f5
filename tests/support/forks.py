"""Command lines in forks of one process that has imported what they need: a start of Python with
torch takes seconds.

As a script, that process. It reads lines of JSON: `command`'s arguments start a command, a process
id waits for it. It answers with the process id, and then with the exit code.
"""

import json
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from importlib import import_module
from itertools import count
from pathlib import Path

from processes import IMPORTED


def command(words: list[str], folder: str, *streams: str) -> None:
    """Run `rlvr ...` or `python FILE ...` in this process; `streams`: files for stdout, stderr."""
    os.chdir(folder)
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a background job's children ignore it
    for number, name in enumerate(streams, 1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    program, *sys.argv[1:] = words
    if Path(program).name == "rlvr":
        runpy.run_module("rlvr_papers", run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[1], run_name="__main__")


class Forks:
    """Starts commands in `folder`; what they print is below `streams`."""

    def __init__(self, folder: Path, streams: Path, environment: dict[str, str]):
        self.folder, self.streams, self.numbers = folder, streams, count()
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Forks":
        return self

    def __exit__(self, *_) -> None:
        self.process.communicate()

    def ask(self, asked) -> int:
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def start(self, *words: str) -> "Fork":
        return Fork(self, words)

    def run(self, *words: str) -> str:
        """What a command prints; it must succeed."""
        code, out, error = self.start(*words).end()
        assert code == 0, f"{words}\n{out[-3000:]}\n{error[-3000:]}"
        return out


class Fork:
    def __init__(self, forks: Forks, words: tuple[str, ...]):
        number = next(forks.numbers)
        self.files = [forks.streams / f"{number}.{stream}" for stream in ("out", "err")]
        self.ask = forks.ask
        self.pid = self.ask([words, *map(str, [forks.folder, *self.files])])

    def end(self) -> tuple[int, str, str]:
        """Wait for it; its exit code, what it printed and its errors."""
        return self.ask(self.pid), *[file.read_text() for file in self.files]


if __name__ == "__main__":
    for name in IMPORTED:
        import_module(name)
    fork, started = multiprocessing.get_context("fork"), {}
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, int):
            started[asked].join()
            print(started[asked].exitcode, flush=True)
        else:
            process = fork.Process(target=command, args=asked)
            process.start()
            started[process.pid] = process
            print(process.pid, flush=True)
    for process in started.values():
        process.kill()
