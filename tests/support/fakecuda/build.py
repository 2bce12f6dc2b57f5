"""Compiles device.cpp once for each torch and each state of the sources, outside the repository."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import torch

HERE = Path(__file__).parent
SOURCES = ("device.cpp", "fallback.h", "runtime.h", "memory.h")
TORCH = "2.13.0"  # whose internals the sources are written for


def missing() -> str | None:
    """Why there is no pretended device here; None where there is."""
    if torch.__version__.split("+")[0] != TORCH:
        return f"the pretended GPU is written for torch {TORCH}, this is {torch.__version__}"
    if torch.backends.cuda.is_built():
        return "the pretended GPU is for a torch without CUDA"
    if not library().exists() and shutil.which("g++") is None:
        return "the pretended GPU is compiled once, and there is no g++"
    return None


def library() -> Path:
    """Where the compiled device is, or will be."""
    text = b"".join((HERE / name).read_bytes() for name in SOURCES) + torch.__version__.encode()
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base / "rlvr-papers" / f"fakecuda-{hashlib.sha256(text).hexdigest()[:16]}.so"


def built() -> Path:
    """The compiled device; half a minute to a minute where it is not there yet."""
    path = library()
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            made = path.with_suffix(".part")
            subprocess.run(command(made), check=True)
            made.rename(path)
    return path


def command(target: Path) -> list[str]:
    root = Path(torch.__file__).parent
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-w", abi]
    includes = [f"-I{root / 'include'}", f"-I{root / 'include/torch/csrc/api/include'}"]
    linked = [f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{root / 'lib'}"]
    return ["g++", *flags, *includes, str(HERE / "device.cpp"), "-o", str(target), *linked]
