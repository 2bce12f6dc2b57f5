"""Does the dress rehearsal notice? Puts the defects of defects.yaml back, one at a time, in a copy
of the tree, and rehearses (docs/cluster-gpu.md, The dress rehearsal).

    .venv-cluster/bin/python tests/slurm/defects.py [ID ...]

Ends with 1 unless each rehearsal fails and says what its entry says.
"""

import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from breaks import ROOT, broken, places, scratch, sources

FILE = Path(__file__).with_name("defects.yaml")


def rehearsed(copy: Path, defect: dict) -> tuple[int, str]:
    """The exit code and the output of a rehearsal of the tree `copy` with the defect in it."""
    texts = sources(copy)
    with ExitStack() as put_back:
        for change in defect["changes"]:
            found = places(texts, change["old"])
            assert len(found) == 1, f"{defect['id']}: {change['old']!r} stands {len(found)} times"
            put_back.enter_context(broken(found[0], change["old"], change["new"]))
        words = ["tests/slurm/one_machine.py", "run", sys.executable, "-m", "slurm", "rehearse"]
        done = subprocess.run(
            [sys.executable, *words, *defect["words"]],
            cwd=copy,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    return done.returncode, done.stdout


def main() -> int:
    defects, asked, missed = yaml.safe_load(FILE.read_text()), sys.argv[1:], 0
    for defect in [one for one in defects if not asked or one["id"] in asked]:
        began = time.monotonic()
        with scratch(ROOT) as copy:
            code, said = rehearsed(copy, defect)
        lines = [line for line in said.splitlines() if re.search(defect["says"], line)]
        caught = code != 0 and lines
        missed += not caught
        word, seconds = "caught" if caught else "MISSED", time.monotonic() - began
        print(f"{defect['id']:22} {word} {seconds:6.0f} s")
        for line in (lines if caught else said.splitlines())[-3:]:
            print(f"    {line.strip()[:300]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
