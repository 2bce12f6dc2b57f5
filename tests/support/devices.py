"""Devices that a test of the local engine runs on."""

import pytest
import torch

no_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
DEVICES = ["cpu", pytest.param("cuda", marks=no_gpu)]
