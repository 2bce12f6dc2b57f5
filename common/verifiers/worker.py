"""The processes behind `common.verifiers.pool`: a mother that imports once, and its forked workers.

The mother (`python -m common.verifiers.worker`, a socket as its standard input) imports the
verifier and its heavy libraries, then forks a worker for every socket that the pool sends it: 5 ms
instead of seconds of imports. It has no threads, so forking is safe. It exits at the end of its
socket, when the pool's process ends. When the mother ends, a third process reads the end of a pipe
and kills the workers, even one deep in C.
"""

import gc
import importlib
import json
import os
import resource
import signal
import socket
import traceback
from functools import partial
from math import isfinite
from typing import get_args

from common.config.resolve import module
from common.errors import UserError
from common.types import Outcome, Verdict
from common.verifiers.combine import of_plain

MESSAGE = 200  # characters of an exception's message that are kept
NO_MEMORY = "needs more memory than a worker may have"


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    silence()
    alive = _guard_workers(control)
    settings = json.loads(control.makefile("r").readline())
    try:
        verifier = load(settings["verifier"])
    except Exception:
        control.sendall(json.dumps(traceback.format_exc()[-2000:]).encode() + b"\n")
        return
    gc.freeze()  # what is imported stays shared with the workers
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended workers leave no zombies
    control.sendall(b"null\n")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        control.sendall(b"r")  # received: until then macOS may lose what the pool closes
        if os.fork() == 0:
            control.close()
            os.close(alive)
            serve(socket.socket(fileno=descriptors[0]), verifier, settings["memory_gb"])
            os._exit(0)
        os.close(descriptors[0])


def _guard_workers(control: socket.socket) -> int:
    """Start the process that kills the mother's whole group once the mother has ended. Return the
    descriptor whose end tells it so: no other process may keep it open."""
    end, alive = os.pipe()
    if os.fork() == 0:
        control.close()
        os.close(alive)
        os.read(end, 1)
        os.killpg(0, signal.SIGKILL)
    os.close(end)
    return alive


def load(node: dict):
    """Return the verifier that `node` names, with its options bound, after importing the libraries
    in PRELOAD of its module and its parts."""
    for part in (node, *node.get("parts", ())):
        for library in getattr(module(part), "PRELOAD", ()):
            importlib.import_module(library)
    function = getattr(module(node), node["_target_"].replace(":", ".").rpartition(".")[2])
    return partial(function, **{key: value for key, value in node.items() if key != "_target_"})


def silence() -> None:
    """Keep anything that a library prints or logs about a response off the terminal."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def serve(pool: socket.socket, verifier, memory_gb: float) -> None:
    """Run one worker: write its process id and whether the kernel limits its memory, then answer
    each line [response, reference] with a verdict, until the input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    limit, limited = int(memory_gb * 2**30), True
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except ValueError:  # macOS: the pool watches the resident size
        limited = False
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pool.sendall(b"%d %d\n" % (os.getpid(), limited))
    for line in pool.makefile("rb"):
        reply = json.dumps(judge(verifier, *json.loads(line)))
        pool.sendall(reply.encode() + b"\n")


def judge(verifier, response: str, reference: str) -> list | str:
    """Return the verdict as a list of its fields, or the text of a UserError, which stops the
    pool's caller."""
    try:
        return fields(verifier(response, reference))
    except UserError as error:
        return str(error)
    except MemoryError:
        return ["timeout", 0.0, None, NO_MEMORY]
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__} in {where.name}, line {where.lineno}"
        said = " ".join(str(error).split())[:MESSAGE]
        reason += f": {said}" if said else ""
        return ["error", 0.0, None, reason]


def fields(verdict: object) -> list:
    """Return [outcome, reward, parsed, reason]. Raises UserError for a value that no Verdict can
    have: then the verifier itself is wrong, whatever the response."""
    verdict, outcomes = of_plain(verdict), get_args(Outcome)
    if isinstance(verdict, Verdict) and verdict.outcome in outcomes:
        reward, parsed, reason = verdict.reward, verdict.parsed, verdict.reason
        number = isinstance(reward, int | float) and not isinstance(reward, bool)
        texts = isinstance(parsed, str | None) and isinstance(reason, str)
        if texts and number and isfinite(reward):
            return [verdict.outcome, reward, parsed, reason]
    raise UserError(
        f"the verifier returned {repr(verdict)[:300]}; return a truth value, a number (1 is right, "
        f"0 wrong), or a common.types.Verdict: one of {', '.join(outcomes)}, a finite reward and "
        "texts"
    )


if __name__ == "__main__":
    main()
