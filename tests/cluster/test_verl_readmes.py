import re
from copy import deepcopy
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from pasted import ROWS, block, line, row
from tiny import ROOT

from common.backends.verl import config
from common.errors import UserError
from rlvr_papers import method, method_names

CLIP = "actor_rollout_ref.actor.clip_ratio_"
LOSS = "actor_rollout_ref.actor.policy_loss."
PARTS = ("algorithm.method.", f"{LOSS}method.")
# Why a block may have another value than the row: keys by pattern, with * for any text.
ALLOWED = {
    "the user's model, data and reward; the row takes its longest prompt": (
        "*.model.path *served_model_name data.*_files *prompt_length reward.*"
    ),
    "what a machine holds, which changes no result": (
        "*micro_batch_size_per_gpu *max_token_len_per_gpu *.strategy *gpu_memory_utilization "
        "*max_num_seqs *max_num_batched_tokens *max_model_len *nccl_timeout *worker_extension_cls "
        "data.dataloader_num_workers transfer_queue.* ray_kwargs.*"
    ),
    "seeds": "*seed",
    "names, files and evaluation, which is ours in the row": (
        "*project_name *experiment_name *val_kwargs.* *agent.* trainer.default_local_dir "
        "trainer.logger trainer.keep_models trainer.max_actor_ckpt_to_keep trainer.*_freq "
        "trainer.validation_data_dir trainer.v1.sampler.* data.curve_n"
    ),
    "parts of verl that do not run": "distillation.* algorithm.kl_*",
    "the row's functions, and what only our trainer reads": (
        f"{LOSS}_target_ algorithm.reward_correct algorithm.clock algorithm.covariances "
        "algorithm.decay_over"
    ),
    "-1: by lr_warmup_steps_ratio, which is 0": "*optim.lr_warmup_steps=-1",
    "read with a cosine only": "*optim.min_lr_ratio=0.0",
    "read with use_kl_loss only": "f_grpo:*.kl_loss_coef fade:*.kl_loss_coef",
    "the block has its paper's epochs, or only steps": "trainer.total_epochs",
    "10 epochs of 153 steps": "f_grpo:trainer.total_training_steps",
    "verl's cosine ends with the run, the row's does not": "cov_grpo:trainer.total_training_steps",
    "one step a rollout, so no clip acts": f"cov_grpo:{CLIP}c",
    "the row computes log pi at 1, which verl has no key for": (
        "*log_prob_temperature cov_grpo:*logprobs_mode"
    ),
}


@pytest.fixture(scope="module")
def pasted(tmp_path_factory):
    """pasted(paper, *overrides): the block as `--config-path` and `--config-name` compose it."""
    folder = tmp_path_factory.mktemp("pasted")

    @cache
    def make(paper: str, *overrides: str) -> DictConfig:
        (folder / "pasted.yaml").write_text(block(paper, "verl.trainer.main_ppo"))
        GlobalHydra.instance().clear()
        with initialize_config_dir(str(folder), version_base=None):
            return compose("pasted", list(overrides))

    return make


def values(node: DictConfig, above: str = "") -> dict[str, object]:
    """Dotted key -> value; None where verl asks for one."""
    found = {}
    for name in node:
        value = None if OmegaConf.is_missing(node, name) else node[name]
        if isinstance(value, DictConfig):
            found |= values(value, f"{above}{name}.")
        else:
            found[above + name] = value
    return found


def expected(paper: str) -> dict[str, object]:
    """The row as verl's configuration, with verl's own keys for the functions of its method."""
    x = row(paper)
    place = config.Place("cuda", 1, 8, None, Path("work"), "model")
    loss, advantage = x.method.loss, x.method.advantage["_target_"]
    chosen = config.compose(config.settings(x, place, 1024, 131_072, {}))
    found = {key: value for key, value in values(chosen).items() if not key.startswith(PARTS)}
    never = 1.0e9 if loss["_target_"].endswith(".ppo_clip") else None
    own = {
        "algorithm.adv_estimator": "grpo",
        f"{LOSS}loss_mode": "vanilla",
        f"{CLIP}low": loss["eps_low"],
        f"{CLIP}high": loss["eps_high"],
        f"{CLIP}c": loss.get("clip_ratio_c", never),
        "algorithm.norm_adv_by_std_in_grpo": advantage == "common.advantages.group.grpo",
        "actor_rollout_ref.actor.optim.lr": x.optim.lr,
        "actor_rollout_ref.actor.kl_loss_type": "low_var_kl",  # verl's other name of k3
        "actor_rollout_ref.rollout.temperature": x.sampling.temperature,  # before rounding
        "actor_rollout_ref.rollout.response_length": x.sampling.max_tokens,  # without evaluation's
        "data.max_response_length": x.sampling.max_tokens,
    }
    assert x.method.kl_estimator == "k3"
    assert advantage.rpartition(".")[2] in ("grpo", "mean_only")
    return found | own


def test_blocks_train_what_the_rows_say(pasted):
    patterns, used = " ".join(ALLOWED.values()).split(), set()
    for paper in ROWS:
        mine, theirs = values(pasted(paper)), expected(paper)
        for key in sorted(mine.keys() | theirs.keys()):
            if mine.get(key) != theirs.get(key):
                texts = (key, f"{key}={mine.get(key)}", f"{paper}:{key}")
                found = {p for p in patterns if any(fnmatch(text, p) for text in texts)}
                assert found, (paper, key, mine.get(key), theirs.get(key))
                used |= found
    assert used == set(patterns)  # none of the table is stale


@pytest.mark.parametrize("paper", ROWS)
def test_a_block_has_verls_keys_and_verl_takes_it(paper, pasted):
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    found = pasted(paper)
    asked = OmegaConf.create(block(paper, "verl.trainer.main_ppo"))
    del asked["defaults"], asked["hydra"]
    assert OmegaConf.merge(found, asked) == found
    theirs = deepcopy(config.defaults())
    OmegaConf.set_struct(theirs, True)
    OmegaConf.merge(theirs, asked)  # refuses a key that verl does not have
    validate_config(found, need_reference_policy(found), need_critic(found))
    for part in ("actor", "rollout"):
        omega_conf_to_dataclass(found.actor_rollout_ref[part])
    missing = OmegaConf.missing_keys(found)  # those of a reward model are of no use here
    assert {key for key in missing if not key.startswith("reward.")} == set()


@pytest.mark.parametrize("paper", ROWS)
def test_the_line_that_adds_the_method_composes(paper, pasted):
    found = pasted(paper, *line(paper, "algorithm.adv_estimator=").split())
    assert found.algorithm.adv_estimator in method_names()


def test_the_table_of_your_trainer_says_what_verl_takes():
    from common.backends.verl import stock

    page = (ROOT / "docs" / "your-trainer.md").read_text()
    rows = [row.split("|")[1:3] for row in page.splitlines() if row.startswith("| `")]
    table = {name: cell.strip() for names, cell in rows for name in re.findall(r"`(\w+)`", names)}

    x = deepcopy(config.defaults())
    actor = x.actor_rollout_ref.actor

    def takes(name: str, *, loss: bool, once: bool, in_reward: bool) -> bool:
        x.algorithm.use_kl_in_reward = in_reward
        actor.policy_loss.loss_mode = name if loss else "vanilla"
        actor.ppo_mini_batch_size = x.data.train_batch_size // (1 if once else 2)
        try:
            stock.check(method(name, max_tokens=8, steps=3), x)
        except UserError:
            return False
        return True

    assert sorted(table) == sorted(method_names())
    for name, cell in table.items():
        in_reward = "use_kl_in_reward" in cell
        can = not cell.startswith("no")
        assert takes(name, loss=True, once=True, in_reward=in_reward) == can, name
        assert not takes(name, loss=True, once=True, in_reward=not in_reward), name
        own, one = "own loss" in cell, "one update" in cell
        assert takes(name, loss=False, once=True, in_reward=in_reward) == (can and not own), name
        assert takes(name, loss=True, once=False, in_reward=in_reward) == (can and not one), name
