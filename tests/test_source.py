"""What `make lint` cannot see: --help starts quickly, and no tracked file names a machine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import ROOT


@pytest.mark.process
@pytest.mark.parametrize(
    "words",
    [["papers.f_grpo"], ["rlvr_papers"], ["rlvr_papers", "reproduce", "paper=f_grpo"]],
    ids=lambda words: words[-1],
)
def test_help_is_quick(words):
    program = (
        "import runpy, sys\n"
        f"sys.argv = {[*words, '--help']}\n"
        "try:\n"
        f"    runpy.run_module({words[0]!r}, run_name='__main__', alter_sys=True)\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "heavy = {'torch', 'transformers', 'wandb', 'scipy', 'matplotlib'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "paper" in done.stdout
    assert done.stdout.endswith("heavy: []\n")


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


# Written in pieces, or this file would find itself.
ABSOLUTE = re.compile(
    r"(?<![\w.:/~}])/" + r"(home|root|work|Users|tmp|mnt|scratch|data|opt|var)/\w"
)
HOSTS = re.compile("|".join(["pypi" + r"\.org", "pythonhosted" + r"\.org", "extra-index" + "-url"]))
HOSTS = re.compile(HOSTS.pattern + "|index" + "-url|download" + r"\.pytorch\.org|find" + "-links")


@pytest.mark.parametrize(
    ("pattern", "seen"),
    [(ABSOLUTE, "x = '/" + "home/somebody/results'"), (HOSTS, "--index" + "-url https://x")],
    ids=["absolute paths", "index hosts"],
)
def test_tracked_files_name_no_machine(pattern, seen):
    assert pattern.search(seen)
    places = []
    for file in tracked():
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue  # figures and gzipped tables
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                places.append(f"{file.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not places, "\n".join(places)
