"""`python tests/cluster/on_cuda.py FOLDER`: two steps of verl's engine in the form that it has on
a GPU: packed rows, checkpointing, verl's own precision; where layout.py puts weights and moments,
and on the GPU in float32 too. It takes the true GPU where there is one, else a pretended one.
FOLDER/found.pt:

    {states, or float32: {losses, norms, weights, dtype, resting, peak}}     memory in bytes
"""

# ruff: noqa: E402 (verl looks for a device when it is imported)
import gc
import sys
from pathlib import Path

import fakecuda
import torch

PRETENDED = not torch.cuda.is_available()
if PRETENDED:
    fakecuda.install(gb=4)

from engines import (
    configured,
    experiment,
    loss_of,
    mini_batch,
    random_model,
    training_worker,
    with_advantages,
)
from torch.testing._internal.distributed import fake_pg  # noqa: F401 (registers "fake")
from verl.utils import tensordict_utils as tu

from common.backends.verl import layout

STATES = ("gpu", "between", "cpu")
FSDP = layout.OFFLOAD
FP32 = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
FLOAT32 = {f"{FSDP}.mixed_precision": FP32, f"{FSDP}.dtype": "float32"}
STEPS = 2  # the second has moments


def keys(states: str) -> dict:
    """verl's keys of a layout; passes of three rows or so."""
    numbers = dict(training_gb=1.0, sampling_gb=1.0, vllm_gb=1.0, host_gb=1.0, fits=True)
    return layout.Layout(states, tokens=60, parallel=1, share=0.6, **numbers).keys()


def trained(model: Path, states: str, more: dict) -> dict:
    """What a worker has computed and held on the device, after STEPS steps on one mini-batch."""
    words = ["method=f_grpo", "optim.lr=1e-3"]
    verls = configured(experiment("device=cuda", *words), model, **keys(states), **more)
    network = random_model(model)
    batch = mini_batch(network)
    gc.collect()
    before = torch.cuda.memory_allocated()
    worker = training_worker(verls)
    worker.set_loss_fn(loss_of(verls))
    seen = {"losses": [], "norms": []}
    for _ in range(STEPS):
        torch.cuda.reset_peak_memory_stats()
        metrics = tu.get(worker.train_batch(with_advantages(verls, batch)), "metrics")
        seen["losses"].append(metrics["loss"])
        seen["norms"].append(metrics["grad_norm"])
    gc.collect()
    parameters = list(worker.engine.module.parameters())
    return seen | {
        "weights": torch.cat([p.to_local().detach().cpu().flatten() for p in parameters]),
        "dtype": parameters[0].dtype,
        "resting": torch.cuda.memory_allocated() - before,
        "peak": torch.cuda.max_memory_allocated() - before,
    }


def main(folder: Path) -> None:
    # a pretended GPU has no NCCL, and with one process nothing is to be sent
    backend = "cpu:gloo,cuda:fake" if PRETENDED else "cpu:gloo,cuda:nccl"
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    # cuBLAS takes a workspace for each thread: the forward's and the backward's
    first = torch.ones(8, 8, device="cuda", requires_grad=True)
    (first @ first).sum().backward()
    found = {states: trained(folder / "model", states, {}) for states in STATES}
    found["float32"] = trained(folder / "model", "gpu", FLOAT32)
    torch.save(found, folder / "found.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
