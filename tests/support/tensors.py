"""Tensors in double precision, and their comparison."""

import torch


def rows(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def assert_close(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(
        actual, torch.as_tensor(expected, dtype=actual.dtype), rtol=tolerance, atol=tolerance
    )
