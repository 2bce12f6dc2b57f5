"""The splits of the made tasks: a hash of what makes a problem decides in which split it is, so
that no problem of one split is ever drawn for another."""

import hashlib

from common.errors import require

SPLITS = {"train": range(0, 80), "dev": range(80, 90), "test": range(90, 100)}


def split_of(problem: str) -> str:
    bucket = int(hashlib.sha256(problem.encode()).hexdigest()[:8], 16) % 100
    return next(name for name, buckets in SPLITS.items() if bucket in buckets)


def check_split(split: str) -> None:
    require(split in SPLITS, "split", split, f"one of {sorted(SPLITS)}")
