"""Check that the committed results follow from the committed tables.

    rlvr reference-check [results_dir=results/reference] [papers=all]

For each paper the figures and the comparison are made again from a copy of its folder, for a
yardstick its ranking, and for the pretrained models their crossing. Every table and page that this
gives is compared with the stored one: numbers to seven digits, percentages of a shape fitted by
likelihood to a tenth (where the search ends depends on the processor), and everything else exactly.
Each interval in the READMEs and in evidence.md, yardstick.md and pretrained.md of docs/ is compared
with the stored comparisons (prose.py). If anything differs, the command names it with its first
difference and fails. Pictures are not compared, but the tables of the stored figures are. The
gathered rows and counts, from which all of this is made, are not checked, because only run folders
can give them.
"""

import csv
import filecmp
import io
import shutil
import subprocess
import sys
import tempfile
from itertools import zip_longest
from math import isclose
from pathlib import Path

from common.comparison import prose
from common.config.words import options
from common.errors import UserError, one_of, require

TABLES = (".csv", ".md")
FITTED = ("laptop_strong_fig10_solve_rates",)  # a shape fitted by likelihood
YARDSTICKS = ("yardstick", "yardstick_countdown", "yardstick_maze")
THIRD = ("third_maze", "third_countdown")  # checked once they are stored
COMMANDS = {name: [f"yardstick protocol={name} draw=only"] for name in (*YARDSTICKS, *THIRD)}
COMMANDS["pretrained"] = ["pretrained scale=overnight draw=only"]


def main(words: list[str]) -> None:
    given = options(words, {"results_dir": "results/reference", "papers": "all"})
    stored = Path(given["results_dir"])
    known = sorted(path.name for path in stored.glob("*") if _commands(path.name))
    require(bool(known), "results_dir", str(stored), "holds no paper's results")
    chosen = known if given["papers"] == "all" else given["papers"].split(",")
    for name in chosen:
        one_of("papers", name, known, "all")
    found = intervals(stored, chosen)
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            remake(stored / name, Path(folder))
            problems = differences(stored / name, Path(folder) / name)
        print(f"{name}: {len(problems)} tables differ" if problems else f"{name}: as stored")
        found += problems
    if found:
        raise UserError("the stored results are not what their tables give:\n" + "\n".join(found))


def intervals(stored: Path, names: list[str]) -> list[str]:
    """Return a message for each interval that no stored comparison has, in the READMEs of the
    papers in `names`, in the main README, and in each page of docs/ whose folders are all in
    `names`."""
    from common.config.files import ROOT
    from common.config.files import papers as all_papers

    papers, every = [name for name in names if name not in COMMANDS], all_papers()
    editions = [*YARDSTICKS, *(name for name in THIRD if (stored / name).exists())]
    problems = prose.differences(ROOT / "README.md", stored, papers, linked=True)
    pages = {"evidence": [*every, *editions], "yardstick": editions, "pretrained": ["pretrained"]}
    for page, whose in pages.items():
        if set(whose) <= set(names):
            file = ROOT / "docs" / f"{page}.md"
            problems += prose.differences(file, stored, whose, linked=False)
    for name in papers:
        if (readme := ROOT / "papers" / name / "README.md").exists():
            problems += prose.differences(readme, stored, [name], linked=False)
    print(f"pages: {len(problems)} intervals differ" if problems else "pages: as stored")
    return problems


def remake(stored: Path, root: Path) -> None:
    """Copy a stored folder into `root` and make its tables and pages again there. Raises UserError
    with the error output of a command that fails."""
    shutil.copytree(stored, root / stored.name)
    for one in _commands(stored.name):
        words = [sys.executable, "-m", "rlvr_papers", *one.split(), f"results_dir={root}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(
                f"rlvr {' '.join(words[3:])}: ends with {done.returncode}: {done.stderr}"
            )


def differences(stored: Path, fresh: Path) -> list[str]:
    """Return the tables and pages that differ, are missing or are new, each with its first
    difference. Tables of figures that are not stored are skipped."""
    both = {
        path.relative_to(root)
        for root in (stored, fresh)
        for path in root.rglob("*")
        if path.suffix in TABLES and (root == stored or path.parent.name != "figures")
    }
    return [
        f"{stored.name}/{name}: {reason}"
        for name in sorted(both)
        if (reason := _difference(stored / name, fresh / name))
    ]


def _difference(stored: Path, fresh: Path) -> str:
    for path, word in ((stored, "stored"), (fresh, "made")):
        if not path.exists():
            return f"is not {word}"
    if filecmp.cmp(stored, fresh, shallow=False):
        return ""
    lines = zip_longest(_rows(stored), _rows(fresh))
    for number, (before, after) in enumerate(lines, 1):
        if before is None or after is None:
            return f"line {number}: {'is not stored' if before is None else 'is not made'}"
        if len(before) != len(after):
            return f"line {number}: {len(before)} columns stored, {len(after)} made"
        for a, b in zip(before, after, strict=True):
            if a != b and not _same_number(a, b, 0.1 if stored.stem in FITTED else 1e-9):
                return f"line {number}: stored {a[:200]!r}, made {b[:200]!r}"
    return ""


def _rows(path: Path) -> list[list[str]]:
    text = path.read_text()
    if path.suffix == ".csv":
        return list(csv.reader(io.StringIO(text)))
    return [[line] for line in text.splitlines()]


def _same_number(a: str, b: str, within: float) -> bool:
    try:
        return isclose(float(a), float(b), rel_tol=1e-7, abs_tol=within)
    except ValueError:
        return False


def _commands(name: str) -> list[str]:
    """Return the `rlvr` commands that make a folder's tables from what is stored beside them."""
    from common.config.files import papers

    if name in papers():
        return [f"figures paper={name}", f"compare paper={name}"]
    return COMMANDS.get(name, [])
