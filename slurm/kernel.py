"""One Triton kernel, which slurm/probe.py compiles on a node. Importing this file needs Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add_one(pointer, size, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < size
    tl.store(pointer + at, tl.load(pointer + at, mask=mask) + 1, mask=mask)


def increment(x: torch.Tensor) -> torch.Tensor:
    _add_one[(1,)](x, x.numel(), BLOCK=1024)
    return x
