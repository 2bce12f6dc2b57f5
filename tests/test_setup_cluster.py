"""`make setup-cluster` on the machine that it is not for: one line, and nothing is made."""

import os
import subprocess
from importlib import metadata

from packaging.requirements import Requirement
from packaging.version import Version
from tiny import ROOT

WHEEL = "flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl"
PIP = '#!/bin/sh\ncase "$*" in *{missing}*) exit 1;; esac\n'


def make(
    tmp_path, version: str, flash: str, missing: str = "nothing"
) -> subprocess.CompletedProcess:
    """With a Python that says it is of that version and makes environments whose pip does nothing,
    and fails where it is asked for `missing`."""
    python = tmp_path / "python"
    pip = tmp_path / "pip"
    pip.write_text(PIP.format(missing=missing))
    pip.chmod(0o755)
    python.write_text(
        f"""#!/bin/sh
        if [ "$1" = -c ]; then
          exec python3 -c 'import sys; sys.version_info = ({version}); exec(sys.argv[1])' "$2"
        fi
        mkdir -p $3/bin && cp {pip} $3/bin/pip
        """
    )
    python.chmod(0o755)
    words = [f"PYTHON={python}", f"CLUSTER_VENV={tmp_path / 'venv'}", f"FLASH_ATTN={flash}"]
    command = ["make", "--no-print-directory", "setup-cluster", *words]
    env = {
        key: text for key, text in os.environ.items() if not key.startswith("MAKE")
    }  # the gate's
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)


def test_another_python_is_refused(tmp_path):
    done = make(tmp_path, "3, 11", WHEEL)
    assert done.returncode == 2
    said = f"error: PYTHON={tmp_path}/python: Python 3.11, and the pins and flash-attn are for 3.12"
    assert done.stderr.splitlines()[0].startswith(said)
    assert "set PYTHON=python3.12" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_a_wheel_that_is_not_there_is_refused_before_the_rest_is_installed(tmp_path):
    done = make(tmp_path, "3, 12", "gone.whl", missing="gone.whl")
    assert done.returncode == 2
    assert "error: FLASH_ATTN=gone.whl: no such wheel; set it to the file or address" in done.stderr
    assert WHEEL in done.stderr
    assert "constraints-cluster-cuda" not in done.stdout  # make echoes what it runs
    assert not (tmp_path / "venv" / ".ready").exists()


def test_a_wheel_that_is_there_is_installed(tmp_path):
    assert make(tmp_path, "3, 12", WHEEL).returncode == 0
    assert (tmp_path / "venv" / ".ready").exists()


def test_the_pins_are_those_that_python_3_12_takes():
    lines = (ROOT / "constraints-cluster-cuda.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line[:1] != "#")
    assert Version(pins["setuptools"]) < Version("81")  # vLLM 0.24 on Python 3.12
    assert pins["torchcodec"] == "0.11.1"  # verl's own lock
    assert "flash-attn" not in pins
    wanted = [Requirement(line) for line in metadata.requires("rlvr-papers")]
    plain = [one for one in wanted if one.marker is None]
    assert len(plain) > 10
    assert [one.name for one in plain if pins.get(one.name) not in one.specifier] == []
