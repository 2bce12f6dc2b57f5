"""What a run will take, by hand."""

import pytest

from common.sweeps import cost
from common.sweeps.assumptions import Accelerator, Size, assumptions


def test_decoding_by_hand():
    """1e9 weights, batch 256 limited by bandwidth: 2e9 bytes and the cache, over 1e12 bytes/s."""
    unit = Accelerator(80, 1000, 1000, 0.5, 0.5, 1)
    size = Size(1e9, 10, 1000, 100, 1000, 4096)
    cache = 2 * 2 * 10 * 100 * 500
    seconds = (2e9 + 256 * cache) / 1e12
    rate = cost.decode_rate(size, unit, assumptions(), 500)
    assert rate == pytest.approx(0.5 * 256 / seconds)
