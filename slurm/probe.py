"""What torch finds on this node, as one line of JSON: `python -m slurm.probe`.

It runs in a process of its own, because CUDA keeps memory for every process that asks it anything.
That memory is freed when the process ends. The GPUs are queried through torch itself, because torch
sees what the job will see, whatever cgroups, containers or CUDA_VISIBLE_DEVICES leave of the node.
"""

import json


def found() -> dict:
    """Return the findings. `torch` and `cuda`: the version of torch and of the CUDA it was built
    for. `memory`: (free, all) in GiB of each GPU. `fault`: why the GPUs cannot be used. `flash`:
    why flash-attn cannot be imported. `kernel`: why Triton compiles nothing. The last three are ""
    if there is no problem."""
    import torch

    memory, fault = [], ""
    try:
        torch.cuda.init()
        for gpu in range(torch.cuda.device_count()):
            memory.append([count / 2**30 for count in torch.cuda.mem_get_info(gpu)])
    except Exception as error:  # torch and CUDA raise many kinds
        fault = _line(error)
    try:
        from flash_attn import flash_attn_func  # noqa: F401  loads what was compiled

        flash = ""
    except Exception as error:
        flash = _line(error)
    try:
        from slurm.kernel import increment

        kernel = "" if increment(torch.zeros(8, device="cuda")).sum() == 8 else "wrong sum"
    except Exception as error:
        kernel = _line(error)
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
    return {**versions, "memory": memory, "fault": fault, "flash": flash, "kernel": kernel}


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


if __name__ == "__main__":
    print(json.dumps(found()))
