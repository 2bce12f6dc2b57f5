"""Would the tests notice? Breaks the code on purpose, one line at a time, and runs the tests.

    python tests/breaks.py [--only ID,ID]

`breaks.yaml` lists the breaks. Each is a piece of source text (`old`) that stands exactly once
below common/, papers/ and slurm/, and what takes its place (`new`); it is found by its text, so
it survives a file that moves. `package` is the folder below tests/ whose tests should catch it.

Everything happens in a copy of the tree in a temporary folder; the tree itself is never touched.
The tests of a package without a marker run first, the slow ones only where those catch nothing.
The test that fails first runs again on the unbroken copy: one that fails anyway catches nothing.
Entries with `env: cluster` need the environment that `make setup-cluster-cpu` makes.

Ends with 1 if a break is missed or could not be tried: its text is not there once, or its tests
fail without it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
FILE = Path(__file__).with_name("breaks.yaml")
SEARCHED = ("common", "papers", "slurm")
SUFFIXES = (".py", ".yaml", ".html", ".js")
LIMIT = 1800  # seconds that pytest may take; a break that makes the tests hang is caught by it
SLOW = "trains or process or sandbox or sweep or browser"  # markers, see pyproject.toml


@dataclass(frozen=True)
class Break:
    id: str
    package: str  # below tests/
    what: str
    old: str
    new: str
    env: str = "main"  # or cluster

    def selections(self) -> list[tuple[str, ...]]:
        """Pytest's words of what is run, one selection after another until one catches it."""
        words = (f"not ({SLOW} or slurm)", f"({SLOW}) and not slurm", "slurm")
        return [(f"tests/{self.package}", "-m", one) for one in words]


@dataclass(frozen=True)
class Outcome:
    caught: str  # yes, no, or why the break was not tried
    test: str  # the first that failed
    seconds: float


def read(path: Path = FILE) -> list[Break]:
    """The list. Raises ValueError where an id stands twice or a break changes nothing."""
    breaks = [Break(**entry) for entry in yaml.safe_load(path.read_text())]
    repeated = [name for name, n in Counter(b.id for b in breaks).items() if n > 1]
    idle = [b.id for b in breaks if b.old == b.new]
    if repeated or idle:
        raise ValueError(f"{path}: ids that stand twice: {repeated}; old is new: {idle}")
    return breaks


@contextmanager
def scratch(tree: Path) -> Iterator[Path]:
    """A copy of what git tracks in a tree, or would add; shared/ beside it is linked."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory(prefix="breaks-") as folder:
        copy = Path(folder) / "tree"
        for name in filter(None, listed.stdout.split("\0")):
            if (tree / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, copy / name)
        shared = tree.parent / "shared"
        if shared.is_dir():
            (Path(folder) / "shared").symlink_to(shared)
        yield copy


def sources(tree: Path) -> dict[Path, str]:
    """The text of every file that a break may be in."""
    files = [path for name in SEARCHED for path in sorted((tree / name).rglob("*"))]
    return {path: path.read_text() for path in files if path.suffix in SUFFIXES}


def places(texts: dict[Path, str], old: str) -> list[Path]:
    """The files that a text stands in, each as often as it does."""
    return [path for path, text in texts.items() for _ in range(text.count(old))]


@contextmanager
def broken(path: Path, old: str, new: str) -> Iterator[None]:
    """The file with `new` for `old`, until the end of the block."""
    whole = path.read_text()
    path.write_text(whole.replace(old, new))
    try:
        yield
    finally:
        path.write_text(whole)


def run_tests(tree: Path, python: str, tests: tuple[str, ...]) -> tuple[str, str]:
    """("passed", ""), ("failed", the first test that did), or ("no tests", pytest's last line):
    where all were skipped, nothing was asked."""
    command = [python, "-m", "pytest", "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
    quiet = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=tree,
            env=os.environ | quiet,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return "failed", f"none in {LIMIT} s"
    named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if done.returncode in (1, 2) and named:
        return "failed", named[1]
    if done.returncode == 0 and re.search(r"^=* ?\d+ passed", done.stdout, re.MULTILINE):
        return "passed", ""
    return "no tests", (done.stderr + done.stdout).strip().rpartition("\n")[2][:200]


def attempt(one: Break, tree: Path, texts: dict, python: str) -> Outcome:
    """Break, test, restore, and test again."""
    start, said = time.monotonic(), "no tests"
    files = places(texts, one.old)
    if len(files) != 1:
        return Outcome(f"text found {len(files)} times", "", 0)
    if not Path(python).exists():
        return Outcome(f"no {one.env} environment", "", 0)
    for tests in one.selections():
        with broken(files[0], one.old, one.new):
            word, test = run_tests(tree, python, tests)
        if word == "no tests":
            continue
        if word == "failed":
            unbroken = run_tests(tree, python, (test,))[0]
            if unbroken == "no tests":  # it named none, or not all of its name
                unbroken = run_tests(tree, python, tests)[0]
            said = "yes" if unbroken == "passed" else f"unbroken: {unbroken}"
            return Outcome(said, test, time.monotonic() - start)
        said = "no"
    return Outcome(said, "", time.monotonic() - start)


def line(one: Break, outcome: Outcome) -> str:
    said = f"{one.id:28} {one.package:24} {outcome.caught:8} {outcome.seconds:6.1f} s  "
    return said + (outcome.test or one.what)


def summary(results: list[tuple[Break, Outcome]]) -> tuple[str, bool]:
    """The counts in words, and whether all is as it should be."""
    caught = [b.id for b, outcome in results if outcome.caught == "yes"]
    missed = [b.id for b, outcome in results if outcome.caught == "no"]
    untried = [b.id for b, _ in results if b.id not in caught and b.id not in missed]
    text = f"{len(results)} breaks: {len(caught)} caught, {len(missed)} missed, "
    text += f"{len(untried)} not tried"
    for title, ids in (("missed", missed), ("not tried", untried)):
        text += f"\n{title}: {', '.join(ids)}" if ids else ""
    return text, not missed and not untried


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="ids, joined by commas")
    given = parser.parse_args()
    breaks, asked = read(), [name for name in given.only.split(",") if name]
    if unknown := set(asked) - {b.id for b in breaks}:
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}")
    cluster = str(ROOT / ".venv-cluster" / "bin" / "python")
    pythons = {"main": sys.executable, "cluster": cluster}
    results = []
    with scratch(ROOT) as copy:
        texts = sources(copy)
        for one in breaks:
            if asked and one.id not in asked:
                continue
            outcome = attempt(one, copy, texts, pythons[one.env])
            results.append((one, outcome))
            print(line(one, outcome), flush=True)
    text, good = summary(results)
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
