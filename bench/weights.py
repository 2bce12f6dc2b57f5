"""The SVD of the weight change of a 7-billion-parameter model's output head: random, 152,064 x
3,584, float32.

    rlvr bench names=weights        the randomised SVD, beside torch.svd_lowrank on the whole matrix
    python -m bench.weights full    all singular values, from the Gram matrix; without a peer

Both sides read the same two safetensors files, each in a process of its own whose peak memory and
processor time are measured. The files, one of 2.2 GB and one that is sparse, are removed at the
end.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench import row
from papers.fade.weights.checkpoints import SINGLE, change, tensors

ROWS, COLUMNS, NAME = 152_064, 3_584, "lm_head.weight"
BLOCK = 64 * 2**18 // COLUMNS  # rows in memory at once, as in configs/weights.yaml
SKETCH = dict(rank=8, oversample=12, iterations=8, seed=0)


def run(ways: tuple[str, ...] = ("randomised", "peer")) -> list[dict]:
    """Return processor seconds and peak memory. Nothing is repeated, because a run takes
    minutes."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        measured = {}
        for way in ways:
            command = [sys.executable, "-m", "bench.weights", "child", way, folder]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            measured[way] = json.loads(done.stdout)
            print(way, measured[way], file=sys.stderr, flush=True)
    ours, peer = measured[ways[0]], measured.get("peer", {"seconds": None, "gb": None})
    note = f"random {ROWS:,} x {COLUMNS:,}, one thread"
    head = f"{ways[0]} SVD of a 7B output head's change"
    return [
        row(f"{head}, processor time", ours["seconds"], peer["seconds"], "s", note),
        row(f"{head}, peak memory", ours["gb"], peer["gb"], "GB", note),
    ]


def make(folder: Path) -> None:
    """Write before/ and after/ with one tensor each: zeros, and normal numbers plus 10 along one
    direction, so that s_1 stands out as in Table 9."""
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(COLUMNS, dtype=np.float32) / COLUMNS**0.5
    entry = {"dtype": "F32", "shape": [ROWS, COLUMNS], "data_offsets": [0, 4 * ROWS * COLUMNS]}
    header = json.dumps({NAME: entry}).encode()
    for name in ("before", "after"):
        (folder / name).mkdir()
        with open(folder / name / SINGLE, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            if name == "before":
                file.truncate(8 + len(header) + 4 * ROWS * COLUMNS)
                continue
            for start in range(0, ROWS, BLOCK):
                rows = min(BLOCK, ROWS - start)
                block = rng.standard_normal((rows, COLUMNS), dtype=np.float32)
                block += 10 * rng.standard_normal((rows, 1), dtype=np.float32) * direction
                file.write(block.tobytes())


def child(way: str, folder: Path) -> dict:
    old, new = tensors(folder / "before"), tensors(folder / "after")
    start, clock = time.process_time(), time.perf_counter()
    if way == "peer":
        s, error = peer(old, new), None
    else:
        from common.metrics import weights

        blocks = lambda: change(old, new, NAME, BLOCK)  # noqa: E731
        svd = weights.full(blocks) if way == "full" else weights.randomised(blocks, **SKETCH)
        s, error = svd.s, svd.error
    return {
        "seconds": time.process_time() - start,
        "wall": time.perf_counter() - clock,
        "gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "s": [float(value) for value in s[:3]],
        "error": error,
    }


def peer(old, new):
    """Return singular values as one would compute them first: both matrices whole, their
    difference, and torch's randomised SVD with as many directions and iterations."""
    import torch
    from safetensors.torch import load_file

    torch.set_num_threads(1)
    delta = load_file(new[NAME][0])[NAME] - load_file(old[NAME][0])[NAME]
    return torch.svd_lowrank(delta, q=20, niter=8)[1].tolist()


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(child(sys.argv[2], Path(sys.argv[3]))))
    else:
        for line in run(tuple(sys.argv[1:]) or ("randomised", "peer")):
            print(line)
