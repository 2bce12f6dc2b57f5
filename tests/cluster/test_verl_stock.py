"""`python -m verl.trainer.main_ppo` as its user starts it, with a key of ours: F-GRPO, IAC and
FADE, whose controller's state outlives a resume. At last its vLLM is stopped, and our watch, which
follows all launches, ends it. (test_verl_drill.py does so to whole runs.)"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf

pytest.importorskip("verl", reason="verl is not installed here: make test-cluster runs these")

import verl_cpu
from tiny import ROOT, speaking
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from common import watch
from common.backends.verl import config, process
from common.backends.verl.trainer import STATE
from common.config.schema import Method
from common.experiment import load
from common.methods.binding import advantages, bind, observe
from common.methods.catalogue import method
from common.models import store

P, G, T, MINIS = 4, 4, 12, 2
ACTOR, ROLLOUT = verl_cpu.ACTOR, verl_cpu.ROLLOUT
HERE = Path(__file__).parent
LAST = "the last phase"  # goes on for ever
ENGINE = "VLLM::EngineCore"


def user(folder: Path) -> None:
    """Write a user's model, data and configuration, mine.yaml, which adds model, data, reward and
    sizes to verl's own."""
    letters = ["<pad>", "<end>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words = Tokenizer(models.BPE(vocab={one: i for i, one in enumerate(letters)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    chat = "{% for m in messages %}{{ m.content }}\n{% endfor %}"  # verl's agent loop renders one
    given = dict(pad_token="<pad>", eos_token="<end>", chat_template=chat)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **given)
    # heads of 32 are vLLM's smallest on a CPU
    sizes = dict(hidden_size=64, num_hidden_layers=1, max_position_embeddings=128)
    random = speaking(tokenizer, **sizes, tie_word_embeddings=True)
    store.save(random, tokenizer, folder / "model")
    rows = [
        {
            "data_source": "toy",
            "prompt": [{"role": "user", "content": f"{i} + {i} ="}],
            "reward_model": {"style": "rule", "ground_truth": str((1 + i % 4) / 5)},
        }
        for i in range(8)
    ]
    pd.DataFrame(rows).to_parquet(folder / "data.parquet")
    x = load(["method=grpo"], "f_grpo")
    place = config.Place("cpu", 1, 1, None, folder, "model")
    keys = verl_cpu.settings(x, place) | {
        "data.train_files": str(folder / "data.parquet"),
        "data.val_files": str(folder / "data.parquet"),
        "data.train_batch_size": P,
        "data.max_prompt_length": 32,
        "data.max_response_length": T,
        "data.dataloader_num_workers": 0,
        "actor_rollout_ref.model.path": str(folder / "model"),
        f"{ACTOR}.strategy": "fsdp2",
        f"{ACTOR}.ppo_mini_batch_size": P // MINIS,
        f"{ACTOR}.ppo_micro_batch_size_per_gpu": P * G // 2,
        f"{ACTOR}.optim.lr": 1e-3,
        f"{ROLLOUT}.name": "vllm",
        f"{ROLLOUT}.n": G,
        f"{ROLLOUT}.tensor_model_parallel_size": 1,
        f"{ROLLOUT}.max_model_len": 64,
        f"{ROLLOUT}.max_num_batched_tokens": 64,
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": P * G,
        "reward.custom_reward_function.path": "pkg://stock_user",
        "trainer.device": "cpu",
        "trainer.n_gpus_per_node": 1,
        "trainer.total_epochs": 100,
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.save_freq": 1,
        "trainer.logger": ["console", "file"],
        "ray_kwargs.ray_init.include_dashboard": False,
    }
    mine = OmegaConf.create({"defaults": ["ppo_trainer", "_self_"]})
    keys["hydra.searchpath"] = ["pkg://verl.trainer.config"]
    for key, value in keys.items():
        OmegaConf.update(mine, key, value, force_add=True)
    OmegaConf.save(mine, folder / "mine.yaml")


def started(folder: Path, *words: str, phases: list[dict]) -> dict:
    """Run `python -m verl.trainer.main_ppo` with these words, and then the PHASES of stock_user.py,
    until vLLM is stopped in the LAST one. Its log is folder/log/log. Return how it ended."""
    log = folder / "log" / "log"
    for _ in range(process.STARTS):  # Ray may not come up on a busy machine
        shutil.rmtree(log.parent, ignore_errors=True)
        log.parent.mkdir()
        stopped, shared, patch = [], set(), pytest.MonkeyPatch()
        with tempfile.TemporaryDirectory(prefix="v-", ignore_cleanup_errors=True) as scratch:
            metrics, where = folder / "log" / "metrics.jsonl", Path(scratch)
            environment = process.environment(where, metrics, 1) | {
                process.MODULES: ",".join([*verl_cpu.MODULES, "stock_user"]),
                "VERL_USE_EXTERNAL_PLUGINS": "auto",  # verl's default
                "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT), os.environ["PYTHONPATH"]]),
                "RECORDED": str(log.parent),
                "PHASES": json.dumps(phases),
            }
            environment.pop("CUDA_VISIBLE_DEVICES", None)
            given = [f"--config-path={folder}", "--config-name=mine", *words]
            with log.open("w") as output:
                child = subprocess.Popen(
                    [sys.executable, "-m", "verl.trainer.main_ppo", *given],
                    cwd=scratch,
                    env=environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            stop = partial(stop_vllm, where, log.with_name("steps.jsonl"), stopped, patch)
            try:
                list(process.follow(metrics, child, where, shared, log, stop))
            except process.Dead as dead:
                said = str(dead)
                print(failed := process.report(said, log, folder / "none"))
            finally:
                patch.undo()
                process.end_all(where)
                child.wait()
                process.remove(shared)
            if stopped:
                left = len(process.marked(where))
                return {"said": said, "part": str(stopped[0]), "left": left, "shared": [*shared]}
    raise AssertionError(failed)


def stop_vllm(scratch: Path, steps: Path, stopped: list, patch, _) -> None:
    """In the LAST phase; `stopped` has it then."""
    if not stopped and steps.exists() and LAST in steps.read_text():
        seen = watch.parts(process.marked(scratch))
        stopped.extend(one for one in seen if ENGINE in one.name and not one.copy)
        os.kill(stopped[0].pid, signal.SIGSTOP)
        patch.setattr(watch, "GRACE_S", 5.0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with what one start of verl has noted: two steps of FADE; FADE again from the first
    one's checkpoint, and three steps of F-GRPO and of IAC, with the loss of verl's start. And
    ended.json: how it was ended."""
    folder = tmp_path_factory.mktemp("stock")
    user(folder)
    name, key = "trainer.experiment_name", "algorithm.adv_estimator"
    save, steps = "trainer.default_local_dir", "trainer.total_training_steps"
    again = {name: "again", save: str(folder / "again"), steps: 3}
    again |= {"trainer.resume_mode": "resume_path"}
    again |= {"trainer.resume_from_path": str(folder / "first" / "global_step_1")}
    anew = {"trainer.resume_mode": "disable", "trainer.save_freq": -1, steps: 3}
    f_grpo = {name: "f_grpo", key: "f_grpo", "algorithm.rlvr": {"gamma": 1.0}}
    iac = {name: "iac", key: "iac", "algorithm.rlvr": None}
    loss = "actor_rollout_ref.actor.policy_loss.loss_mode=fade"
    words = [f"{key}=fade", loss, f"{name}=first", f"{save}={folder}/first", f"{steps}=2"]
    words.append("trainer.resume_mode=disable")  # if Ray has to be started again
    last = anew | iac | {name: LAST, steps: 1000}
    ended = started(folder, *words, phases=[again, anew | f_grpo, anew | iac, last])
    (folder / "ended.json").write_text(json.dumps(ended))
    return folder


def noted(folder: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (folder / "log" / name).read_text().splitlines()]


def replayed(folder: Path, phase: str, m: Method, state: dict) -> tuple[list[int], dict]:
    """Compare what was trained with, bit for bit, to what the library makes of the recorded rewards
    and log-probabilities. Return the phase's steps and the controller's last state."""
    bound, handed, trained = bind(m), noted(folder, "loss.jsonl"), {}
    assert {row.pop("loss") for row in handed} == {"fade"}
    for row in noted(folder, "steps.jsonl"):
        if row["phase"] == phase:
            trained.setdefault(row["step"], {}).setdefault(row["uid"], []).append(row)
    ticks, different = MINIS if m.controller else 1, set()
    for step, groups in trained.items():
        of_tick = np.array_split(np.arange(P), ticks)
        for tick, part in enumerate(of_tick, (step - 1) * ticks + 1):
            rows = [row for i in part for row in [*groups.values()][i]]
            rewards = torch.tensor([row["reward"] for row in rows]).view(-1, G)
            lengths = torch.tensor([len(row["log_probs"]) for row in rows]).view(-1, G)
            surprise = [-sum(row["log_probs"]) / len(row["log_probs"]) for row in rows]
            seen = dict(solve_rate=rewards.double().mean().item(), entropy=float(np.mean(surprise)))
            state, arguments = observe(bound, state, step=tick, **seen)
            given = dict(correct=rewards == 1, lengths=lengths, arguments=arguments)
            A = advantages(bound, rewards, **given).flatten().tolist()
            for row, value in zip(rows, A, strict=True):
                mine = {"advantages": [value] * len(row["log_probs"])}
                assert row["advantages"] == mine["advantages"]
                assert mine | {"log_probs": row["log_probs"]} in handed
            different |= {*A}
    assert len(different) > 3  # else nothing would tell one method from another
    return [*trained], state


@pytest.mark.parametrize(("name", "given"), [("f_grpo", {"gamma": 1.0}), ("iac", {})])
def test_an_advantage_is_trained_with(trained, name, given):
    assert replayed(trained, name, method(name, **given), {}) == ([1, 2, 3], {})


def test_fades_controller_goes_on_where_its_checkpoint_was(trained):
    def saved(phase: str, step: int) -> dict:
        return json.loads((trained / phase / f"global_step_{step}" / STATE).read_text())

    done, state = replayed(trained, "first", method("fade"), {})
    assert done == [1, 2]
    assert saved("first", 2) == pytest.approx(state, rel=1e-12)
    assert saved("first", 1) != saved("first", 2)
    done, state = replayed(trained, "again", method("fade"), saved("first", 1))
    assert done == [2, 3]
    assert saved("again", 3) == pytest.approx(state, rel=1e-12)


def test_the_log_says_what_the_run_has_other_than_the_method(trained):
    said = (trained / "log" / "log").read_text()
    assert "rlvr_papers: method=fade; other than in its file: nothing" in said
    told = "rlvr_papers: method=iac; other than in its file: policy_loss.loss_mode=fade (iac)"
    assert told in said


def test_a_stopped_part_ends_the_launch_and_is_named(trained):
    ended = json.loads((trained / "ended.json").read_text())
    assert ended["said"].startswith(f"{ended['part']} is stopped (SIGSTOP)")
    assert ended["left"] == 0
    assert ended["shared"]
    assert not [path for path in ended["shared"] if Path(path).exists()]
