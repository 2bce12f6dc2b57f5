"""The quick tests that need no torch, on every Python that we support: `make test-pythons`.

torch has a CPU build for one Python only where this was written (pip finds the others' with CUDA,
gigabytes), so the environments are made without it, with the versions of constraints.txt; the tests
that import it run on the Python of .venv. A Python that is not here is named and skipped;
the exit status is 1 where a test failed or no Python was there.
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
    """Of PATH, else of pyenv."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return shutil.which(f"python{version}") or next(map(str, kept), None)


def environment(python: str, version: str) -> Path:
    """.venv-pythonX.Y with all dependencies but torch, made once."""
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
    for version in PYTHONS:
        python = interpreter(version)
        if python is None:
            print(f"Python {version}: skipped, it is not on this machine", flush=True)
            continue
        print(
            f"Python {version}: {', '.join(TESTS)}; without torch, see tests/pythons.py", flush=True
        )
        words = ["-m", "pytest", "-p", "no:cacheprovider", "-m", QUICK, *TESTS]
        done = subprocess.run([environment(python, version), *words], cwd=ROOT)
        (failed if done.returncode else passed).append(version)
    print(f"passed: {', '.join(passed) or 'none'}; failed: {', '.join(failed) or 'none'}")
    sys.exit(bool(failed or not passed))


if __name__ == "__main__":
    main()
