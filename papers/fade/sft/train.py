"""verl's SFT trainer as a job of slurm/: its cost estimate, one node's part, and the export. verl
saves a checkpoint every `save_freq` steps and resumes from the last by itself."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from common.backends.verl.layout import STATE_BYTES, pass_bytes
from common.config.files import ROOT, read
from common.errors import require
from common.sweeps.assumptions import accelerator, assumptions
from common.sweeps.cost import Estimate, priced
from common.sweeps.profiles import Profile

CONFIGS = ROOT / "papers" / "fade" / "configs"
CONFIG = CONFIGS / "sft" / "qwen25_7b.yaml"
MODEL = "results/fade/sft/qwen25_7b"  # configs/model/qwen25_7b_reasoning_sft.yaml
PORT = 29533
END = "<|im_end|>"  # ends a turn in Qwen's chat template


def takes(profile: Profile) -> Estimate:
    """Estimate the cost of the fine-tuning on the GPUs of `profile`.

    An epoch's tokens are the rows that configs/sft_data.yaml draws, at the mean response lengths of
    models that learned from R1; R1's own are taken to be the same. Each weight and token takes 6
    floating point operations, or 8 with gradient checkpointing, at the efficiencies of
    configs/cost.yaml. Raises UserError if a GPU has too little memory.
    """
    a, config = assumptions(), read(CONFIG)
    size, card = a.models[config["model"]["path"]], accelerator(profile, a)
    again = 8 if config["model"]["enable_gradient_checkpointing"] else 6
    sets = read(CONFIGS / "sft_data.yaml")["sets"].values()
    chains = config["trainer"]["total_epochs"] * sum(one["rows"] * one["share"] for one in sets)
    gpus, means = max(1, profile.gpus), a.response_tokens[MODEL]["default"]
    seconds = [
        again * size.parameters * chains * mean / (gpus * card.tflops * 1e12 * share)
        for mean, share in zip(means, sorted(card.compute_efficiency, reverse=True), strict=True)
    ]
    packed = config["data"]["max_token_len_per_gpu"]
    memory = (STATE_BYTES * size.parameters / gpus + pass_bytes(size, packed)) / 1e9
    remedy = f"the fine-tuning takes {memory:.0f} GB of each of {gpus} GPUs; choose a profile with "
    remedy += "more"
    fits = memory <= a.usable_memory * card.memory_gb
    require(fits, "accelerator", profile.accelerator, remedy)
    kept = config["trainer"]["max_ckpt_to_keep"] + 1  # a new one is written before one is deleted
    stored = (kept * 12 + 2) * size.parameters
    return priced(seconds, gpus, stored, memory, profile, a)


def node(
    *,
    gpus: int,
    nodes: int,
    rank: int,
    address: str,
    folder: Path,
    model: Path,
    overrides: Sequence[str] = (),
) -> None:
    """Run one node's part of the training, with checkpoints in `folder`; then the first node
    exports the last checkpoint to `model`. Raises UserError if verl ends with an error."""
    given = dict(word.split("=", 1) for word in overrides)
    command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}"]
    command += [f"--node_rank={rank}", f"--nproc_per_node={max(1, gpus)}"]
    command += [f"--master_addr={address}", f"--master_port={PORT}"]
    command += ["-m", "verl.trainer.sft_trainer", f"--config-path={CONFIG.parent}"]
    command += [f"--config-name={CONFIG.stem}", f"trainer.nnodes={nodes}"]
    command += [f"trainer.n_gpus_per_node={max(1, gpus)}", f"trainer.default_local_dir={folder}"]
    code = _run([*command, *overrides])
    require(code == 0, "verl.trainer.sft_trainer", f"exit code {code}", "see its output above")
    if rank == 0:
        export_last(folder, model, given.get("trainer.device", "cuda"))


def _run(command: list[str]) -> int:
    """Run the command and return its exit code. All its processes are killed at the end."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"PYTHONPATH": path}
    process = subprocess.Popen(command, env=env, start_new_session=True)
    try:
        return process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def export_last(checkpoints: Path, model: Path, device: str) -> None:
    """Export the last checkpoint as a Hugging Face model, completely or not at all. Its
    end-of-sequence token is END, as in the training data; the model would never generate the base
    model's end token."""
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    from common.backends.verl.export import export

    step = (checkpoints / "latest_checkpointed_iteration.txt").read_text().strip()
    made = model.with_name(f".{model.name}.made")
    made.parent.mkdir(parents=True, exist_ok=True)
    export(checkpoints / f"global_step_{step}", made, device)
    tokenizer, config = AutoTokenizer.from_pretrained(made), AutoConfig.from_pretrained(made)
    end, pad = tokenizer.convert_tokens_to_ids(END), tokenizer.pad_token_id
    tokenizer.eos_token, config.eos_token_id = END, end
    for one in (tokenizer, config, GenerationConfig(eos_token_id=end, pad_token_id=pad)):
        one.save_pretrained(made)
    made.rename(model)
    print(f"step {step}: {model}")
