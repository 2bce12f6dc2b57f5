import torch

from common.models.muon import Muon

SHAPES = [(24, 8), (8, 24), (16, 16)]


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
