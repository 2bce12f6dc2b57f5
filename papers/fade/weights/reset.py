"""Reset the last layers of a trained checkpoint to their values before training (FADE Sec. 15.2,
"causal verification").

python -m papers.fade.weights.reset before=FOLDER after=FOLDER out=FOLDER [layers=4]

The paper resets periodically during training and finds that failure-biased methods lose what they
gained. This command resets once, at the end, and the result is evaluated like any checkpoint:

python -m papers.fade experiment=base name=reset model.name=NAME model.path=OUT model.pretrain=null
"""

import json
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from common.cli import main
from common.errors import UserError, require
from papers.fade.weights.checkpoints import Checkpoint, check_same, locate, tensors
from papers.fade.weights.tables import LAYER


@dataclass(frozen=True)
class Reset:
    before: str
    after: str
    out: str
    layers: int

    def __post_init__(self):
        require(self.layers >= 1, "layers", self.layers, "must be at least 1")


def run(config: Reset) -> Path:
    """Write `out`, a copy of `after` whose last `layers` layers have the tensors of `before`.

    Output head, final norm and embeddings stay. Memory holds one tensor at a time. Raises UserError
    if `out` exists, if tensors or shapes of the models differ, or if `layers` is not less than the
    model's number of layers.
    """
    before, after, out = locate(config.before), locate(config.after), Path(config.out)
    require(not out.exists(), "out", config.out, "is there already; name a new folder")
    old, new = tensors(before), tensors(after)
    check_same(Checkpoint(before, "before", ""), Checkpoint(after, "after", ""), old, new)
    layer = {name: int(found.group(1)) for name in new if (found := LAYER.search(name))}
    depth = 1 + max(layer.values(), default=-1)
    require(
        config.layers < depth, "layers", config.layers, f"the model has {depth}; leave some of them"
    )
    temporary = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)  # left by an earlier copy that was stopped
    shutil.copytree(after, temporary)
    for name, number in sorted(layer.items()):
        if number >= depth - config.layers:
            put(temporary / new[name][0].name, name, old[name][0])
    temporary.rename(out)
    return out


def put(file: Path, name: str, source: Path) -> None:
    """Overwrite one tensor of a safetensors file with the one in `source`, in the file's own type.

    The format has eight bytes with the header's length, the header as JSON, then the data at the
    offsets that the header gives (github.com/huggingface/safetensors, Format)."""
    import torch
    from safetensors import safe_open

    with safe_open(file, framework="pt") as held:
        dtype = held.get_slice(name)[:1].dtype
    with safe_open(source, framework="pt") as held:
        data = held.get_tensor(name).to(dtype).contiguous().view(torch.uint8).numpy().tobytes()
    with file.open("r+b") as opened:
        (length,) = struct.unpack("<Q", opened.read(8))
        begin, end = json.loads(opened.read(length))[name]["data_offsets"]
        if end - begin != len(data):
            raise UserError(f"{file}: tensor {name} has {end - begin} bytes, not {len(data)}")
        opened.seek(8 + length + begin)
        opened.write(data)


if __name__ == "__main__":
    main(lambda config: print(run(config)), Reset, "fade", "reset")
