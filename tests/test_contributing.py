"""CONTRIBUTING.md is executed: its files are written into a copy of the checkout, its commands run.

A fenced block whose first line is `# path/of/a.file` is that file; a block of `sh` is run. And the
documents name nothing that is not there.
"""

import csv
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tiny import ROOT

from rlvr_papers.__main__ import VERBS

DOCUMENT = ROOT / "CONTRIBUTING.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
PATH = re.compile(r"(?<![\w/>.])((?:common|papers|slurm|configs|tests|bench)/[\w./-]+\.\w+)")
TO_BE_MADE = {"configs/slurm/mine.yaml"}  # by the reader
RLVR = ".venv/bin/rlvr"
NAMED = re.compile(r"# ([\w./-]+\.\w+)\n")


def blocks(section: str) -> list[tuple[str, str]]:
    """(language, text) of the fenced blocks below the heading `section`; "" is the whole file."""
    text = DOCUMENT.read_text()
    if section:
        text = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return BLOCK.findall(text)


def run(folder: Path, command: str) -> str:
    """Standard output of a command of the document, in the copy."""
    here = {"HOME": str(folder), "PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1"}
    here["PYTHONPATH"] = str(folder)  # before the installed checkout, whose script `rlvr` is
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=here | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """The tracked files of the checkout, and those of the document.

    Without results, tests, and papers but one: the report takes three seconds for each.
    """
    left_out = re.compile(r"results/|tests/|papers/(?!f_grpo|__init__)")
    folder = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().strip("\0").split("\0"):
        if not left_out.match(name) and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    for language, text in blocks(""):
        if named := NAMED.match(text):
            file = folder / named[1]
            assert not file.exists(), f"{named[1]}: is in the repository already"
            assert file.suffix[1:] in (language, "py", "yaml", "md"), named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text[named.end() :])
    return folder


def executed(folder: Path, section: str) -> str:
    """What the commands of a section print."""
    commands = [text for language, text in blocks(section) if language == "sh"]
    assert commands, f"{section}: no block of sh"
    return "".join(run(folder, command) for command in commands)


@pytest.mark.process
def test_a_method_has_the_masses_that_its_docstring_states(checkout):
    row = json.loads(executed(checkout, "A method"))
    p, q, G, shrink = 0.5, 0.5, 8, 0.5  # of the command, and of the method file
    assert row["m_S"] == pytest.approx(p * (1 - shrink * (p + q / G)))
    assert row["m_F"] == pytest.approx(shrink * p * q * (1 - 1 / G))


@pytest.mark.process
def test_a_loss_composes_with_the_method_that_it_belongs_to(checkout):
    row = json.loads(executed(checkout, "A loss"))
    assert row["m_S"] > row["m_F"] > 0


@pytest.mark.process
@pytest.mark.trains
def test_a_model_a_verifier_and_a_data_set_train_together(checkout):
    folder = checkout / executed(checkout, "A data set").splitlines()[-1]  # after progress bars
    assert (folder / "DONE").exists()
    config = (folder / "config.yaml").read_text()
    for name in ("smaller-qwen2", "near.verify", "train.jsonl", "leaky_clip"):
        assert name in config, name


@pytest.mark.process
@pytest.mark.sweep
def test_a_paper_shows_in_the_report(checkout):
    said = executed(checkout, "A paper")
    assert "table=table1  profile=local-1x24  scale=cluster" in said
    assert "seed 1: base, shrunk" in said
    claim = "With a shrunk baseline the policy still moves where GRPO has stopped"
    results = checkout / "results" / "smoke"
    (row,) = csv.DictReader((results / "sixth" / "claims.csv").open())
    assert (row["claim"], row["published"], row["laptop"]) == (claim, "holds", "holds")
    page = html.unescape((results / "report" / "index.html").read_text())
    told = page.split('id="sixth-shrunk_moves_on"')[1].split("</tr>")[0]
    assert claim in told
    assert row["laptop_numbers"] in told
    assert told.count('class="word good"') == 2  # published and laptop


def test_a_paper_is_a_target_of_make(checkout):
    assert "sixth" in run(checkout, "make help").splitlines()[-1]
    listed = run(checkout, f"{RLVR} submit paper=sixth")
    assert run(checkout, ".venv/bin/python -m papers.sixth.launch") == listed


@pytest.mark.process
def test_a_paper_trains_without_a_main_module_of_its_own(checkout):
    shown = run(checkout, f"{RLVR} train paper=sixth experiment=shrunk --cfg job")
    assert "paper: sixth" in shown
    assert "common.advantages.shrunk.shrunk" in shown


def documents() -> list[Path]:
    """The Markdown files that people write; reference results are made by commands."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    names = listed.stdout.strip("\0").split("\0")
    return [ROOT / name for name in names if not name.startswith("results/reference/")]


@pytest.mark.parametrize("file", documents(), ids=lambda file: str(file.relative_to(ROOT)))
def test_links_and_modules_of_the_documents_are_there(file):
    text = file.read_text()
    made = {named[1] for _, block in BLOCK.findall(text) if (named := NAMED.match(block))}
    for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", BLOCK.sub("", text)):
        assert (file.parent / link).exists(), link
    for path in set(PATH.findall(text)) - TO_BE_MADE:
        assert path in made or any((top / path).exists() for top in (ROOT, file.parent)), path
    for module in re.findall(r"(?<![\w/])(?:common|papers|slurm|bench)(?:\.\w+)+", text):
        assert exists(module, made), module


def exists(name: str, made: set[str]) -> bool:
    """Whether a dotted name is a module or package of ours or of the document's, or a word of the
    module before its last dot."""
    path, last = Path(name.replace(".", "/")), name.rpartition(".")[2]
    if (ROOT / path).is_dir() or (ROOT / f"{path}.py").exists():
        return True
    if any(file.startswith((f"{path}/", f"{path}.py", f"{path.parent}.py")) for file in made):
        return True
    sources = [ROOT / f"{path.parent}.py", ROOT / path.parent / "__init__.py"]
    return any(re.search(rf"\b{last}\b", file.read_text()) for file in sources if file.exists())


def test_targets_that_the_documents_name_are_in_the_makefile():
    targets = set(re.findall(r"^([a-z][\w-]*%?):", (ROOT / "Makefile").read_text(), re.M))
    for file in documents():
        for words in re.findall(r"(?:^|`)make ((?:[a-z][\w-]* ?)+)", file.read_text(), re.M):
            for word in words.split():
                name = re.sub(r"^(reproduce|compare)-.*", r"\1-%", word)
                assert name in targets, f"{file.name}: make {word}"


def test_verbs_that_the_documents_name_are_there():
    seen = set()
    for file in documents():
        for verb in re.findall(r"(?:^|[`/ ])rlvr ([a-z][a-z-]*)", file.read_text(), re.M):
            assert verb in VERBS, f"{file.name}: rlvr {verb}"
            seen.add(verb)
    assert seen > {"train", "reproduce", "compare", "submit"}


def test_the_layers_are_those_of_the_contract():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = [c for c in project["tool"]["importlinter"]["contracts"] if c.get("exhaustive")]
    table = DOCUMENT.read_text().split("| layer | package")[1].split("\n\n")[0]
    layers = [set() for _ in contract["layers"]]
    for layer, names in re.findall(r"^\| (\d+) \| (.*?) \|", table, re.M):
        layers[int(layer)] |= set(re.findall(r"\w+", names))
    assert layers == [set(re.findall(r"\w+", names)) for names in reversed(contract["layers"])]
