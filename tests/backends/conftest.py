"""Fixtures that several files of this folder share."""

import pytest
from local_loop import BONUS

from common.backends.local import train


@pytest.fixture
def run(tiny):
    """A finished run of six steps, with an entropy bonus so that every step moves the model."""
    return train(tiny(BONUS), progress=False)
