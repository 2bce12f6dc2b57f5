"""The row of each paper that is tried first."""

import pytest

from common.sweeps.smallest import SMALLEST, readme


@pytest.mark.sweep
@pytest.mark.parametrize("paper", SMALLEST)
def test_the_readme_says_what_the_dry_run_predicts(paper):
    path, text = readme(paper)
    assert path.read_text() == text, "stale: run .venv/bin/rlvr docs"
