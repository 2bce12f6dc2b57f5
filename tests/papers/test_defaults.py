"""Where the cluster rows differ from a framework's defaults, a line of choices.csv or of
hyperparameters.csv says so.

defaults.csv has the default of every key that bears on a result: of verl, which trains the rows,
and of the TRL that CW-GRPO's author trained with (src/open_r1/trl of his repository). `row` is the
experiment's own key where verl's is not set by us or the framework is TRL. A paper's column names
the line for each key in which some row of it differs, as "choices: WHAT" or "SCOPE: PARAMETER";
tests/cluster/test_verl_config.py compares verl's defaults with the installed verl's."""

import csv
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest
from compositions import cluster, experiment
from tiny import ROOT

from common.backends.verl import config, tuning
from common.experiment import Experiment

pytestmark = pytest.mark.sweep

with open(Path(__file__).with_name("defaults.csv"), newline="", encoding="utf-8") as file:
    DEFAULTS = list(csv.DictReader(file))
PAPERS = list(DEFAULTS[0])[4:]
PLACE = config.Place("cuda", 1, 1, None, Path("work"), "model")
SAME = {"k1": "kl", "k3": "low_var_kl", "None": "", "0": "-1"}  # ours: verl's name of it
# what verl reads only if another key has this value
ONLY = {
    "actor_rollout_ref.actor.kl_loss_coef": ("actor_rollout_ref.actor.use_kl_loss", True),
    "actor_rollout_ref.actor.kl_loss_type": ("actor_rollout_ref.actor.use_kl_loss", True),
    "algorithm.kl_ctrl.kl_coef": ("algorithm.use_kl_in_reward", True),
    "algorithm.kl_penalty": ("algorithm.use_kl_in_reward", True),
    "actor_rollout_ref.actor.optim.min_lr_ratio": (
        "actor_rollout_ref.actor.optim.lr_scheduler_type",
        "cosine",
    ),
}
# names, files, processes, seeds, what one pass holds, and the names of our own functions
NO_RESULT = ("transfer_queue.", "ray_kwargs.", "reward.", "actor_rollout_ref.model.")
NO_RESULT += tuple(f"actor_rollout_ref.rollout.{key}" for key in ("agent.", "engine_kwargs."))
NO_RESULT += tuple(f"actor_rollout_ref.actor.{key}" for key in ("policy_loss.", "fsdp_config."))
PLUMBING = {
    *("data.train_files", "data.val_files", "data.seed", "data.dataloader_num_workers"),
    *("algorithm.adv_estimator", "algorithm.filter_groups.metric"),
    *(
        f"actor_rollout_ref.actor.{key}"
        for key in ("strategy", "use_dynamic_bsz", "data_loader_seed")
    ),
    *(
        f"actor_rollout_ref.{role}_micro_batch_size_per_gpu"
        for role in ("actor.ppo", "ref.log_prob", "rollout.log_prob")
    ),
    *(
        f"actor_rollout_ref.rollout.{key}"
        for key in ("name", "seed", "max_model_len", "calculate_log_probs", "val_kwargs.do_sample")
    ),
    *(
        f"trainer.{key}"
        for key in (
            *("validation_data_dir", "default_local_dir", "project_name", "experiment_name"),
            *("total_epochs", "save_freq", "max_actor_ckpt_to_keep", "resume_mode", "logger"),
            *("nnodes", "n_gpus_per_node", "device"),
        )
    ),
}


@cache
def rows(paper: str) -> list[tuple[Experiment, dict]]:
    """Each trained cluster row with what we set in verl."""
    trained = [x for x in (experiment(name, paper) for name in cluster(paper)) if x.optim.steps]
    return [(x, config.settings(x, PLACE, 1000, 131_072, {})) for x in trained]


def spelled(value: object) -> str:
    text = str(list(value) if isinstance(value, tuple | list) else value)
    return SAME.get(text, text)


def differs(line: dict, x: Experiment, settings: dict) -> bool:
    key, wanted = line["key"], ONLY.get(line["key"])
    if wanted and settings[wanted[0]] != wanted[1]:
        return False
    value = settings.get(key)
    if line["row"]:
        value = tuning.flat(asdict(x)).get(line["row"])
    elif key not in settings:
        return False  # verl's default holds
    if line["default"] in (str(value), spelled(value)):
        return False
    try:
        return float(value) != float(line["default"])
    except (TypeError, ValueError):
        return True


@pytest.mark.parametrize("paper", PAPERS)
def test_each_difference_from_a_default_has_its_line(paper):
    home = ROOT / "papers" / paper
    with open(home / "choices.csv", newline="", encoding="utf-8") as file:
        known = {f"choices: {line['what']}" for line in csv.DictReader(file)}
    with open(home / "published" / "hyperparameters.csv", newline="", encoding="utf-8") as file:
        known |= {f"{line['scope']}: {line['parameter']}" for line in csv.DictReader(file)}
    for line in DEFAULTS:
        if line["framework"].startswith("TRL") and paper != "cov_grpo":
            assert line[paper] == "", line["key"]
            continue
        apart = [x.name for x, settings in rows(paper) if differs(line, x, settings)]
        assert bool(apart) == bool(line[paper]), (line["framework"], line["key"], apart[:3])
        assert set(filter(None, line[paper].split("; "))) <= known, line["key"]


def test_no_key_that_we_set_is_left_out():
    listed = {line["key"] for line in DEFAULTS}
    known = listed | PLUMBING | set(config.NEW) | set(tuning.TUNABLE)
    for paper in PAPERS:
        for _, settings in rows(paper):
            left = [key for key in settings.keys() - known if not key.startswith(NO_RESULT)]
            assert left == []
    assert not listed & (PLUMBING | set(config.NEW) | set(tuning.TUNABLE))
