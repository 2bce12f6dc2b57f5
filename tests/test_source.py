import re
import subprocess
import sys

import documents
import pytest
from tiny import ROOT


@pytest.mark.process
@pytest.mark.parametrize(
    "words",
    [
        ["rlvr_papers", *words]
        for words in ([], ["train", "paper=f_grpo"], ["reproduce", "paper=f_grpo"])
    ],
    ids=" ".join,
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


# Written in pieces, or this file would find itself.
ABSOLUTE = r"(?<![\w.:/~}])/" + r"(home|root|work|Users|tmp|mnt|scratch|data|opt|var)/\w"
HOSTS = "pypi" + r"\.org|pythonhosted" + r"\.org|index" + "-url|download" + r"\.pytorch\.org|find"
HOSTS += "-links"


def test_tracked_files_name_no_machine():
    pattern = re.compile(f"{ABSOLUTE}|{HOSTS}")
    assert pattern.search("x = '/" + "home/somebody/results'")
    assert pattern.search("--extra-index" + "-url https://x")
    places = []
    for name in documents.tracked():
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue  # figures and gzipped tables
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                places.append(f"{name}:{number}: {line.strip()[:80]}")
    assert not places, "\n".join(places)
