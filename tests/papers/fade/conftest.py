"""What several tests of FADE share."""

import pytest

from papers.fade.theory import masses


@pytest.fixture(scope="session")
def by_advantage():
    """advantage -> methods of masses.py; composed once."""
    methods = {}
    for name, method in masses.variants():
        methods.setdefault(name, []).append(method)
    return methods
