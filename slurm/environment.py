"""The environment of a job: the shell lines before Python (`shell`), and what the job sets up for
its processes on each node (`prepared`)."""

import os
import resource
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.sweeps.profiles import Profile

# Folders for compiled kernels. In a home folder that all nodes share, dozens of processes would
# write one cache at once: a file handle goes stale, a process dies, and the others wait for it.
# vLLM puts torch inductor's cache into its own, whatever inductor's variable says.
CACHES = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT")
LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)  # open files; processes and threads


def shell(path: Path, profile: Profile) -> list[str]:
    """Return the shell lines before Python, which then imports the code snapshot and nothing from
    the folder that it was submitted in (safe path)."""
    code = shlex.quote(str(path / "code"))
    return [
        f"export PYTHONPATH={code}${{PYTHONPATH:+:$PYTHONPATH}} PYTHONSAFEPATH=1",
        *profile.setup,
    ]


@contextmanager
def prepared() -> Iterator[None]:
    """Keep the compilers' caches on the node's disk within the block, unless the profile's `setup`
    names another place. Raise the soft limits to the hard ones."""
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
