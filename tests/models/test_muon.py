"""Muon: torch's own in float32."""

import torch

from common.models.muon import Muon, newton_schulz

SHAPES = [(24, 8), (8, 24), (16, 16)]


def test_newton_schulz_keeps_the_singular_vectors_and_levels_the_singular_values():
    torch.manual_seed(0)
    for shape in SHAPES:
        matrix = torch.randn(*shape)
        u, _, v = torch.linalg.svd(matrix, full_matrices=False)
        inner = u.T @ newton_schulz(matrix) @ v.T  # diagonal in the same basis
        values = inner.diagonal()
        torch.testing.assert_close(inner, torch.diag(values), rtol=0, atol=1e-4)
        assert values.min() > 0.3  # a square matrix has one near 0
        assert values.max() < 1.3


def test_equals_torch_to_bfloat16_rounding():
    torch.manual_seed(1)
    ours = [torch.nn.Parameter(torch.randn(*shape)) for shape in SHAPES]
    theirs = [torch.nn.Parameter(weight.detach().clone()) for weight in ours]
    options = dict(lr=0.05, weight_decay=0.1)
    one, two = Muon(ours, **options), torch.optim.Muon(theirs, **options)
    for _ in range(3):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        one.step()
        two.step()
    for a, b in zip(ours, theirs, strict=True):  # an update's entries are about 0.05 * 0.2
        torch.testing.assert_close(a, b, rtol=0, atol=2e-3)
        assert (a - b).abs().max() > 0  # theirs did round
