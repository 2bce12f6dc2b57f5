import importlib
import shutil
import sys
from pathlib import Path

import pytest

from common.verifiers import fingerprint as under_test
from common.verifiers.fingerprint import fingerprint, sources

NODE = {"_target_": "made_up.verifier.verify"}


def names(node: dict) -> set[str]:
    return {f"{file.parent.name}/{file.name}" for file in sources(node)}


@pytest.fixture
def made_up(tmp_path, monkeypatch) -> Path:
    """A verifier of a user's own: a package, whose function is re-exported from one of two
    files."""
    folder = tmp_path / "made_up" / "verifier"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("")
    (folder.parent / "words.py").write_text("RIGHT = 'yes'\n")
    (folder / "__init__.py").write_text("from made_up.verifier.judge import verify\n")
    (folder / "judge.py").write_text(
        "def verify(response, reference):\n    from made_up import words\n"
    )
    (folder / "child.py").write_text("print('run, not imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "made_up"]:
        del sys.modules[name]


def test_it_covers_the_folder_and_what_it_imports():
    math = names({"_target_": "common.verifiers.math.verify"})
    assert {"math/__init__.py", "math/verifier.py", "math/equal.py", "math/guard.py"} <= math
    assert "common/types.py" in math
    assert "verifiers/choice.py" not in math
    assert "verifiers/pool.py" not in math
    assert "code/sandbox_child.py" in names({"_target_": "common.verifiers.code.verify"})
    assert "tasks/countdown.py" in names({"_target_": "common.verifiers.countdown.verify"})
    parts = [{"_target_": f"common.verifiers.{name}.verify"} for name in ("math", "format")]
    both = names({"_target_": "common.verifiers.combine.verify", "parts": parts})
    assert math | {"verifiers/combine.py", "verifiers/format.py"} <= both


@pytest.mark.parametrize("file", ["judge.py", "child.py", "__init__.py", "../words.py"])
def test_a_change_of_any_file_changes_it(made_up, file):
    before = fingerprint(NODE)
    (made_up / "__pycache__").mkdir(exist_ok=True)
    (made_up / "__pycache__" / "judge.cpython-311.pyc").write_bytes(b"anything")
    assert fingerprint(NODE) == before  # compiled files are not read
    with (made_up / file).open("a") as source:
        source.write("# fixed\n")
    assert fingerprint(NODE)["sha256"] != before["sha256"]


def test_the_place_does_not_change_it(made_up, tmp_path, monkeypatch):
    before = fingerprint(NODE)
    shutil.move(tmp_path / "made_up", tmp_path / "elsewhere" / "made_up")
    forget()
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    importlib.invalidate_caches()
    assert fingerprint(NODE) == before
    assert all("elsewhere" in str(file) for file in sources(NODE))


def test_the_versions_of_its_libraries_belong_to_it(monkeypatch):
    node = {"_target_": "common.verifiers.math.verify"}
    assert set(fingerprint(node)["libraries"]) == {"math-verify", "latex2sympy2_extended", "sympy"}
    assert "lm-eval" in fingerprint({"_target_": "common.verifiers.ifeval.verify"})["libraries"]
    assert fingerprint({"_target_": "common.verifiers.format.verify"})["libraries"] == {}
    before = fingerprint(node)
    monkeypatch.setattr(under_test, "version", lambda name: "0.0")
    assert fingerprint(node) == before | {"libraries": dict.fromkeys(before["libraries"], "0.0")}
