"""Reads JSON [[verifier, settings of its pool, pairs], ...] and prints each list of verdicts: pools
in a process of their own. Its first line says what this Python lacks."""

import json
import os
import platform
import resource
import sys
import time
from multiprocessing import get_start_method
from pathlib import Path

from common.verifiers.pool import Pool


def limits() -> bool:
    try:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    system = [platform.system(), get_start_method(), limits(), Path("/proc/self/stat").exists()]
    print(json.dumps([*system, hasattr(os, "sched_getaffinity")]))
    for node, settings, pairs in json.load(sys.stdin):
        with Pool(node, **settings) as pool:
            print(json.dumps([vars(one) for one in pool.map([tuple(pair) for pair in pairs])]))
    pool.map([("ok", "g")])
    pool._mother.kill()  # close() finds a group in which all have ended
    time.sleep(0.5)
    pool.close()
