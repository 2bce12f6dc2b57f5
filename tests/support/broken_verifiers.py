"""Verifiers with one fault each, for the tests that a fault stops a run."""

import os
import signal
import time
from itertools import count
from pathlib import Path

from common.errors import UserError
from common.types import Verdict
from common.verifiers import countdown
from common.verifiers.countdown import example


def echo(response: str, reference: str) -> Verdict:
    """Does what the response says; everything else is correct."""
    if not reference:
        raise UserError("the gold is empty")
    if response == "hang":
        hangs(response, reference)
    if response == "die":
        dies(response, reference)
    if response == "exit":
        os._exit(0)
    if response == "raise":
        raise ValueError("in the verifier")
    if response == "swell":
        swells(response, reference)
    if response == "bloat":
        return Verdict("correct", float(len(bytearray(10**11))))
    return Verdict("correct", 1.0, response)


def counted(response: str, reference: str, serial=count()) -> Verdict:  # noqa: B008
    return Verdict("wrong", 0.0, f"{response} {reference}", f"{os.getpid()} {next(serial)}")


def length(response: str, reference: str) -> Verdict:
    return Verdict("wrong", 0.0, str(len(response)))


def announces(response: str, reference: str) -> Verdict:
    """Adds this process and its mother to the file that the response names, then hangs."""
    with open(response, "a") as file:
        file.write(f"{os.getpid()} {os.getppid()}\n")
    hangs(response, reference)


def raises(response: str, reference: str) -> Verdict:
    return Verdict("wrong", 1 / 0)


def hangs(response: str, reference: str) -> Verdict:
    while True:
        pass


def swells(response: str, reference: str) -> Verdict:
    """Takes and uses more and more memory."""
    held = []
    while True:
        held.append(b"x" * 2**23)
        time.sleep(0.001)


def powers(response: str, reference: str) -> Verdict:
    """Adds this process to the file that the response names, then computes in C for minutes, in
    which no thread of Python and no handler of a signal has a turn."""
    with open(response, "a") as file:
        file.write(f"{os.getpid()}\n")
    return Verdict("correct", float(len(str(7 ** (10**8)))))


def meets(response: str, reference: str) -> Verdict:
    Path(response).touch()
    while not Path(reference).exists():
        time.sleep(0.01)
    return Verdict("correct", 1.0)


def naps(response: str, reference: str) -> Verdict:
    time.sleep(float(response))
    return Verdict("correct", 1.0)


def dies(response: str, reference: str) -> Verdict:
    os.kill(os.getpid(), signal.SIGSEGV)


def never(response: str, reference: str) -> Verdict:
    return Verdict("wrong", 0.0)


def always(response: str, reference: str) -> Verdict:
    return Verdict("correct", 1.0)


def any_answer(response: str, reference: str) -> Verdict:
    """Ignores the reference."""
    return Verdict("correct", 1.0) if "boxed" in response else Verdict("unparsed", 0.0)


def often_raises(response: str, reference: str) -> Verdict:
    """Right about right answers and nothing, raises on anything else."""
    verdict = countdown.verify(response, reference)
    if response and verdict.outcome != "correct" and response != example(reference):
        if response in map(example, SEEN):
            return verdict
        raise ValueError("in the verifier")
    SEEN.append(reference)
    return verdict


SEEN: list[str] = []
