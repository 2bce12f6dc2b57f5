"""What a wrong word of make says, before anything is made."""

import subprocess

import pytest
from tiny import ROOT

pytestmark = pytest.mark.process


def make(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run(["make", "-C", str(ROOT), *words], capture_output=True, text=True)


def test_a_python_that_is_too_old_is_refused_by_its_version(tmp_path):
    old = tmp_path / "old"  # says that it is 3.10, and would make no environment
    pretend = "import sys; sys.version_info = (3, 10, 4); exec(sys.argv[1])"
    old.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exec python3 -c \'{pretend}\' "$2"\nexit 1\n')
    old.chmod(0o755)
    done = make("setup", f"VENV={tmp_path / 'venv'}", f"PYTHON={old}")
    assert done.returncode != 0
    assert f"PYTHON={old}: Python 3.10" in done.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("reproduce-f-grpo", "SCALE=laptop"),
        ("reproduce-f-grpo", "SCALE=cluster", "DRY_RUN=1"),
        ("compare-f-grpo",),
    ],
)
def test_a_paper_with_a_dash_gets_the_near_name(words):
    done = make(*words, "--old-file=.venv/.ready")
    assert done.returncode != 0
    assert "error: paper=f-grpo: " in done.stderr
