"""What an experiment would do, said before it runs."""

import re
from dataclasses import replace

import pytest
from refuses import refuses
from tiny import TINY

from common.backends import explain, module_of, printed
from common.errors import UserError
from common.experiment import load

ROWS = {
    "f_grpo": "qwen15b_math_f_grpo",
    "two_stage": "qwen7b_math_grpo_n",
    "over_sharpening": "qwen3_8b_iac",
    "cov_grpo": "qwen7b_cw_grpo",
    "fade": "qwen7b_fade_h1",
}


@pytest.fixture
def offline(monkeypatch):
    """Neither a set nor a model can be fetched."""

    def refuse(*_, **__):
        raise UserError("no network")

    monkeypatch.setattr(explain, "prompts", refuse)
    monkeypatch.setattr(explain, "size_of", lambda x: None)
    monkeypatch.setattr("common.backends.verl.explain.size_of", lambda x: None)


@pytest.mark.parametrize("paper", ROWS)
def test_a_cluster_row_of_each_paper_is_explained_without_its_data(paper, offline):
    x = load([f"experiment=cluster/{ROWS[paper]}"], paper)
    said = module_of(x.backend).explain(x, nodes=2, gpus=8, gpu_gb=80)
    responses = x.sampling.prompts * x.sampling.group_size
    assert said.startswith(f"{x.run_id}: {x.label}, model {x.model.name}, backend=verl, 2 x 8 GPUs")
    assert f"{responses:,} = {x.sampling.prompts} x {x.sampling.group_size}" in said
    assert "the data cannot be read here, counts are the configuration's: no network" in said
    assert f"model.path={x.model.path} cannot be read here" in said
    compared = re.search(r"hyperparameters.csv, (\d+) were compared", said)
    assert int(compared[1]) >= 4


def test_explain_refuses_what_the_run_would(offline):
    x = load(["experiment=cluster/qwen7b_f_grpo"], "f_grpo")
    other = replace(x, method=load(["method=kl_cov"], "f_grpo").method)
    with refuses("optim.mini_batches"):  # KL-Cov
        module_of("verl").explain(other, nodes=1, gpus=8, gpu_gb=80)
    with refuses("sampling.prompts", 256):
        module_of("verl").explain(x, nodes=1, gpus=7, gpu_gb=80)


def test_a_local_run_is_explained():
    x = load([*TINY, "sampling.prompts=8", "optim.lr=2e-6"], "f_grpo")
    said = module_of("local").explain(x, nodes=2, gpus=8, gpu_gb=80)
    assert "backend=local, one process on the CPU; 2 x 8 GPUs change nothing" in said
    assert "128 = 8 x 16" in said
    assert "96: 12 problems x 8" not in said  # the curve counts too
    assert f"{12 * (8 + 4):,}: 12 problems x 8, 1 points x 4" in said
    assert "1.20 of 40 prompts" in said
    assert "training: learning rate: 2e-06, printed 1e-6 (Table 5; Sec 5.2)" in said


def test_what_differs_from_the_paper_is_named():
    flags = ["sampling.prompts=256", "sampling.group_size=8", "optim.mini_batches=4"]
    x = load([*flags, "optim.lr=2e-6", "method=dapo"], "f_grpo")
    said = "\n".join(printed.compared(x, 6400))
    assert "training: learning rate: 2e-06, printed 1e-6" in said
    assert "training: global batch size" not in said  # as printed
    assert "training: mini-batch size" not in said
    assert "DAPO: clip epsilon high" not in said
    assert "training: epochs" in said
    assert "training: epochs" not in "\n".join(printed.compared(x, None))
    wider = replace(x, method=replace(x.method, loss=x.method.loss | {"eps_high": 0.5}))
    said = "\n".join(printed.compared(wider, 6400))
    assert "DAPO: clip epsilon high: 0.5, printed 0.28" in said
    assert "GRPO: clip epsilon high" not in said


def test_a_paper_without_a_table_is_not_said_to_agree():
    x = replace(load(TINY, "f_grpo"), paper="none")
    assert printed.compared(x, None) == [
        "No setting was compared with the paper: papers/none/published/hyperparameters.csv is "
        "missing"
    ]
