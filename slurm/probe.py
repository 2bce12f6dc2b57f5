"""What torch finds on this node, as one line of JSON: `python -m slurm.probe`.

It is a separate process, because CUDA keeps memory for every process that asks it anything.
"""

import json


def found() -> dict:
    """Return the versions of torch and of its CUDA, `memory`, (free, all) GiB of each GPU, and why
    the GPUs cannot be used (`fault`), flash-attn not imported (`flash`), nothing compiled by Triton
    (`kernel`); "" if they can."""
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
