"""Every experiment as verl's configuration, its prompts as verl's files, and what is refused before
anything starts."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from refuses import refuses

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

from compositions import EXPERIMENTS
from omegaconf import OmegaConf
from runs import PRETRAIN
from tiny import ROOT
from transformers import AutoModelForCausalLM
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from common.backends.prompts import prompts
from common.backends.verl import (
    backend,
    config,
    data,
    dlc,
    layout,
    main,
    process,
    tuning,
)
from common.backends.verl.stand_in import STAND_IN
from common.config.files import STUDY
from common.config.rows import rows
from common.experiment import load
from common.models import store
from common.models.load import load_model
from common.models.pretrain import tokenizer
from common.models.size import Size
from common.types import Prompt

LAYOUT = layout.Layout("cpu", 16_384, 2, 0.6, 1, 1, 1, 1, True)
MODEL_LEN = "actor_rollout_ref.rollout.max_model_len"
TINY = ["device=cpu", "optim.steps=6", "eval.every=3", "eval.n=8", "eval.k=[1]", "eval.curve_n=4"]
OWN = [(paper, name) for paper, name in EXPERIMENTS if paper != STUDY]  # verl runs none of others
NAMES = ("label", "table", "model", "data", "eval")  # keys of a row
# verl passes these on, or only writes them
OPAQUE = ["algorithm.method", "algorithm.controller"]
OPAQUE += [f"{config.LOSS}.method", "trainer.project_name", "trainer.experiment_name"]


def place(tmp_path, nodes=2, gpus=8) -> config.Place:
    return config.Place(
        device="cuda",
        nodes=nodes,
        gpus=gpus,
        cpus=None,
        work=tmp_path / "work",
        model="model",
    )


AGGREGATIONS = {
    "token_mean": "token-mean",
    "sequence_mean_token_mean": "seq-mean-token-mean",
    "token_sum": "seq-mean-token-sum-norm",
}
LAUNCH = {"trainer.val_only": False, "trainer.val_before_train": False}


def composed(x, where: config.Place, prompt_tokens=30, context=131_072, more: dict | None = None):
    return config.compose(config.settings(x, where, prompt_tokens, context, LAUNCH) | (more or {}))


# ---- an Experiment as verl's configuration


def alike(value):
    """With one word for all numbers but 0, and for the names of files."""
    if isinstance(value, dict):
        return {key: alike(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [alike(inner) for inner in value]
    if isinstance(value, (bool, type(None))):
        return value
    if isinstance(value, (int, float)):
        return "number" if value else 0
    return "path" if "/" in str(value) else str(value)


def distinct() -> list[tuple[str, str]]:
    """Of rows that differ in numbers, model and data only, the first."""
    found = {}
    for paper, name in OWN:
        row = {key: value for key, value in rows(paper)[name].items() if key not in NAMES}
        found.setdefault((paper, str(row.pop("like")), str(alike(row))), (paper, name))
    return [*found.values()]


@pytest.fixture(scope="module")
def seen() -> set[str]:
    """What verl has read in a test of this file: settings, alike, without names and functions."""
    return set()


@pytest.mark.parametrize(("paper", "name"), distinct())
def test_every_experiment_becomes_verls_dataclasses(paper, name, tmp_path, seen):
    """test_verl_ranks.py has every method's functions."""
    own = ["sampling.dtype=float32", "optim.dtype=float32"]  # the others are of backend=local
    x = load([f"experiment={name}", "backend=verl", *own], paper)
    weighted = bool(x.method.token_weights) or x.method.name == "cw_grpo_repository"
    settings = config.settings(x, place(tmp_path, nodes=1), 30, 131_072, LAUNCH)
    found = str({key: alike(value) for key, value in settings.items() if key not in OPAQUE})
    if found in seen:
        return
    seen.add(found)
    verls = config.compose(settings)
    OmegaConf.to_container(verls, resolve=True)  # every interpolation has its value
    validate_config(
        config=verls,
        use_reference_policy=need_reference_policy(verls),
        use_critic=need_critic(verls),
    )
    assert need_reference_policy(verls) == (x.method.kl_coef > 0)
    assert not need_critic(verls)
    actor = omega_conf_to_dataclass(verls.actor_rollout_ref.actor)
    rollout = omega_conf_to_dataclass(verls.actor_rollout_ref.rollout)
    # verl multiplies its mini-batch, in prompts, by rollout.n
    assert actor.ppo_mini_batch_size * x.optim.mini_batches == verls.data.train_batch_size
    assert verls.data.train_batch_size == x.sampling.prompts
    assert rollout.n == actor.rollout_n == x.sampling.group_size
    assert rollout.response_length == max(x.sampling.max_tokens, x.eval.max_tokens)
    assert rollout.prompt_length == 30
    assert rollout.temperature == torch.tensor(x.sampling.temperature).bfloat16().item()
    apart = x.sampling.reported if x.sampling.reported != x.sampling.temperature else None
    assert verls.algorithm.log_prob_temperature == apart
    assert (rollout.logprobs_mode == "raw_logprobs") == (apart is not None)
    assert not actor.fsdp_config.use_no_sync_for_gradient_accumulation
    assert actor.optim.lr == config.learning_rate(x)
    assert tuple(actor.optim.betas) == x.optim.betas
    assert actor.optim.clip_grad == x.optim.grad_clip
    arguments = {k: v for k, v in x.method.loss.items() if k != "_target_"}
    function = config.CLIPPED if weighted else x.method.loss["_target_"]
    assert actor.policy_loss.method.items() >= ({"function": function} | arguments).items()
    assert bool(verls.algorithm.token_weights) == weighted
    assert actor.loss_agg_mode == AGGREGATIONS[x.method.aggregation["_target_"].rpartition(".")[2]]
    assert actor.entropy_coeff == x.method.entropy_coef
    assert rollout.val_kwargs.n == x.eval.n
    assert verls.trainer.total_training_steps == x.optim.steps


def test_a_memory_network_is_described_to_vllm_and_to_the_worker(tmp_path):
    sampler = "method.sampler={mu:0.7,lr:2e-3,start:random,shrink:2,importance_cap:1.5}"
    pretrain = [*PRETRAIN, "model.pretrain.demonstrations=128"]
    x = load(["method=dlc", sampler, *pretrain, f"results_dir={tmp_path}"], "f_grpo")
    described, own = load_model(x.model, tmp_path, "cpu")
    policy = (described.config, own)
    dlc.prepare(x, tmp_path, policy, 50)
    network = AutoModelForCausalLM.from_pretrained(tmp_path / dlc.FOLDER)
    assert network.config.hidden_size == 32
    assert (network.lm_head.weight == 0).all()
    folder = str(tmp_path / "models" / store.identity(x.model))
    verls = composed(x, place(tmp_path), 30, 256, dlc.settings(x, tmp_path, folder))
    rollout = verls.actor_rollout_ref.rollout
    assert rollout.engine_kwargs.memory == {"path": str(tmp_path / "memory"), "lr": 2e-3}
    joint = rollout.engine_kwargs.vllm.hf_overrides
    assert (joint.memory_mu, joint.memory_config.hidden_size) == (0.7, 32)
    assert joint.policy_architecture == "Qwen2ForCausalLM"
    assert verls.algorithm.rollout_correction.rollout_is == "token"
    assert verls.algorithm.rollout_correction.rollout_is_threshold == 1.5
    omega_conf_to_dataclass(rollout)
    given = replace(x.method.sampler, start="checkpoint", path=folder, shrink=1)
    x = replace(x, method=replace(x.method, sampler=given))
    dlc.prepare(x, tmp_path / "other", policy, 50)
    assert not (tmp_path / "other").exists()  # nothing is made
    with refuses("method.sampler.path"):  # its context is 256 tokens
        dlc.prepare(x, tmp_path / "other", policy, 257)
    described.config.vocab_size += 1
    with refuses("method.sampler.path"):
        dlc.prepare(x, tmp_path / "other", policy, 50)
    evicting = ["method=dlc", "method.sampler.remember=all", "sampling.dynamic_batches=2"]
    with refuses("method.sampler.remember", "all"):
        composed(load(evicting, "f_grpo"), place(tmp_path))


def test_gpus_that_share_a_sequence_divide_the_responses(tmp_path):
    words = ["method=grpo", "backend=verl", "sampling.prompts=3", "sampling.group_size=8"]
    x = load([*words, "optim.mini_batches=1"], "f_grpo")
    with refuses("sampling.prompts", 3):
        composed(x, place(tmp_path))
    shared = replace(x, verl={tuning.SEQUENCE: 2})  # 8 pairs of GPUs, 3 responses each
    assert composed(shared, place(tmp_path)).actor_rollout_ref.actor.ppo_mini_batch_size == 3
    with refuses(f"verl.{tuning.SEQUENCE}", 3):
        composed(replace(x, verl={tuning.SEQUENCE: 3}), place(tmp_path))


def test_actors_on_other_nodes_get_our_modules(tmp_path, monkeypatch):
    """They have the environment of the job's Ray, not of the launch."""
    monkeypatch.setenv(process.MODULES, "ours")
    verls = composed(load(TINY, "f_grpo"), place(tmp_path))
    main.pass_on(verls)
    assert verls.ray_kwargs.ray_init.runtime_env.env_vars[process.MODULES] == "ours"
    assert "VERL_PLATFORM" in verls.ray_kwargs.ray_init.runtime_env.env_vars


def test_a_launch_serves_with_a_key_of_its_own_and_keeps_its_caches_apart(tmp_path, monkeypatch):
    """verl's vLLM listens on the node's address. All processes of a launch need the same key."""
    monkeypatch.setenv("VLLM_CACHE_ROOT", "/home")
    one, other = (
        process.environment(tmp_path / name, tmp_path / "metrics", 1) for name in ("one", "other")
    )
    assert len(one["VLLM_API_KEY"]) == 64
    assert one["VLLM_API_KEY"] != other["VLLM_API_KEY"]
    assert one["VLLM_CACHE_ROOT"].startswith(f"{tmp_path}/one/")
    assert "VLLM_API_KEY" in main.PASSED


def test_a_key_that_verl_does_not_have_is_refused():
    with refuses("trainer.total_step", 3):
        config.compose({"trainer.total_step": 3})


def test_the_defaults_that_are_stored_are_verls():
    """tests/papers/test_defaults.py compares every row with them."""
    stored = pd.read_csv(
        ROOT / "tests" / "papers" / "defaults.csv", dtype=str, keep_default_na=False
    )
    stored = stored[stored["framework"] == "verl 0.9.1"].set_index("key")["default"]
    verls = {key: OmegaConf.select(config.defaults(), key) for key in stored.index}
    found = {key: "" if value is None else str(value) for key, value in verls.items()}
    assert found == stored.to_dict()


def test_every_key_of_memory_and_speed_is_one_of_verls():
    values = {"share": 0.5, "count": 2, "switch": True}
    changes = {key: values[kind] for key, kind in tuning.TUNABLE.items()}
    assert set(LAYOUT.keys()) <= set(changes)
    verls = config.compose(changes)
    assert {key: OmegaConf.select(verls, key) for key in changes} == changes


def test_determinism_is_off_and_one_key_of_ours_sets_it_for_rollouts_and_for_fsdp(tmp_path):
    x = replace(load(TINY, "f_grpo"), backend="verl")
    for on in (False, True):
        run = replace(x, verl={tuning.DETERMINISM: True} if on else {})
        verls = composed(run, place(tmp_path), more=tuning.tuned(run.verl)).actor_rollout_ref
        actor, rollout = (omega_conf_to_dataclass(verls[part]) for part in ("actor", "rollout"))
        assert (actor.fsdp_config.full_determinism, rollout.full_determinism) == (on, on)
        assert (actor.fsdp_config.seed, rollout.seed) == (x.seed, x.seed)
        assert run.run_id == x.run_id


CHOOSE = layout.choose


@pytest.mark.parametrize(
    ("gpus", "gpu_gb", "given", "offloaded", "tokens"),
    [
        (8, 80, {}, (False, False), 65_536),
        (1, 24, {}, (False, True), 32_768),
        (8, 80, {f"{layout.OFFLOAD}.param_offload": True}, (True, False), 65_536),
    ],
)
def test_the_layout_of_a_gpus_memory_reaches_verl(
    tmp_path, monkeypatch, gpus, gpu_gb, given, offloaded, tokens
):
    """A card of that size stands for the GPU; the model is one of 1.5 billion weights."""
    card, seen = SimpleNamespace(total_memory=gpu_gb * 2**30 - 2**28), []

    def choose(load, *, gpu_gb, **where):
        seen.append(1e9 * gpu_gb)
        return CHOOSE(load, gpu_gb=gpu_gb, **where)

    monkeypatch.setattr(layout, "choose", choose)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda index: card)
    monkeypatch.delenv(STAND_IN)
    size = Size(1_540_000_000, 28, 1536, 256, 151_936, 4096)
    monkeypatch.setattr("common.backends.verl.backend.sizes_of", lambda x: [size])
    x = replace(load(["sampling.prompts=64"], "f_grpo"), backend="verl", verl=given)
    where = place(tmp_path, nodes=1, gpus=gpus)
    chosen = backend.layout_keys(x, where, 1700, tuning.tuned(x.verl)) | tuning.tuned(x.verl)
    assert seen == [pytest.approx(card.total_memory)]  # GB, not the GiB by which GPUs are named
    verls = composed(x, where, 1700, 4096, chosen)
    actor = omega_conf_to_dataclass(verls.actor_rollout_ref.actor)
    rollout = omega_conf_to_dataclass(verls.actor_rollout_ref.rollout)
    assert (actor.fsdp_config.param_offload, actor.fsdp_config.offload_policy) == offloaded
    assert rollout.tensor_model_parallel_size == 1  # the fewest that hold the weights
    assert actor.ppo_max_token_len_per_gpu == rollout.log_prob_max_token_len_per_gpu == tokens


# ---- prompts


def test_a_long_prompt_gets_a_shorter_response_and_a_full_context_is_refused(tmp_path):
    """One by one: the longest prompt of a set does not shorten the others' responses."""
    x = load([*TINY, "eval.max_tokens=9", "sampling.max_tokens=7"], "f_grpo")
    train, _ = prompts(x)
    tok, long = tokenizer(), Prompt("long", " ".join([train[0].text] * 10), "1")
    count = len(tok(long.text, add_special_tokens=False)["input_ids"])
    other = [Prompt("other", train[0].text, "1")]
    tests = {"both": [long, *other]}
    assert data.write_parquet(x, tmp_path, [long, *train], tests, tok, count + 4) == count
    read = pd.read_parquet(tmp_path / "train.parquet")
    assert [row["max_tokens"] for row in read.extra_info] == [4, *[7] * len(train)]
    assert [row[0]["content"] for row in read.prompt] == [one.text for one in (long, *train)]
    read = pd.read_parquet(tmp_path / "val.parquet")
    assert [row["max_tokens"] for row in read.extra_info] == [4, 9]
    with refuses("prompt id", "long"):
        data.write_parquet(x, tmp_path, [long], tests, tok, count)
    # vLLM never gets more than the model reads: 4,096 for Qwen2.5-Math, whatever is asked
    assert config.settings(x, place(tmp_path), count, count + 4, LAUNCH)[MODEL_LEN] == count + 4
    assert config.settings(x, place(tmp_path), count, 4096, LAUNCH)[MODEL_LEN] == count + 9
