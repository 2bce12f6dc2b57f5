"""verl on CPU, in this process: the CPU platform, our plugin, one process group of one."""

import atexit
import os
import shutil
import tempfile
from importlib.util import find_spec

if find_spec("verl"):  # where it is missing the tests are skipped, and others share this process
    # vLLM's sockets, Ray's sessions, verl's locks and compiled kernels, which none of them removes;
    # what tests write stays where pytest keeps it
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    tempfile.tempdir = tempfile.mkdtemp(prefix="rlvr-")
    os.environ["TMPDIR"] = tempfile.tempdir
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
    os.environ.update(
        VERL_PLATFORM="cpu",
        VERL_ENGINE_DEVICE="cuda",  # the name that verl's FSDP engine is registered for
        VERL_USE_EXTERNAL_MODULES="common.backends.verl.cpu,common.backends.verl.plugin",
        CUDA_VISIBLE_DEVICES="",
        RANK="0",
        WORLD_SIZE="1",
        LOCAL_RANK="0",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29577",
    )
