"""The inputs of the page, read once: a paper's comparison, its printed extras, its figures.

An input that cannot be read does not stop the page: it is named in `left_out`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import yaml

from common.claims import file as claims
from common.comparison import cluster_figures
from common.comparison.compare import Comparison, assess, stored
from common.comparison.spec import spec_of
from common.config.files import ROOT
from common.errors import UserError
from common.report import answers
from common.report.answers import Answer
from common.report.beside import OWN, beside
from common.report.figures import Picture, pictures
from common.report.next_steps import Step, next_step
from common.report.reruns import Rerun, costs, reruns
from common.yardstick.answer import sentence
from common.yardstick.third import EDITIONS
from common.yardstick.third_page import best_lines

# pandas' parser errors and UnicodeDecodeError are ValueErrors
UNREADABLE = (UserError, OSError, EOFError, ValueError, LookupError, TypeError, AttributeError)
UNREADABLE += (ImportError, yaml.YAMLError, zlib.error)
RANKING = "ranking.csv"


@dataclass(frozen=True)
class Source:
    """One paper's inputs. `root` is the results folder that its numbers come from."""

    paper: str
    title: str
    root: Path
    fallback: str  # why another folder than the one asked for was read; "" where none was
    comparison: Comparison | None  # the committed one, with the user's own beside it
    claims: dict[str, dict]  # by id, as written in claims.yaml
    hyperparameters: pd.DataFrame | None
    missing: pd.DataFrame | None  # printed numbers that could not be read from the paper's text
    figures: list[Picture]
    reruns: list[Rerun]
    left_out: list[str]
    answer: Answer | None = None  # the paper's part of the first screen
    step: Step | None = None  # the command that would settle more claims
    budget: Sequence[dict] = ()  # the claims that cluster rows could decide


@dataclass(frozen=True)
class Yardstick:
    """Whether a method beats a smaller learning rate on one testbed: the third edition."""

    name: str
    task: str
    fallback: str
    answer: str
    lines: list[list[str]]  # of third_page.BEST_HEAD
    figures: list[Picture]


def papers(home: Path) -> list[str]:
    """Return the names of the folders below `home` that have claims, sorted."""
    return sorted(path.parent.name for path in home.glob("*/claims.yaml"))


def choose(root: Path, reference: Path, name: str, mark: str) -> tuple[Path, str]:
    """Return (the results folder to read `name` from, why it is not `root` or "" if it is).

    `mark` is the file that is written last; without it the folder is unfinished.
    """
    if (root / name / mark).exists() or not (reference / name).is_dir():
        return root, ""
    if _same(root, reference):
        return root, ""
    state = "holds no finished comparison" if (root / name).is_dir() else "is not there"
    return reference, f"{name}/ {state} in {root.name}/; shown are the committed results"


def read(paper: str, home: Path, root: Path, reference: Path) -> Source:
    """Read everything about `paper`, whose folder is home/paper."""
    left_out: list[str] = []
    chosen, fallback = choose(root, reference, paper, "claims.csv")
    published = home / paper / "published"
    committed = (reference / paper / "claims.csv").exists()
    look = _stored if committed and _same(chosen, reference) else _assess
    comparison = attempt(left_out, f"papers/{paper}", lambda: look(paper, chosen, reference))
    own = committed and chosen == root and not _same(root, reference)
    if own:
        place = f"{reference.name}/{paper}"
        kept = attempt(left_out, place, lambda: _stored(paper, reference, reference))
        if kept and comparison:
            comparison = _beside(kept, root, comparison, reference)
            fallback = f"{root.name}/ has results of your own: they stand beside the committed ones"
        comparison = comparison or kept
    file = home / paper / "claims.yaml"
    about, listed = attempt(left_out, f"papers/{paper}", lambda: claims.read(file)) or ({}, [])
    stated = {claim["id"]: claim for claim in listed}
    prices = attempt(left_out, f"{paper}/costs.csv", lambda: costs(reference / paper / "costs.csv"))
    prices = costs(Path("none")) if prices is None else prices
    rows = attempt(left_out, f"papers/{paper}/configs", lambda: reruns(paper, prices)) or []
    able = attempt(left_out, f"{paper}/budget.csv", lambda: _budget(reference / paper))
    able = _budget(Path("none")) if able is None else able
    said = step = None
    if comparison:
        said = attempt(
            left_out,
            f"{paper}: first screen",
            lambda: _answer(paper, about, stated, comparison, able),
        )
    if said:
        step = attempt(
            left_out,
            f"{paper}: next step",
            lambda: next_step(said, stated, comparison.gaps, rows, prices),
        )
    made = attempt(left_out, f"{paper}/cluster", lambda: cluster_figures.drawn(chosen, paper)) or []
    captions = {one.name: one.caption for one in made}
    drawn, problems = pictures(chosen / paper / "figures", captions)
    if own:
        mine = [replace(one, name=f"{OWN}_{one.name}") for one in drawn]
        drawn, more = pictures(reference / paper / "figures", {})
        drawn, problems = [*drawn, *mine], [*problems, *more]
        chosen = reference
    problems += [f"{paper}/{one.name}: not drawn: {one.left_out}" for one in made if one.left_out]
    return Source(
        paper=paper,
        title=comparison.spec.title if comparison else paper,
        root=chosen,
        fallback=fallback,
        comparison=comparison,
        claims=stated,
        hyperparameters=_optional(left_out, published / "hyperparameters.csv"),
        missing=_optional(left_out, published / "missing.csv"),
        figures=drawn,
        reruns=rows,
        left_out=[*left_out, *(comparison.left_out if comparison else ()), *problems],
        answer=said,
        step=step,
        budget=able.astype(object).fillna("").to_dict("records"),
    )


def _same(root: Path, reference: Path) -> bool:
    return root.resolve() == reference.resolve()


def _beside(stored: Comparison, root: Path, own: Comparison, reference: Path) -> Comparison:
    """Merge both comparisons; each run carries the results folder that its files are in."""
    sides = [
        replace(one, runs=one.runs.assign(root=str(folder)))
        for one, folder in ((stored, reference), (own, root))
    ]
    return beside(*sides)


def _budget(folder: Path) -> pd.DataFrame:
    """Read which claims cluster rows could decide (slurm/prices.py), empty if not stored."""
    columns = ["id", "rows", "gpu_hours", "power", "lacking"]
    file = folder / "budget.csv"
    return pd.read_csv(file) if file.exists() else pd.DataFrame(columns=columns)


def _answer(paper: str, about: dict, stated: dict, found: Comparison, able: pd.DataFrame) -> Answer:
    models = answers.models(found.summary)
    return answers.answer(paper, about, stated, found.verdicts, found.gaps, models, able)


def read_yardstick(root: Path, reference: Path) -> tuple[list[Yardstick], list[str]]:
    """Return (the testbeds on which more than the controls has run, what could not be read)."""
    shown, left_out = [], []
    for name, edition in EDITIONS.items():
        chosen, fallback = choose(root, reference, name, RANKING)
        if not (chosen / name / RANKING).exists():
            continue

        def load(edition=edition, file=chosen / name / RANKING) -> tuple[str, list[list[str]]]:
            ranking = pd.read_csv(file)
            return sentence(edition, ranking), best_lines(ranking)

        if read := attempt(left_out, f"{name}/{RANKING}", load):
            said, lines = read
            drawn, problems = pictures(chosen / name / "figures")
            left_out += problems
            shown.append(Yardstick(name, edition.task, fallback, said, lines, drawn))
    return shown, left_out


def attempt(left_out: list[str], what: str, function: Callable):
    """Return function(); if it fails for bad input, add the reason to `left_out`, return None."""
    try:
        return function()
    except UNREADABLE as error:
        reason = " ".join(str(error).replace(f"{ROOT}/", "").split())[:300]
        left_out.append(reason if isinstance(error, UserError) else f"{what}: {reason}")
        return None


def _assess(paper: str, root: Path, reference: Path) -> Comparison:
    return assess(spec_of(paper), root, None, reference)


def _stored(paper: str, root: Path, reference: Path) -> Comparison:
    return stored(spec_of(paper), root)


def _optional(left_out: list[str], path: Path) -> pd.DataFrame | None:
    """Read a table with `_table`; return None, and leave out nothing, where it does not exist."""
    return _table(left_out, path) if path.exists() else None


def _table(left_out: list[str], path: Path) -> pd.DataFrame | None:
    """Read a small table as text, with missing values as ""."""
    name = "/".join(path.parts[-3:])

    def load():
        return pd.read_csv(path, dtype=str, keep_default_na=False)

    if not path.exists():
        left_out.append(f"{name}: is not there")
        return None
    return attempt(left_out, name, load)
