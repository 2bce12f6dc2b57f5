"""Functions that moved keep the run ids of what names them, and are found under either path."""

import importlib

import pytest

from common.config.moved import MOVED, first_paths, today
from common.experiment import load

TACO = ["experiment=grpo", "data=codecontests_taco", "model=huggingface", "model.path=x"]


@pytest.mark.parametrize(
    ("paper", "words", "run_id"),  # as they were named before anything moved
    [
        ("cov_grpo", ["experiment=cw_grpo_group"], "cw_grpo_group-s1-4ae54551"),
        ("fade", TACO, "grpo-s1-22cdb6c3"),
    ],
)
def test_a_run_keeps_its_id(paper, words, run_id):
    assert load([*words, "seed=1"], paper).run_id == run_id


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_either_path_is_the_same_function(old, new):
    module = importlib.import_module(new.rstrip("."))
    name = next(n for n, f in vars(module).items() if getattr(f, "__module__", "") + "." == new)
    assert today(old + name) == today(new + name) == new + name
    assert first_paths([{"_target_": new + name}]) == [{"_target_": old + name}]
