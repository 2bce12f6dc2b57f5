"""The page is made again only where something that it is made of has changed."""

import os

import pytest

from common.report import cache


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A checkout of one file of each kind, and main() -> (what was left out, was it made)."""
    root = tmp_path / "results"
    for name in (
        "common/a.py",
        "papers/p/claims.yaml",
        "papers/p/published/table1.csv",
        "configs/base.yaml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    for name in (
        "p/claims.csv",
        "third_maze/ranking.csv",
        "reference/p/claims.csv",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    monkeypatch.setattr(cache, "ROOT", tmp_path)
    target = root / "report" / "index.html"
    times = iter(range(100))

    def make():
        return cache.page(
            target, root, root / "reference", lambda: (f"page {next(times)}", ["why"])
        )

    return tmp_path, target, make


def test_the_same_inputs_leave_the_page(small):
    _, target, make = small
    assert make() == (["why"], True)
    assert make() == (["why"], False)
    assert target.read_text() == "page 0"


@pytest.mark.parametrize(
    "name",
    [
        "common/a.py",
        "papers/p/published/table1.csv",
        "configs/base.yaml",
        "results/p/claims.csv",
        "results/third_maze/ranking.csv",
        "results/reference/p/claims.csv",
        "results/report/index.html",
    ],
)
def test_another_input_makes_it_again(small, name):
    root, target, make = small
    make()
    (root / name).write_text("y")
    os.utime(root / name, ns=(1, 1))
    assert make() == (["why"], True)
    assert target.read_text() == "page 1"
    (root / name).unlink()
    assert make()[1]


def test_a_new_file_another_library_or_a_damaged_note_make_it_again(small, monkeypatch):
    root, target, make = small
    make()
    (root / "results" / "p" / "run").mkdir()
    assert not make()[1]
    (root / "results" / "p" / "run" / "DONE").write_text("")
    assert make()[1]
    target.with_name("made_of.json").write_text("[")
    assert make()[1]
    monkeypatch.setattr(cache, "version", lambda name: "0")
    assert make()[1]
    assert not make()[1]
