"""What a wrong word of make says, before anything is made; what a Mac's make and tools, another
Python or another build of torch need of it."""

import os
import re
import subprocess
import tomllib
from collections import Counter
from importlib.metadata import distribution

import documents
import pytest
import yaml
from tiny import ROOT

TEXT = (ROOT / "Makefile").read_text()


def make(*words: str) -> subprocess.CompletedProcess:
    env = {key: x for key, x in os.environ.items() if key != "MAKEFLAGS"}  # of `make test`
    command = ["make", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, env=env)


@pytest.mark.process
def test_a_python_that_is_too_old_is_refused_by_its_version(tmp_path):
    old = tmp_path / "old"  # says that it is 3.10, and would make no environment
    pretend = "import sys; sys.version_info = (3, 10, 4); exec(sys.argv[1])"
    old.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exec python3 -c \'{pretend}\' "$2"\nexit 1\n')
    old.chmod(0o755)
    done = make("setup", f"VENV={tmp_path / 'venv'}", f"PYTHON={old}")
    assert done.returncode != 0
    assert f"PYTHON={old}: Python 3.10" in done.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.process
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


# What GNU make 3.81 and the tools of BSD have not, which is what a Mac comes with.
NEWER = r"--output-sync|-O\w+ |\.ONESHELL|^\w+ *(?:!=|::=)|\$\(file |^undefine|&:|"
NEWER += r"\b(?:sha\d+sum|md5sum|readlink|realpath|nproc|timeout|tac|numfmt|apt-get)\b|"
NEWER += r"\bsed (?:-r|-i|--)|\\t/|sed .*\\[tn+?|]|grep -\w*P|xargs -r|sort -\w*V|date -d|stat -c|"
NEWER += r"tar --|cp -\w*t |mktemp --|--platform=linux"


def test_the_makefile_needs_no_more_than_a_mac_has():
    found = [line for line in TEXT.splitlines() if re.search(NEWER, line, re.M)]
    assert found == []


@pytest.mark.process
@pytest.mark.parametrize("target", ["setup-cluster", "setup-cluster-cpu"])
def test_where_verl_has_no_packages_its_environment_is_refused_in_a_line(target, tmp_path):
    (tmp_path / "uname").write_text("#!/bin/sh\necho Darwin\n")
    (tmp_path / "uname").chmod(0o755)
    path = f"PATH={tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = make(target, f"CLUSTER_VENV={tmp_path / 'venv'}", path)
    assert done.returncode != 0
    assert "pip" not in done.stdout
    assert "need Linux, and this is Darwin" in done.stderr.splitlines()[0]
    assert not (tmp_path / "venv").exists()


def test_the_sources_among_the_pins_are_pure():
    """Those that `make pins` asks for no wheel of."""
    pure = re.search(r"^PURE := (.*)$", TEXT, re.M)[1].split("|")
    pins = (ROOT / "constraints.txt").read_text()
    for name in pure:
        assert f"\n{name}==" in pins
        files = [str(file) for file in distribution(name).files]
        assert files
        assert not [file for file in files if file.endswith((".so", ".c", ".pyx"))], name


def test_every_place_names_the_same_pythons():
    """What README promises was tried; `make pins` looks one further."""
    pins = re.search(r"for python in ([\d. ]+);", TEXT)[1].split()
    promised = re.search(r"Python (3\.\d+)-(3\.\d+)", (ROOT / "README.md").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={promised[1]}"
    assert [pins[0], pins[-2]] == [*promised.groups()]
    page = (ROOT / "docs" / "platforms.md").read_text()
    assert all(python in page for python in pins)


def test_the_torch_that_is_installed_first_is_the_pinned_one():
    (pin,) = re.findall(r"^torch==\S+", (ROOT / "constraints.txt").read_text(), re.M)
    assert set(re.findall(r"\btorch==\S+", TEXT)) == {pin}


def test_no_two_names_differ_by_case_only():
    """On a Mac they would be one file: tracked files, methods, and rows, which name run folders."""
    rows = [
        [str(row) for row in yaml.safe_load(file.read_text()).get("rows", ())]
        for file in sorted(ROOT.glob("papers/*/configs/reproduce.yaml"))
    ]
    assert all(rows)
    methods = [file.stem for file in ROOT.glob("configs/method/*.yaml")]
    for names in (documents.tracked(), methods, *rows):
        folded = Counter(name.casefold() for name in names)
        assert [name for name, count in folded.items() if count > 1] == []
