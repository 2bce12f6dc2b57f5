"""Does a change alter the stored tables? What the theory, the figures and the comparison write from
results/reference/, by two versions of the code on this machine, byte by byte.

    python tests/tables.py --before COMMIT [--papers NAME,NAME]

COMMIT must have `rlvr figures` and `rlvr compare`. Each version starts from a copy of the reference
tables as they are now, so no run is needed. Named are the tables that differ between the versions,
and those that are not the stored ones with either version: last digits that depend on the
processor, and what needs runs that are not stored. Ends with 1 if the versions differ.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "results" / "reference"
PAPERS = ("f_grpo", "two_stage", "over_sharpening", "cov_grpo", "fade")
SUFFIXES = (".csv", ".gz", ".md")  # pictures hold the date of their library


def modules(tree: Path, paper: str) -> list[str]:
    """The commands that need no run, in their order."""
    if paper.startswith("yardstick"):
        return [f"rlvr_papers yardstick protocol={paper} draw=only"]
    theory = tree / "papers" / paper / "theory" / "__main__.py"
    first = [f"papers.{paper}.theory"] if theory.exists() else []
    return [*first, *(f"rlvr_papers {verb} paper={paper}" for verb in ("figures", "compare"))]


def fits(results: Path) -> list[str]:
    """FADE's fits, which have no command of their own."""
    code = "import sys, pathlib; from papers.fade.fits import tables"
    return [
        sys.executable,
        "-c",
        f"{code}; tables.measure(pathlib.Path(sys.argv[1]))",
        str(results),
    ]


def made(tree: Path, paper: str, folder: Path) -> dict[str, str]:
    """{table: hash} of all tables of a paper after `tree`'s commands. Raises CalledProcessError
    where one fails."""
    results = folder / paper
    shutil.copytree(REFERENCE / paper, results / paper)
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    commands = [
        [sys.executable, "-m", *command.split(), f"results_dir={results}"]
        for command in modules(tree, paper)
    ]
    if paper == "fade":
        commands.insert(1, fits(results))
    for words in commands:
        with open(folder / f"{paper}.log", "a") as file:
            subprocess.run(words, cwd=tree, env=environment, stdout=file, stderr=file, check=True)
    return hashes(results / paper)


def hashes(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.suffix in SUFFIXES
    }


def compared(before: dict, now: dict, stored: dict) -> tuple[list[str], list[str]]:
    """The tables that the versions make differently, and those that neither makes as stored."""
    tables = sorted(before.keys() | now.keys())
    differ = [name for name in tables if before.get(name) != now.get(name)]
    same = [name for name in tables if name not in differ]
    return differ, [name for name in same if now[name] != stored.get(name)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", required=True, metavar="COMMIT")
    parser.add_argument("--papers", default=",".join((*PAPERS, "yardstick")))
    given = parser.parse_args()
    wrong = False
    with tempfile.TemporaryDirectory(prefix="tables-") as name:
        folder = Path(name)
        old = folder / "code"
        add = ["git", "worktree", "add", "--quiet", "--detach", str(old), given.before]
        subprocess.run(add, cwd=ROOT, check=True)
        try:
            for paper in given.papers.split(","):
                before = made(old, paper, folder / "before")
                now = made(ROOT, paper, folder / "now")
                differ, neither = compared(before, now, hashes(REFERENCE / paper))
                wrong = wrong or bool(differ)
                print(
                    f"{paper}: {len(now) - len(differ)} of {len(now)} tables the same", flush=True
                )
                for title, names in (("differ", differ), ("stored otherwise", neither)):
                    print("".join(f"  {title}: {table}\n" for table in names), end="")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(old)], cwd=ROOT, check=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
