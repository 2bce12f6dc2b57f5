"""The quick tests that need no torch, on every Python that we support: `make test-pythons`.

    python tests/pythons.py [VERSION ...]    # all, or these: the gate takes 3.13

torch has a CPU build for one Python only where this was written (pip finds the others' with CUDA,
gigabytes), so the environments are made without it, with the versions of constraints.txt; the tests
that import it run on the Python of .venv. A Python that is not here, or whose packages are not, is
named and skipped; the exit status is 1 where a test failed.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
TESTS = ("tests/claims", "tests/metrics", "tests/test_cli.py")
QUICK = "not (trains or process or sandbox or sweep or slurm or verl or browser)"


def interpreter(version: str) -> str | None:
    """Of pyenv, whose python3.12 in PATH may be a shim for none, else of PATH."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return next(map(str, kept), None) or shutil.which(f"python{version}")


def environment(python: str, version: str) -> Path:
    """.venv-pythonX.Y with all dependencies but torch, made once. Raises CalledProcessError where a
    package is not to be had."""
    folder = ROOT / f".venv-python{version}"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    words = [name for name in needed if name != "torch"]
    pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not (folder / ".ready").exists():
        subprocess.run([python, "-m", "venv", folder], check=True)
        subprocess.run([*pip, "-c", ROOT / "constraints.txt", *words, "pytest"], check=True)
        (folder / ".ready").touch()
    return folder / "bin" / "python"


def main() -> None:
    passed, failed = [], []
    for version in sys.argv[1:] or PYTHONS:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: skipped, it is not on this machine", flush=True)
            continue
        print(
            f"Python {version}: {', '.join(TESTS)}; without torch, see tests/pythons.py", flush=True
        )
        try:
            made = environment(python, version)
        except subprocess.CalledProcessError as error:
            print(f"Python {version}: skipped, no environment ({error})", flush=True)
            continue
        words = ["-m", "pytest", "-p", "no:cacheprovider", "-m", QUICK, *TESTS]
        done = subprocess.run([made, *words], cwd=ROOT)
        (failed if done.returncode else passed).append(version)
    print(f"passed: {', '.join(passed) or 'none'}; failed: {', '.join(failed) or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
