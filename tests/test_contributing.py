"""CONTRIBUTING.md is executed in a copy of the checkout with the files of its examples, in a
pretended macOS, and the documents name nothing that is not there."""

import csv
import html
import json
import os
import re
import shutil
import sys
from pathlib import Path

import documents
import pytest
from forks import Forks
from processes import MAC
from tiny import ROOT

from rlvr_papers.__main__ import VERBS

DOCUMENT = ROOT / "CONTRIBUTING.md"
EXAMPLES = ROOT / "tests" / "contributed"
ADDED = {str(file.relative_to(EXAMPLES)) for file in EXAMPLES.rglob("*.*") if file.is_file()}
PATH = re.compile(r"(?<![\w/>.])((?:common|papers|slurm|configs|tests|bench)/[\w./-]+\.\w+)")
TO_BE_MADE = {"configs/slurm/mine.yaml"}  # by the reader


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """The checkout with the examples; of the papers one, for the report takes three seconds for
    each."""
    folder = tmp_path_factory.mktemp("checkout")
    documents.copied(folder, r"results/|tests/|papers/(?!f_grpo|study|__init__)")
    (folder / ".venv").symlink_to(sys.prefix)
    for name in ("models", "smoke"):
        (folder / "results" / name).mkdir(parents=True)
    (folder / "results" / "smoke" / "models").symlink_to("../models")  # one is made, for all
    assert ADDED
    assert not [name for name in ADDED if (folder / name).exists()]
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def rlvr(checkout, tmp_path_factory):
    """The copy goes before the installed checkout."""
    here = {"HOME": str(checkout), "PYTHONPATH": f"{MAC}{os.pathsep}{checkout}"}
    with Forks(checkout, tmp_path_factory.mktemp("said"), documents.QUIET | here) as forks:
        yield forks


def executed(rlvr: Forks, section: str) -> str:
    return "".join(rlvr.run(*words) for words in documents.commands(DOCUMENT, section))


@pytest.mark.process
def test_a_method_and_a_loss_run_and_have_the_masses_of_the_docstring(rlvr):
    row = json.loads(executed(rlvr, "A method"))
    p, q, G, shrink = 0.5, 0.5, 8, 0.5  # of the command, and of the method file
    assert row["m_S"] == pytest.approx(p * (1 - shrink * (p + q / G)))
    assert row["m_F"] == pytest.approx(shrink * p * q * (1 - 1 / G))
    row = json.loads(executed(rlvr, "A loss"))
    assert row["m_S"] > row["m_F"] > 0


@pytest.mark.process
@pytest.mark.trains
def test_a_model_a_verifier_and_a_data_set_train_together(checkout, rlvr):
    folder = checkout / executed(rlvr, "A data set").splitlines()[-1]  # after progress bars
    assert (folder / "DONE").exists()
    config = (folder / "config.yaml").read_text()
    for name in ("smaller-qwen2", "near.verify", "train.jsonl", "leaky_clip"):
        assert name in config, name


@pytest.mark.process
@pytest.mark.sweep
def test_a_paper_shows_in_the_report(checkout, rlvr):
    reproduce, *rest = documents.commands(DOCUMENT, "A paper")
    rlvr.run(*reproduce, "workers=1")  # another one takes seconds to start
    said = "".join(rlvr.run(*words) for words in rest)
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


@pytest.mark.process
def test_a_paper_is_known_to_make_and_train(checkout, rlvr):
    said = documents.run(checkout, "make help", {"HOME": str(checkout)}).stdout
    assert "sixth" in said.splitlines()[-1]
    shown = rlvr.run("rlvr", "train", "paper=sixth", "experiment=shrunk", "--cfg", "job")
    assert "paper: sixth" in shown
    assert "common.advantages.shrunk.shrunk" in shown


def pages() -> list[Path]:
    """The Markdown files that people write; reference results are made by commands."""
    names = documents.tracked("*.md")
    return [ROOT / name for name in names if not name.startswith("results/reference/")]


@pytest.mark.parametrize("file", pages(), ids=lambda file: str(file.relative_to(ROOT)))
def test_links_and_modules_of_the_documents_are_there(file):
    text = file.read_text()
    made = ADDED | set(documents.files(file))
    for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", documents.BLOCK.sub("", text)):
        assert (file.parent / link).exists(), link
    for path in set(PATH.findall(text)) - TO_BE_MADE:
        assert path in made or any((top / path).exists() for top in (ROOT, file.parent)), path
    for module in re.findall(r"(?<![\w/])(?:common|papers|slurm|bench)(?:\.\w+)+", text):
        assert exists(module, made), module


def exists(name: str, made: set[str]) -> bool:
    """Whether a dotted name is a module or package of ours or of the examples, or a word of the
    module before its last dot."""
    path, last = Path(name.replace(".", "/")), name.rpartition(".")[2]
    if any(file.startswith((f"{path}/", f"{path}.py", f"{path.parent}.py")) for file in made):
        return True
    sources = [ROOT / f"{path.parent}.py", ROOT / path.parent / "__init__.py"]
    named = any(re.search(rf"\b{last}\b", file.read_text()) for file in sources if file.exists())
    return named or (ROOT / path).is_dir() or (ROOT / f"{path}.py").exists()


def test_targets_and_verbs_that_the_documents_name_are_there():
    targets = set(re.findall(r"^([a-z][\w-]*%?):", (ROOT / "Makefile").read_text(), re.M))
    for file in pages():
        text = file.read_text()
        for words in re.findall(r"(?:^|`)make ((?:[a-z][\w-]* ?)+)", text, re.M):
            for word in words.split():
                name = re.sub(r"^(reproduce|compare)-.*", r"\1-%", word)
                assert name in targets, f"{file.name}: make {word}"
        for verb in re.findall(r"(?:^|[`/ ])rlvr ([a-z][a-z-]*)", text, re.M):
            assert verb in VERBS, f"{file.name}: rlvr {verb}"
