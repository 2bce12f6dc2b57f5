"""Documents whose fenced blocks are executed: one whose first line is `# path/of/a.file` is that
file, one of `sh` is run. And copies of the checkout to do that in."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from tiny import ROOT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
QUIET = {"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}  # no network
_NAMED = re.compile(r"# ([\w./-]+\.\w+)\n")


def tracked(*patterns: str) -> list[str]:
    """The files of the checkout that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    return [name for name in listed.stdout.strip("\0").split("\0") if (ROOT / name).is_file()]


def copied(folder: Path, left_out: str) -> None:
    """Copy the files whose names do not begin with this pattern."""
    for name in tracked():
        if not re.match(left_out, name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def files(document: Path) -> dict[str, str]:
    """name -> text of the files that a document holds."""
    blocks = [text for _, text in BLOCK.findall(document.read_text())]
    return {named[1]: text[named.end() :] for text in blocks if (named := _NAMED.match(text))}


def written(document: Path, folder: Path) -> None:
    """Write its files, none of which may be there already."""
    for name, text in files(document).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("x") as file:
            file.write(text)


def run(folder: Path, command: str, environment: dict) -> subprocess.CompletedProcess:
    """A command of the document, without network; it must succeed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=QUIET | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def commands(document: Path, section: str) -> list[list[str]]:
    """The words of each command below the heading `section`."""
    text = document.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    commands = [block for language, block in BLOCK.findall(text) if language == "sh"]
    assert commands, f"{section}: no block of sh"
    lines = "".join(commands).replace("\\\n", "").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]
