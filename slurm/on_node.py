"""What a job sets up for its processes on each of its nodes: compiler caches and resource
limits."""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# Folders for compiled kernels. In a home folder that all nodes share, dozens of processes would
# write one cache at once: a file handle goes stale, a process dies, and the others wait for it.
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)  # open files; processes and threads


@contextmanager
def prepared() -> Iterator[None]:
    """Keep the compilers' caches on the node's own disk within the block, unless the profile's
    `setup` names another place. Raise the soft limits to the hard ones."""
    for limit in LIMITS:
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (hard, hard))
    scratch = tempfile.mkdtemp(prefix="rlvr-cache-")
    ours = [name for name in CACHES if name not in os.environ]
    os.environ |= {name: os.path.join(scratch, name.split("_")[0].lower()) for name in ours}
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
        shutil.rmtree(scratch, ignore_errors=True)
