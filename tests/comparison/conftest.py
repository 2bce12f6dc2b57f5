from unittest.mock import patch

import pytest


@pytest.fixture(scope="module", autouse=True)
def few_draws():
    """Subsampling draws 500 times: no verdict reads its p-values."""
    with patch("common.comparison.gains.DRAWS", 500):
        yield
