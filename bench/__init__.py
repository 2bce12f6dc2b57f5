"""Speed compared with the usual tools, one thread on both sides: `make bench`.

Each module's `run()` returns rows of COLUMNS. `ratio` is above 1 where this repository ("ours") is
faster than the other tool ("peer"), whatever the unit. Nothing here fails on a slow machine.
"""

import os
import time

for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"  # read when numpy and torch load

import torch  # noqa: E402

COLUMNS = ["name", "ours", "peer", "unit", "ratio", "note"]


def timed(function) -> float:
    start = time.perf_counter()
    function()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def alternate(ours, peer, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of every call. The sides take turns, so that a busy machine slows both."""
    times = [(timed(ours), timed(peer)) for _ in range(rounds)]
    return [first for first, _ in times], [second for _, second in times]


def row(name: str, ours: float, peer: float, unit: str, note: str) -> dict:
    """Return a row. Times compare as peer / ours, rates (a unit in "/s") as ours / peer."""
    ratio = ours / peer if unit.endswith("/s") else peer / ours
    return dict(zip(COLUMNS, (name, ours, peer, unit, ratio, note), strict=True))
