import re
from dataclasses import fields

import pytest
import yaml
from pasted import ROWS, block, line, row

from common.experiment import Experiment
from rlvr_papers import method

pytest.importorskip("trl")
from trl import GRPOConfig

from rlvr_papers.trl import keys

pytestmark = pytest.mark.trains
TRL = "TRL's GRPOConfig (1.16.0)"
PROCESSES = {"eight": 8, "three": 3}
# Where a block may differ from its row, and why.
ALLOWED = {
    ("f_grpo", "num_train_epochs"): "10 epochs are the row's 1,530 rollouts",
    ("f_grpo", "max_steps"): "as above",
    ("over_sharpening", "epsilon_high"): "None is epsilon",
    ("cov_grpo", "epsilon_high"): "None is epsilon",
    ("cov_grpo", "max_steps"): "TRL's cosine ends with the run, the row's 100 steps later",
}


def config(**given) -> GRPOConfig:
    return GRPOConfig(**given, use_cpu=True, bf16=False, report_to=[])


def expected(x: Experiment) -> dict:
    """The row in GRPOConfig's keys. TRL counts updates where the row counts rollouts."""
    updates, optim = x.optim.mini_batches, x.optim
    found = keys(x.method) | {
        "num_generations": x.sampling.group_size,
        "generation_batch_size": x.sampling.prompts * x.sampling.group_size,
        "max_completion_length": x.sampling.max_tokens,
        "temperature": x.sampling.temperature,
        "learning_rate": optim.lr,
        "weight_decay": optim.weight_decay,
        "max_grad_norm": optim.grad_clip,
        "adam_beta1": optim.betas[0],
        "adam_beta2": optim.betas[1],
        "lr_scheduler_type": "constant_with_warmup" if optim.warmup_steps else "constant",
        "warmup_steps": optim.warmup_steps * updates,
        "max_steps": optim.steps * updates,
        "vllm_importance_sampling_correction": False,
    }
    if optim.decay_over:
        found["lr_scheduler_type"] = "cosine_with_min_lr"
        found["lr_scheduler_kwargs"] = {"min_lr_rate": optim.decay_to}
    if x.method.name == "mean_only":
        found["scale_rewards"] = "none"
    return found


@pytest.mark.parametrize("paper", ROWS)
def test_a_block_trains_what_the_row_says(paper, monkeypatch):
    text, x = block(paper, TRL), row(paper)
    count = PROCESSES[re.search(r", on (\w+) processes", text)[1]]
    monkeypatch.setattr(GRPOConfig, "world_size", count)
    given = yaml.safe_load(text)
    mine = config(**given)
    parts = ("per_device_train_batch_size", "gradient_accumulation_steps")
    theirs = config(**expected(x) | {key: given[key] for key in parts if key in given})
    apart = {
        (paper, field.name)
        for field in fields(GRPOConfig)
        if getattr(mine, field.name) != getattr(theirs, field.name)
    }
    assert apart == {key for key in ALLOWED if key[0] == paper}
    updates = mine.steps_per_generation / mine.gradient_accumulation_steps
    assert updates == x.optim.mini_batches
    sizes = [int(n.replace(",", "")) for n in re.findall(r" ([\d,]+)(?= x| =| resp)", text)]
    *sides, responses = sizes
    product = 1
    for side in sides:
        product *= side
    assert product == responses == x.sampling.prompts * x.sampling.group_size // updates

    # the line that adds the method leaves the block as it is
    named = re.search(r'method\("(\w+)"', line(paper, "MethodTrainer(..., method="))[1]
    plain = keys(method("grpo"))
    own = {key: value for key, value in keys(method(named)).items() if plain.get(key) != value}
    assert own.items() <= vars(mine).items()
