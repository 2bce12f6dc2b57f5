"""What every process of a job has on its node, a job of several nodes on each of them."""

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# Compiled kernels. On a home folder that all nodes share, dozens of processes write one cache at
# once; a file handle goes stale there, a process dies, and the others wait for it.
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)  # open files; processes and threads


@contextmanager
def prepared() -> Iterator[None]:
    """Within, compilers keep their caches on the node's own disk, where the profile's `setup` names
    no other place, and soft limits are as high as the hard ones."""
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
