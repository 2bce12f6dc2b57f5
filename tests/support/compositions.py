"""Every experiment, scale and method file, composed once in a process of tests: most look at the
same ones. What holds for all of them is asserted in tests/sweeps/test_compositions.py."""

from functools import cache

import yaml
from tiny import ROOT

from common.config.compose import compose
from common.config.files import papers
from common.config.rows import rows
from common.config.strict import strict
from common.experiment import Experiment, load
from common.sweeps.plan import STUDY, Reproduce, experiments

PAPERS = papers()
EXPERIMENTS = [(paper, name) for paper in (*PAPERS, STUDY) for name in sorted(rows(paper))]


@cache
def composed(overrides: tuple[str, ...], paper: str) -> Experiment:
    return load([*overrides], paper)


def experiment(name: str, paper: str) -> Experiment:
    return composed((f"experiment={name}",), paper)


def laptop(paper: str) -> list[str]:
    """The paper's own rows that run on a laptop: none of cluster/."""
    return [name for of, name in EXPERIMENTS if of == paper and "/" not in name]


def cluster(paper: str) -> list[str]:
    """The paper's rows that are of its own size."""
    return [name for of, name in EXPERIMENTS if of == paper and name.startswith("cluster/")]


@cache
def asked(paper: str, *overrides: str) -> Reproduce:
    return strict(Reproduce, compose(paper, list(overrides), "reproduce"))


@cache
def runs(paper: str, scale: str) -> list[Experiment]:
    """The experiments of a scale; tests read them."""
    return experiments(asked(paper, f"scale={scale}"))


def _stated(paper: str) -> list[str]:
    """The names of its scales from the file alone: collecting the tests composes nothing."""
    file = ROOT / "papers" / paper / "configs" / "reproduce.yaml"
    return list(yaml.safe_load(file.read_text(encoding="utf-8"))["scales"])


SCALES = [
    (paper, scale)
    for paper in (*PAPERS, STUDY)
    for scale in _stated(paper)
    if not scale.startswith("cluster")
]
