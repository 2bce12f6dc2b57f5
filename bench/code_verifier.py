"""Small tests per second of the code verifier with isolation, compared with one bubblewrap per
program.

Both sides run the same program on two workers, as two processes, and check what it prints. The peer
starts `prlimit bwrap python` each time: the same namespaces and limits, but a new interpreter.
"""

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

from bench import alternate, row
from common.verifiers.code import sandbox, verifier

WORKERS, TARGET = 2, 150  # issue 4: at least this many tests a second on two cores
PROGRAM = "n = int(input())\nprint(sum(map(int, input().split())))\n"
INPUT, OUTPUT = "3\n1 2 3\n", "6\n"


def run(rounds: int = 5, tests: int = 200) -> list[dict]:
    """Return the tests per second of both sides; the peer runs a fifth as many tests."""
    context = get_context("spawn")
    with ProcessPoolExecutor(WORKERS, context) as pool:
        jobs = {"ours": tests // WORKERS, "peer": tests // WORKERS // 5}
        for side in jobs:
            list(pool.map(_work, [side] * 4 * WORKERS, [2] * 4 * WORKERS))  # starts and file cache
        ours, peer = alternate(
            lambda: list(pool.map(_work, ["ours"] * WORKERS, [jobs["ours"]] * WORKERS)),
            lambda: list(pool.map(_work, ["peer"] * WORKERS, [jobs["peer"]] * WORKERS)),
            rounds,
        )
    rates = (WORKERS * jobs["ours"] / median(ours), WORKERS * jobs["peer"] / median(peer))
    note = f"{WORKERS} processes; target {TARGET}; peer: prlimit bwrap python, once a test"
    return [row("code verifier, small stdin tests, isolated", *rates, "tests/s", note)]


def _work(side: str, tests: int) -> None:
    if side == "ours":
        pairs = [{"input": INPUT, "output": OUTPUT}] * tests
        reference = verifier.reference({"id": "bench", "tests": pairs})
        verdict = verifier.verify(verifier.response({"code": PROGRAM}), reference)
        assert verdict.outcome == "correct", verdict
    else:
        command = [*["prlimit", "--as=1073741824", "--cpu=7", "--nofile=64", "--core=0"], *plain()]
        for _ in range(tests):
            done = subprocess.run(command, input=INPUT, capture_output=True, text=True, timeout=60)
            assert done.stdout == OUTPUT, done.stderr


def plain() -> list[str]:
    """Return the command of bubblewrap around a bare interpreter: the sandbox's own binds, every
    namespace new."""
    python, binds = sandbox._python()
    folders = [name for name in ("/usr/lib", "/usr/lib64") if os.path.isdir(name)]
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    command += [word for folder in folders for word in ("--ro-bind", folder, folder)]
    for folder in ("/lib", "/lib64"):
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    command += [*binds, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp"]
    return [*command, "--", python, "-I", "-S", "-c", PROGRAM]


if __name__ == "__main__":
    print(run(), file=sys.stderr)
