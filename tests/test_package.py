import json
import os
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import documents
import pytest
from packaging.requirements import Requirement
from tiny import ROOT

from common.errors import UserError
from rlvr_papers import __main__ as front
from rlvr_papers.__main__ import COMPOSED, VERBS
from rlvr_papers.completion import choices


@pytest.mark.parametrize("verb", sorted(VERBS.keys() - set(COMPOSED) | {"reproduce"}))
def test_every_verb_has_a_help_that_names_it(verb, capsys):
    front.call([verb, "--help"])
    assert f"rlvr {verb}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rlvr rep", ["report ", "reproduce "]),
        ("rlvr train pa", ["paper="]),
        (
            "rlvr train paper=study experiment=f_grpo_gamma1",
            ["f_grpo_gamma1 ", "f_grpo_gamma1_plain "],
        ),
        ("rlvr reproduce paper=two_stage scale=sm", ["smoke "]),
        ("rlvr train model=tiny_", ["tiny_code "]),
        ("rlvr train paper=f_grpo method=f_g", ["f_grpo "]),
        ("rlvr submit profile=h200", ["h200-4 "]),
        ("rlvr train nothing=x", []),
    ],
)
def test_bash_completes_verbs_keys_and_names(line, expected):
    assert sorted(choices(line, VERBS)) == expected


def test_help_is_a_word_too(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["rlvr", "help"])
    front.main()
    assert capsys.readouterr().out.strip() == front.help_text()


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["tarin"], "verb=tarin: .*train"),
        (["reproduce"], "paper=: .*cov_grpo"),
        (["compare"], "paper=: .*cov_grpo"),
        (["train", "paper=grpo"], "paper=grpo: .*f_grpo"),
        (["report", "result_dir=x"], "result_dir=x.*results_dir"),
        (["report", "results_dir=nowhere"], "results_dir=nowhere"),
        (["compare", "paper=f_grpo", "results_dir=nowhere"], "results_dir=nowhere"),
        (["rescore"], "run=:"),
        (["preflight", "devise=cpu"], "devise=cpu.*device"),
        (["submit", "paper=fade", "profile=nope"], "profile=nope"),
    ],
    ids=str,
)
def test_a_mistaken_word_is_said_with_its_key_and_a_remedy(words, word):
    with pytest.raises(UserError, match=word):
        front.call(words)


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """What a wheel of the checkout's files puts into site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    documents.copied(folder, "results/|tests/")
    build = "from setuptools.build_meta import build_wheel as b; print(b('dist'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "site")
    return folder / "site"


@pytest.mark.process
def test_a_wheel_holds_every_file_that_is_read(installed):
    suffixes = (".py", ".yaml", ".csv", ".html", ".css", ".typed")
    for top in ("common", "papers", "configs", "slurm", "rlvr_papers"):
        for file in (ROOT / top).rglob("*"):
            if file.suffix in suffixes and "__pycache__" not in file.parts:
                assert (installed / file.relative_to(ROOT)).exists(), file.relative_to(ROOT)
    assert not (installed / "tests").exists()
    assert not (installed / "bench").exists()


def rlvr(installed: Path, folder: Path, *words: str) -> str:
    """What `rlvr words` of the wheel prints, started in a folder that is no checkout."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "rlvr_papers", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.process
def test_a_wheel_works_where_no_checkout_is(installed, tmp_path):
    (tmp_path / "common").mkdir()  # of the user's own project: must not be taken for ours
    (tmp_path / "common" / "__init__.py").write_text("raise SystemExit('the wrong common')\n")
    shown = rlvr(installed, tmp_path, "theory", "method=f_grpo", "p=0.5", "json=true")
    assert json.loads(shown)["m_S"] > 0
    shown = rlvr(installed, tmp_path, "train", "--cfg", "job", "paper=fade", "method=fade")
    assert "paper: fade" in shown
    assert "rlvr compare paper=NAME" in rlvr(
        installed, tmp_path, "compare", "paper=f_grpo", "--help"
    )


@pytest.mark.process
def test_a_folder_common_of_the_users_own_and_ours_are_both_there(installed, tmp_path):
    """One without an __init__.py is imported beside ours. A package keeps its place, and ours says
    which path comes first."""
    own = tmp_path / "common" / "mine.py"
    own.parent.mkdir()
    own.touch()
    names = "from rlvr_papers import method; print(method('f_grpo').name)"

    def said(program: str) -> subprocess.CompletedProcess:
        environment = os.environ | {"PYTHONPATH": str(installed)}
        run = dict(cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        return subprocess.run([sys.executable, "-c", program], **run)

    assert said(f"import common.mine; {names}; import common.mine").stdout == "f_grpo\n"
    (own.parent / "__init__.py").touch()
    assert said("import common.mine").returncode == 0
    last = said(f"import common.mine; {names}").stderr.splitlines()[-1]
    assert last.startswith("ImportError: rlvr_papers needs its own package `common`, and ")
    assert f"{own.parent / '__init__.py'} comes first; rename that one" in last


@pytest.mark.process
def test_the_library_imports_nothing_of_the_extra_full():
    """`pip install` into the environment of another trainer brings few packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    full = {*project["optional-dependencies"]["full"]}
    assert full == {"matplotlib", "pillow", "submitit", "wandb"}
    assert not full & {*project["dependencies"]}
    program = "import sys, common.api, common.train, common.comparison.compare\n"
    program += f"assert not {full | {'PIL'}} & {{*sys.modules}}, sorted(sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def test_the_pins_for_cuda_are_versions_that_we_take():
    lines = (ROOT / "constraints-cluster-cuda.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line[:1] != "#")
    wanted = [Requirement(line) for line in metadata.requires("rlvr-papers")]
    plain = [one for one in wanted if one.marker is None]
    assert len(plain) > 10
    assert [one.name for one in plain if pins.get(one.name) not in one.specifier] == []
