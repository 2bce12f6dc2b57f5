import pytest


@pytest.fixture(scope="module", autouse=True)
def quick(few_draws):
    """No verdict of this folder reads a p-value of the subsampling."""
