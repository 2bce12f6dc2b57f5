"""verl's SFT trainer under SLURM: what it takes, its batch script, one node's part, the export.

verl saves every `save_freq` steps and resumes from the last save by itself. Before a job's time is
over the script requeues it, so that it goes on with what was saved.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from common.config.files import ROOT, read
from common.errors import UserError, require
from common.sweeps.assumptions import assumptions
from common.sweeps.cost import Range
from common.sweeps.profiles import Profile

CONFIG = ROOT / "papers" / "fade" / "configs" / "sft" / "qwen25_7b.yaml"
MODEL = Path("results/fade/sft/qwen25_7b")  # configs/model/qwen25_7b_reasoning_sft.yaml
END = "<|im_end|>"  # of a turn in Qwen's chat template
CHARACTERS = (4.0, 3.0)  # of a token, most and least: thoughts about programs and mathematics; ours


def files() -> list[Path]:
    return [Path(folder) for folder in read(CONFIG)["data"]["train_files"]]


def refuse_unprepared() -> None:
    """UserError where a set has no training file."""
    for folder in files():
        found = any(folder.glob("part-*.parquet"))
        require(found, "data", folder, "no files; first: python -m papers.fade.sft prepare")


def hours(profile: Profile) -> tuple[int, Range]:
    """(tokens at most, hours on the profile's GPUs): 6 floating point operations a weight and
    token, 8 with activations computed again, at the efficiencies of configs/cost.yaml."""
    known, config = assumptions(), read(CONFIG)
    counted = [path for folder in files() for path in Path(f"{folder}.counts").glob("[0-9]*.json")]
    characters = sum(json.loads(path.read_text()).get("characters", 0) for path in counted)
    size, card = known.models[config["model"]["path"]], known.accelerators[profile.accelerator]
    again = 8 if config["model"]["enable_gradient_checkpointing"] else 6
    rate = 3600 * profile.gpus * card.tflops * 1e12
    low, high = sorted(card.compute_efficiency, reverse=True)
    tokens = [config["trainer"]["total_epochs"] * characters / each for each in CHARACTERS]
    work = [again * size.parameters * each for each in tokens]
    return int(tokens[1]), Range(work[0] / rate / low, work[1] / rate / high)


def script(profile: Profile, root: Path) -> str:
    """The batch script: one task a node, which starts one process a GPU."""
    typed = f"{profile.gpu_type}:" if profile.gpu_type else ""
    asked: dict = {
        "job-name": "fade-sft",
        "output": root / "log" / "%j.txt",
        "open-mode": "append",
        "partition": profile.partition,
        "account": profile.account,
        "qos": profile.qos,
        "constraint": profile.constraint,
        "nodes": profile.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": profile.cpus_per_node,
        "mem": f"{profile.memory_gb}GB",
        "time": profile.time_min,
        "signal": f"B:USR1@{profile.signal_lead_s}",
        "gpus-per-node": f"{typed}{profile.gpus_per_node}" if profile.gpus_per_node else None,
        **profile.sbatch,
    }
    options = [f"#SBATCH --{key}={value}" for key, value in asked.items() if value is not None]
    python = profile.python or shlex.quote(sys.executable)
    words = ["srun", f"--cpus-per-task={profile.cpus_per_node}", "--kill-on-bad-exit=1"]
    words += [*profile.srun, *([profile.container] if profile.container else []), python]
    words += ["-m papers.fade.sft node", f"gpus={max(1, profile.gpus_per_node)}"]
    return "\n".join(
        [
            "#!/bin/bash",
            *options,
            "#SBATCH --requeue",
            f"cd {shlex.quote(str(ROOT))}",
            *profile.setup,
            """trap 'scontrol requeue "$SLURM_JOB_ID"' USR1   # time is nearly over""",
            'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            " ".join(words) + " &",
            "work=$!",
            'wait "$work"; code=$?',
            'while kill -0 "$work" 2>/dev/null; do wait "$work"; code=$?; done   # after a signal',
            'exit "$code"',
            "",
        ]
    )


def submit(profile: Profile, dry_run: bool, say: Callable = print) -> None:
    """Send the job, or print what would be sent and how long it takes. Raises UserError where the
    training files or SLURM are missing, or the model is there already."""
    require(profile.executor == "slurm", "profile", profile.name, "needs executor: slurm")
    require(not MODEL.exists(), "model", MODEL, "is there already; delete it to train it again")
    refuse_unprepared()
    text, (tokens, taken) = script(profile, MODEL.parent.resolve()), hours(profile)
    say(f"{tokens:.2g} tokens at most, {taken} hours on {profile.gpus} {profile.accelerator}")
    if dry_run:
        say(f"{text}# nothing was submitted")
        return
    (MODEL.parent / "log").mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(["sbatch"], input=text, capture_output=True, text=True, timeout=120)
    except FileNotFoundError as error:
        raise UserError("sbatch is not here; submit where SLURM is") from error
    require(done.returncode == 0, "sbatch", done.stderr.strip(), "SLURM refuses the job")
    say(f"{done.stdout.strip()}; log: {MODEL.parent / 'log'}")


def node(gpus: int, overrides: list[str] | None = None, model: Path = MODEL) -> None:
    """One node's part of the training, then, on the first, the export to `model`. Raises UserError
    where verl ends with an error."""
    config = read(CONFIG)
    given = dict(word.split("=", 1) for word in overrides or [])
    rank, nodes = (int(os.environ.get(f"SLURM_{key}", was)) for key, was in NODE.items())
    command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={nodes}"]
    command += [f"--node_rank={rank}", f"--nproc_per_node={gpus}", "--master_port=29533"]
    command += [f"--master_addr={os.environ.get('MASTER_ADDR', '127.0.0.1')}"]
    command += ["-m", "verl.trainer.sft_trainer", f"--config-path={CONFIG.parent}"]
    command += [f"--config-name={CONFIG.stem}", f"trainer.nnodes={nodes}"]
    command += [f"trainer.n_gpus_per_node={gpus}", *(overrides or [])]
    code = subprocess.run(command, env=os.environ | {"PYTHONPATH": _path()}).returncode
    require(code == 0, "verl.trainer.sft_trainer", f"exit code {code}", "see its words above")
    if rank == 0:
        folder = given.get("trainer.default_local_dir", config["trainer"]["default_local_dir"])
        export_last(Path(folder), model, given.get("trainer.device", "cuda"))


NODE = {"NODEID": 0, "NNODES": 1}


def export_last(checkpoints: Path, model: Path, device: str) -> None:
    """The last checkpoint as a Hugging Face model, whole or not at all. Its turns end in END, as it
    was trained; the base model's own end token would never come."""
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


def _path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
