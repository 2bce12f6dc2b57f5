"""A sum over every process of a job: `python -m torch.distributed.run ... -m slurm.allreduce nccl`.

The bus bandwidth is nccl-tests': 2 (n - 1) / n times the bytes a second.
"""

import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

LIMIT_S = 90  # seconds for all processes to connect, and for one call
MIB, CALLS = 64, 5


def main(kind: str) -> None:
    device = torch.device("cpu")
    if kind == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group(kind, timeout=timedelta(seconds=LIMIT_S))
    rank, count = dist.get_rank(), dist.get_world_size()
    values = torch.ones(MIB * 2**18, device=device)  # float32
    dist.all_reduce(values)  # the first call connects the processes
    if not bool((values == count).all()):
        raise RuntimeError(f"the sum of {count} ones is {values.min():g} to {values.max():g}")
    values.fill_(1.0)
    began = time.monotonic()
    for _ in range(CALLS):
        dist.all_reduce(values)
    values.sum().item()  # waits for the GPU
    seconds = (time.monotonic() - began) / CALLS
    dist.destroy_process_group()
    if rank == 0:
        speed = 2 * (count - 1) / count * values.nbytes / seconds / 1e9
        print(json.dumps({"rank": rank, "count": count, "gb_per_s": speed}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
