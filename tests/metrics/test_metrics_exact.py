import numpy as np
import pytest

from common.metrics.passk import pass_at_k, pass_at_k_table


def exact_table(n: int) -> np.ndarray:
    """1 - C(n-c, k) / C(n, k) for c = 0..n and k = 1..n, from whole numbers.

    A quotient of two Python integers is the exact quotient, rounded once.
    """
    table = np.empty((n + 1, n))
    for k in range(1, n + 1):
        choose = [0] * k + [1]  # C(m, k) for m = 0..n
        for m in range(k, n):
            choose.append(choose[-1] * (m + 1) // (m + 1 - k))
        total = choose[n]
        table[:, k - 1] = [(total - choose[n - c]) / total for c in range(n + 1)]
    return table


@pytest.mark.parametrize("sizes", [range(1, 65), [100, 256], [1024]], ids=str)
def test_pass_at_k_is_exact_for_every_c_and_k(sizes):
    for n in sizes:
        ks = list(range(1, n + 1))
        expected = exact_table(n)
        np.testing.assert_allclose(pass_at_k_table(n, ks), expected, rtol=0, atol=1e-12)
        got = pass_at_k(np.arange(n + 1), n, ks)
        assert np.abs(got - expected).max() < 1e-12, n
