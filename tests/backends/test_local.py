"""The loop: one step against a slow re-implementation, determinism, learning, and what is
refused."""

import copy
import json
import math
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from tiny import ROOT

from common.backends import local, run_experiment
from common.backends.local import Loop, train
from common.config.resolve import resolve
from common.datasets.prompts import check, jsonl
from common.errors import UserError
from common.evaluation import rare_nll
from common.evaluation import samples as samples_module
from common.evaluation.samples import Sampled, metric_rows
from common.models import load as load_module
from common.models import pretrain, store
from common.results.files import read_csv, read_jsonl
from common.types import Prompt, RolloutBatch, Verdict
from common.verifiers import countdown
from common.verifiers.rewards import rewards, verify_batch

FILES = ["metrics.csv", "metrics.jsonl", "counts.csv", "samples/natural.jsonl.gz"]
FILES += ["samples/rare.jsonl.gz", "model/model.safetensors", "eval/step-00003.csv"]


def made_up(response: str, reference: str) -> Verdict:
    """Half of all responses are right, whatever the model can do; none where the target ends in
    4 or 8. So some groups are mixed and some are not."""
    right = sum(map(ord, response)) % 2 == 0 and not reference.endswith(("4", "8"))
    return Verdict("correct" if right else "wrong", float(right), parsed=response)


def all_made_up(pairs):
    return [made_up(*pair) for pair in pairs]


def in_process(pairs):
    return [countdown.verify(*pair) for pair in pairs]


def make_loop(x, folder) -> Loop:
    """A loop whose verifier needs no workers and no canaries: it may be made up."""
    verifier = resolve(x.data.verifier, "data.verifier")
    return Loop(x, folder, lambda pairs: [verifier(*pair) for pair in pairs])


# ---- one step against a slow, obvious re-implementation


def slow_advantages(reward: list[float], gamma: float) -> list[float]:
    size, right = len(reward), sum(reward)
    if right in (0, size):
        return [0.0] * size
    mean = right / size
    std = math.sqrt(sum((r - mean) ** 2 for r in reward) / (size - 1))
    return [(1 - mean) ** gamma * (r - mean) / (std + 1e-6) for r in reward]


def slow_log_probs(model, prompt: list[int], response: list[int], temperature: float):
    """(log-probability, entropy) of each response token from one full, unpadded sequence."""
    logits = model(input_ids=torch.tensor([prompt + response]), use_cache=False).logits[0]
    log_p = torch.log_softmax(logits / temperature, -1)
    for t, token in enumerate(response):
        at = log_p[len(prompt) + t - 1]
        yield at[token], -(at.exp() * at).sum()


def slow_step(x, model, reference, batch: RolloutBatch, reward: list[list[float]]) -> dict:
    """All optimiser steps of one rollout; returns the means of what is logged."""
    gamma = x.method.advantage.get("gamma", 0.0)
    low, high = 1 - x.method.loss["eps_low"], 1 + x.method.loss["eps_high"]
    cispo = x.method.loss["_target_"].endswith("cispo")
    G, temperature = batch.group_size, x.sampling.temperature
    per_step = x.sampling.prompts // x.optim.mini_batches
    moments = [[torch.zeros_like(p), torch.zeros_like(p)] for p in model.parameters()]
    rows = []
    for number in range(x.optim.mini_batches):
        prompts = range(number * per_step, (number + 1) * per_step)
        tokens = batch.mask[prompts.start * G : prompts.stop * G].sum().item()
        logged = dict(loss=0.0, entropy=0.0, clipped=0.0, ratio=0.0)
        logged |= dict(kl=0.0) if reference is not None else {}
        total = 0.0
        for p in prompts:
            prompt = batch.prompt_ids[p][batch.prompt_mask[p] > 0].tolist()
            advantages = slow_advantages(reward[p], gamma)
            for g in range(G):
                row, A = p * G + g, advantages[g]
                response = batch.response_ids[row][batch.mask[row] > 0].tolist()
                old = batch.log_probs[row].tolist()
                terms = slow_log_probs(model, prompt, response, temperature)
                if reference is not None:
                    with torch.no_grad():
                        ref = list(slow_log_probs(reference, prompt, response, temperature))
                for t, (log_prob, entropy) in enumerate(terms):
                    ratio = math.exp(log_prob.item() - old[t])
                    bounded = min(max(ratio, low), high)
                    if cispo:
                        loss, clipped = -bounded * A * log_prob, bounded != ratio
                    elif bounded * A < ratio * A:
                        loss, clipped = torch.tensor(-bounded * A), True
                    else:
                        loss, clipped = -torch.exp(log_prob - old[t]) * A, False
                    loss = loss - x.method.entropy_coef * entropy
                    if reference is not None:
                        d = ref[t][0] - log_prob
                        loss = loss + x.method.kl_coef * (torch.exp(d) - d - 1)
                        logged["kl"] += (torch.exp(d) - d - 1).item() / tokens
                    total = total + loss / tokens
                    logged["entropy"] += entropy.item() / tokens
                    logged["clipped"] += clipped / tokens
                    logged["ratio"] += ratio / tokens
        gradients = torch.autograd.grad(total, list(model.parameters()))
        norm = math.sqrt(sum((gradient**2).sum().item() for gradient in gradients))
        slow_adamw(x, model, moments, gradients, norm, number + 1)
        rows.append(logged | {"loss": total.item(), "grad_norm": norm})
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def slow_adamw(x, model, moments, gradients, norm: float, number: int) -> None:
    lr = x.optim.lr / x.optim.warmup_steps  # the first step of the warm-up
    b1, b2 = x.optim.betas
    with torch.no_grad():
        for p, (m, v), g in zip(model.parameters(), moments, gradients, strict=True):
            g = g * min(1.0, x.optim.grad_clip / norm)
            m.copy_(b1 * m + (1 - b1) * g)
            v.copy_(b2 * v + (1 - b2) * g**2)
            step = (m / (1 - b1**number)) / ((v / (1 - b2**number)).sqrt() + 1e-8)
            p.copy_(p - lr * x.optim.weight_decay * p - lr * step)


SMALL = ["sampling.prompts=8", "sampling.group_size=6", "optim.lr=0.02", "optim.grad_clip=0.2"]
METHODS = {
    "grpo": [],
    "f_grpo": ["method.advantage.gamma=0.7"],
    "dapo": [],
    "cispo": ["method.loss.eps_low=0.1", "method.loss.eps_high=0.2"],
    "grpo_entropy": ["method.entropy_coef=0.05"],
    "grpo_kl": ["method.kl_coef=0.1"],
    "grpo at another temperature": ["method=grpo", "sampling.temperature=0.8"],
}


@pytest.mark.parametrize("method", METHODS)
def test_one_step_equals_a_slow_re_implementation(tiny, tmp_path, monkeypatch, float64, method):
    monkeypatch.setattr(countdown, "verify", made_up)
    x = tiny(f"method={method.split()[0]}", *SMALL, *METHODS[method])
    loop = make_loop(x, tmp_path)
    made = {}

    def rollout(*arguments, **settings):
        """The rollout as drawn, but as if an older policy had drawn it, so that clips act."""
        batch = generate(*arguments, **settings)
        noise = 0.3 * torch.randn(batch.mask.shape, generator=torch.Generator().manual_seed(1))
        made["batch"] = replace(batch, log_probs=((batch.log_probs + noise) * batch.mask).double())
        float64(loop.model)
        if loop.reference is not None:
            float64(loop.reference)
            with torch.no_grad():  # KL to itself would be zero
                for p in loop.reference.parameters():
                    p.mul_(1.1)
        made["slow"] = copy.deepcopy(loop.model)
        return made["batch"]

    generate = local.generate
    monkeypatch.setattr(local, "generate", rollout)
    row = loop.one_step(1)
    batch, slow = made["batch"], made["slow"]

    texts = [
        loop.tokenizer.decode(ids[keep > 0], skip_special_tokens=True)
        for ids, keep in zip(batch.response_ids, batch.mask, strict=True)
    ]
    loop.drawn = 0
    G, prompts = batch.group_size, loop.draw_prompts()
    flat = [made_up(text, prompts[i // G].reference).reward for i, text in enumerate(texts)]
    reward = [flat[start : start + G] for start in range(0, len(flat), G)]
    mixed = [0 < sum(group) < G for group in reward]
    assert any(mixed)
    assert not all(mixed)
    expected = slow_step(x, slow, loop.reference, batch, reward)
    assert 0.1 < expected["clipped"] < 0.9  # the clip was at work
    assert expected["grad_norm"] > x.optim.grad_clip  # and so was the gradient's
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-6, abs=1e-6), name
    assert [row["reward"], row["solve_rate"]] == pytest.approx([sum(flat) / len(flat)] * 2)
    assert row["active_groups"] == pytest.approx(sum(mixed) / len(mixed))
    assert row["response_length"] == pytest.approx(batch.mask.sum().item() / len(flat))
    assert row["truncated"] == pytest.approx(1 - batch.stopped.double().mean().item())
    assert row["unparsed"] == 0
    for (name, one), two in zip(loop.model.named_parameters(), slow.parameters(), strict=True):
        if "k_proj.bias" not in name:  # its gradient is zero but for rounding; Adam takes its sign
            # lr is 0.01; advantages are float32 in the loop, and Adam divides by small numbers
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_first_step_is_on_policy(tiny, tmp_path, monkeypatch, temperature):
    monkeypatch.setattr(countdown, "verify", made_up)
    x = tiny(f"sampling.temperature={temperature}", "optim.mini_batches=1")
    row = make_loop(x, tmp_path).one_step(1)
    assert row["ratio"] == pytest.approx(1, abs=1e-5)  # sampled from what is trained
    assert row["clipped"] == 0
    assert row["grad_norm"] > 1e-3


def test_the_split_into_micro_batches_changes_neither_loss_nor_gradient(
    tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr(countdown, "verify", made_up)
    found, passes = {}, []
    log_probs = local.log_probs
    monkeypatch.setattr(local, "log_probs", lambda *a: passes.append(1) or log_probs(*a))
    expected = {1: 4, 4: 4, 8: 2, 12: 2, 1024: 2}  # passes for two mini-batches of two groups of 4
    for micro_batch in expected:
        settings = ["sampling.group_size=4", f"optim.micro_batch={micro_batch}"]
        loop = make_loop(tiny("method=grpo_entropy", *settings), tmp_path)
        loop.optimizer.step = lambda: None
        passes.clear()
        row = loop.one_step(1)
        assert len(passes) == expected[micro_batch]  # a group is never split
        gradient = torch.cat([p.grad.flatten() for p in loop.model.parameters()])
        found[micro_batch] = row, gradient
    row, gradient = found.pop(1024)
    assert gradient.norm() > 1e-3
    for other_row, other_gradient in found.values():
        assert (other_gradient - gradient).abs().max() < 1e-6
        assert other_row == pytest.approx(row, abs=1e-6, rel=1e-5)


@pytest.mark.parametrize("prompts", [8, 12, 80, 100])
def test_every_epoch_covers_all_prompts_without_replacement(tiny, tmp_path, prompts):
    loop = make_loop(tiny(f"sampling.prompts={prompts}"), tmp_path)
    pool = [prompt.id for prompt in loop.prompts]
    assert len(pool) == 40
    drawn = [p.id for _ in range(12) for p in loop.draw_prompts()]
    epochs = [drawn[start : start + 40] for start in range(0, len(drawn) - 39, 40)]
    assert len(epochs) >= 2
    assert all(sorted(epoch) == sorted(pool) for epoch in epochs)
    assert epochs[0] != epochs[1] != pool
    loop.drawn = prompts  # all the state there is
    assert [p.id for p in loop.draw_prompts()] == drawn[prompts : 2 * prompts]
    other = make_loop(tiny(f"sampling.prompts={prompts}", "seed=2"), tmp_path)
    assert [p.id for p in other.draw_prompts()] != drawn[:prompts]


def test_the_learning_rate_warms_up_then_stays(tiny, tmp_path):
    loop = make_loop(tiny("optim.warmup_steps=4", "optim.lr=8e-4"), tmp_path)
    assert [loop.set_lr(step, {}) for step in (1, 2, 4, 5, 100)] == [2e-4, 4e-4, 8e-4, 8e-4, 8e-4]
    assert loop.optimizer.param_groups[0]["lr"] == 8e-4
    assert make_loop(tiny("optim.warmup_steps=0"), tmp_path).set_lr(1, {}) == 1e-3


def test_the_learning_rate_is_scaled_to_another_methods_largest_weight(tiny, tmp_path):
    # G = 16, rewards 0 and 1. GRPO's largest weight: one right of 16, (15/16) / std with std =
    # sqrt(15/16 * 1/16) = sqrt(15)/16, so sqrt(15); mean GRPO's is 15/16.
    reference = "{_target_: common.advantages.group.grpo, unbiased: false, epsilon: 0}"
    settings = ["method=mean_only", "optim.lr=8e-4", "optim.warmup_steps=0"]
    loop = make_loop(tiny(*settings, f"optim.equalise_to={reference}"), tmp_path)
    assert loop.set_lr(1, {}) == pytest.approx(8e-4 * math.sqrt(15) / (15 / 16))
    # FADE's largest weight moves with its controller: (15/16)^(alpha-1) times 15/16 over delta.
    settings[0] = "method=fade"
    loop = make_loop(tiny(*settings, f"optim.equalise_to={reference}"), tmp_path)
    failures = [(1 - k / 16) ** 2 * (k / 16) / 0.5 for k in range(1, 16)]
    successes = [(1 - k / 16) ** 3 for k in range(1, 16)]
    expected = 8e-4 * math.sqrt(15) / max(failures + successes)
    assert loop.set_lr(1, {"alpha": 3.0, "delta": 0.5}) == pytest.approx(expected)


def test_dynamic_sampling_fills_the_step_with_mixed_groups(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(countdown, "verify", made_up)  # targets ending in 4 or 8 are never mixed
    plain = make_loop(tiny(), tmp_path)
    batch, reward, row = plain.rollout(1)
    mixed = reward.amax(1) > reward.amin(1)
    assert 0 < mixed.sum() < 4
    loop = make_loop(tiny("sampling.dynamic_batches=5"), tmp_path)
    filled, rewards_, row = loop.rollout(1)
    assert (rewards_.amax(1) > rewards_.amin(1)).all()
    assert row["rollout_batches"] > 1
    assert loop.drawn == 4 * row["rollout_batches"]
    assert row["active_groups"] < 1  # what was drawn, not what was kept
    # The mixed groups of the first batch come first, as they were sampled.
    first = next(i for i in range(4) if mixed[i])
    one, two = batch.prompts(first, first + 1), filled.prompts(0, 1)
    assert torch.equal(reward[first], rewards_[0])
    width = min(one.mask.shape[1], two.mask.shape[1])
    assert torch.equal(one.log_probs[:, :width], two.log_probs[:, :width])
    assert one.mask.sum() == two.mask.sum()
    # Too few batches: groups without a gradient fill what is missing, and the step goes on.
    monkeypatch.setattr(countdown, "verify", lambda *pair: Verdict("wrong", 0.0))
    row = make_loop(tiny("sampling.dynamic_batches=2"), tmp_path).one_step(1)
    assert row["rollout_batches"] == 2
    assert row["grad_norm"] == 0


@pytest.mark.parametrize("method", ["cw_grpo", "clip_cov", "kl_cov"])
def test_token_weights_are_those_of_the_mini_batch_whatever_the_split(
    tiny, tmp_path, monkeypatch, method
):
    monkeypatch.setattr(countdown, "verify", made_up)
    found = []
    for micro_batch in (1, 1024):
        settings = ["optim.mini_batches=1", f"optim.micro_batch={micro_batch}"]
        loop = make_loop(tiny(f"method={method}", *settings), tmp_path)
        loop.optimizer.step = lambda: None
        row = loop.one_step(1)
        found.append((row, torch.cat([p.grad.flatten() for p in loop.model.parameters()])))
    (row, gradient), (other_row, other_gradient) = found
    assert gradient.norm() > 1e-3
    assert (other_gradient - gradient).abs().max() < 1e-6
    assert other_row == pytest.approx(row, abs=1e-6, rel=1e-5)


def test_a_controller_sees_the_step_and_its_state_is_kept(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(countdown, "verify", made_up)
    x = tiny("method=fade")
    loop = make_loop(x, tmp_path)
    rows = [loop.one_step(step) for step in (1, 2)]
    p_hat = 0.98 * (0.98 * 0.5 + 0.02 * rows[0]["solve_rate"]) + 0.02 * rows[1]["solve_rate"]
    assert loop.state["p_hat"] == pytest.approx(p_hat)
    assert rows[1]["alpha"] == pytest.approx(min(max(1.5 * (1 - p_hat) / p_hat, 1), 3))
    assert rows[0]["delta"] == 1  # the entropy is at its start, above its target
    assert 0.1 < loop.state["H_0"] < 5
    loop.save_checkpoint()
    again = make_loop(x, tmp_path)
    assert again.state == loop.state
    assert again.one_step(3) == loop.one_step(3)


def test_a_gradient_that_is_not_finite_stops_the_run(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(countdown, "verify", made_up)
    loop = make_loop(tiny(), tmp_path)
    before = [p.clone() for p in loop.model.parameters()]
    original = local.log_probs
    monkeypatch.setattr(
        local, "log_probs", lambda *a: (original(*a)[0] * math.nan, original(*a)[1])
    )
    with pytest.raises(UserError, match=r"step 1: the gradient is not finite; lower optim\.lr="):
        loop.one_step(1)
    assert all(map(torch.equal, before, loop.model.parameters()))


# ---- whole runs


def content(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in FILES}


def test_training_raises_the_reward(tiny):
    """16 prompts over and over at a high rate: pass@1 goes from 0.02 to 0.5 in 30 steps."""
    path = train(
        tiny(
            "data.train.size=16",
            "sampling.prompts=16",
            "sampling.group_size=16",
            "optim.lr=3e-3",
            "optim.steps=30",
            "optim.micro_batch=1024",
            "eval.every=30",
            "eval.rare_nll_samples=0",
        ),
        progress=False,
    )
    reward = [row["reward"] for row in read_jsonl(path / "metrics.jsonl")]
    assert len(reward) == 30
    assert sum(reward[-5:]) / 5 > sum(reward[:5]) / 5 + 0.2


BONUS = "method.entropy_coef=0.01"


@pytest.fixture
def run(tiny):
    """A finished run of six steps, with an entropy bonus so that every step moves the model."""
    return train(tiny(BONUS), progress=False)


def test_same_seed_same_bytes(tiny, run, pretrained, tmp_path):
    shutil.copytree(pretrained, tmp_path / "again")
    elsewhere = [f"results_dir={tmp_path}/again", "checkpoint_every=100"]
    again = train(tiny(BONUS, *elsewhere), progress=False)
    assert again.name == run.name
    assert again != run
    assert content(again) == content(run)
    assert all(row["grad_norm"] > 1e-4 for row in read_jsonl(run / "metrics.jsonl"))
    other = train(tiny(BONUS, "seed=2"), progress=False)
    assert not set(content(other).values()) & set(content(run).values())


def test_what_a_run_leaves(tiny, run):
    x = tiny(BONUS)
    files = {str(f.relative_to(run)) for f in run.rglob("*") if f.is_file()}
    assert set(FILES) < files
    assert not any(name.endswith((".tmp", "checkpoint.pt")) for name in files)
    rows = read_csv(run / "metrics.csv")
    assert sorted(set(rows["step"])) == [3, 6]
    assert set(rows["run_id"]) == {x.run_id}
    assert set(rows["method"]) == {x.label}
    last = rows[rows["step"] == 6]
    passk = last[(last["benchmark"] == "rare") & last["metric"].str.startswith("pass@")]
    assert passk["k"].tolist() == [1, 4, 8]
    curve = rows[(rows["step"] == 3) & (rows["benchmark"] == "rare")]
    assert curve[curve["metric"].str.startswith("pass@")]["k"].tolist() == [1, 4]  # curve_n = 4
    counts = pd.read_csv(run / "counts.csv")
    assert (counts["n"] == 8).all()
    assert len(counts) == 12
    expected = 100 * (counts["c"] / 8).groupby(counts["benchmark"]).mean()
    for benchmark in ("natural", "rare"):
        own = last[(last["benchmark"] == benchmark) & (last["metric"] == "pass@1")]
        assert own["value"].item() == pytest.approx(expected[benchmark], abs=1e-9)
    assert last[~last["metric"].str.startswith("pass@")]["k"].isna().all()  # missing, not 0
    samples = pd.DataFrame(read_jsonl(run / "samples" / "rare.jsonl.gz"))
    right = (samples["outcome"] == "correct").groupby(samples["problem_id"]).sum()
    assert (
        right.to_dict()
        == counts[counts["benchmark"] == "rare"].set_index("problem_id")["c"].to_dict()
    )
    for _, row in samples.iterrows():  # what is stored can be verified again
        assert countdown.verify(row["response"], row["problem_id"]).outcome == row["outcome"]
    steps = read_jsonl(run / "metrics.jsonl")
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5, 6]
    active = last[last["metric"] == "active_groups"]["value"].item()
    assert active == pytest.approx(100 * sum(row["active_groups"] for row in steps) / 6)


def test_a_finished_run_is_not_repeated(tiny, run, monkeypatch):
    before = {f: f.stat().st_mtime_ns for f in run.rglob("*") if f.is_file() and f.name != ".lock"}
    monkeypatch.setattr(local, "Loop", None)
    assert run_experiment(tiny(BONUS)) == run
    assert {f: f.stat().st_mtime_ns for f in before} == before


def test_the_base_model_is_evaluated_without_steps(tiny):
    run = train(tiny("experiment=base", "optim.steps=0"), progress=False)
    rows = read_csv(run / "metrics.csv")
    assert set(rows["step"]) == {0}
    assert "active_groups" not in set(rows["metric"])
    assert (run / "metrics.jsonl").read_text() == ""
    change = rows[rows["metric"] == "delta_NLL_rare"]["value"].item()
    assert change == pytest.approx(0, abs=1e-6)  # against itself


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("raises", r"calls a right answer error \(ZeroDivisionError in raises"),
        ("hangs", r"calls a right answer timeout \(no verdict within 0.3 s"),
        ("dies", r"calls a right answer error \(the worker process died"),
        ("never", "calls a right answer wrong"),
        ("always", "calls an empty response correct"),
        ("any_answer", "calls one answer correct for 4 different prompts"),
        ("often_raises", "of 64 verdicts are timeouts or errors"),
    ],
)
def test_a_broken_verifier_stops_training_before_it_learns(tiny, monkeypatch, function, message):
    monkeypatch.setattr("sys.path", [str(ROOT / "tests" / "support"), *sys.path])
    x = tiny(
        f"data.verifier._target_=broken_verifiers.{function}",
        "verification.deadline=0.3",
        "optim.steps=1",
    )
    with pytest.raises(UserError, match=message):
        train(x, progress=False)
    folder = Path(x.results_dir) / x.paper / x.run_id
    assert not (folder / "DONE").exists()
    assert not (folder / "metrics.csv").exists()
    assert (folder / "metrics.jsonl").read_text() == ""  # not one step was taken


def test_the_saved_model_loads_like_any_other(tiny, run):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    made = pretrain.tokenizer()
    for folder in (run / "model", Path(store.folder(tiny().model, Path(tiny().results_dir)))):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder)
        assert model.config.vocab_size == len(tokenizer) == len(made)
        assert model.get_input_embeddings().weight.shape[0] == len(made)
        assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 0)
        assert model.config.eos_token_id == made.eos_token_id
        assert tokenizer.get_vocab() == made.get_vocab()
        texts = [
            "3 5 7 12 = 41",
            "\\boxed{3*12+5}",
            "\\boxed{(12-5)*3}<eos>",
            "12 1 2=50 3",
            "99-1",
        ]
        texts += ["1 1 1 1 = 4 ", "\\boxed{ 3 + 5 }", ""]
        for text in texts:
            ids = made(text, add_special_tokens=False)["input_ids"]
            assert tokenizer(text, add_special_tokens=False)["input_ids"] == ids
            assert tokenizer.decode(ids) == made.decode(ids)
            assert tokenizer.decode(ids, skip_special_tokens=True) == (
                text.replace(" ", "").replace("<eos>", "")
            )
        assert len(made("3 5 7 12 = 41", add_special_tokens=False)["input_ids"]) == 6
        message = [{"role": "user", "content": "3 5 = 8"}]
        assert tokenizer.apply_chat_template(message, tokenize=False) == "3 5 = 8"
    loaded, _ = load_module.load_model(
        replace(tiny().model, path=str(run / "model"), pretrain=None), run, "cpu"
    )
    plain, ids = AutoModelForCausalLM.from_pretrained(run / "model"), torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(loaded(ids).logits, plain(ids).logits, rtol=1e-5, atol=1e-5)


# ---- wandb


def test_wandb_is_not_imported_when_it_is_off(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # importing it would raise
    path = train(tiny("optim.steps=1"), progress=False)
    assert (path / "DONE").exists()


def test_wandb_gets_the_rows_of_metrics_jsonl(tiny, monkeypatch):
    sent = []
    monkeypatch.setattr(local, "mirror", lambda *_: sent.append)
    path = train(tiny("optim.steps=3"), progress=False)
    assert sent == read_jsonl(path / "metrics.jsonl")
    assert len(sent) == 3


def test_wandb_offline_writes_every_run_of_a_process_without_network(tmp_path):
    program = (
        "from pathlib import Path\n"
        "from common.backends.tracking import mirror\n"
        "for run in ('one', 'two'):\n"
        f"    send = mirror('offline', 'f_grpo', run, {{}}, Path({str(tmp_path)!r}))\n"
        "    send({'step': 1, 'reward': f'first row of {run}'})\n"
        "    send({'step': 2, 'reward': f'second row of {run}'})\n"
    )
    quiet = {"WANDB_SILENT": "true", "WANDB_BASE_URL": "http://127.0.0.1:9", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=os.environ | quiet, check=True)
    for run in ("one", "two"):
        (file,) = tmp_path.rglob(f"run-{run}.wandb")
        for row in ("first", "second"):
            assert f"{row} row of {run}".encode() in file.read_bytes()


# ---- models and checkpoints that cannot be read


def damaged_copy(source: Path, target: Path, damage: str) -> Path:
    shutil.copytree(source, target)
    weights = target / "model.safetensors"
    if damage == "no weights":
        weights.unlink()
    elif damage == "cut weights":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif damage == "corrupt header":
        weights.write_bytes(b"\xff" * 100)
    elif damage == "corrupt config":
        (target / "config.json").write_text("{")
    elif damage == "a tensor is missing":
        from safetensors.torch import load_file, save_file

        tensors = load_file(weights)
        del tensors["model.layers.0.mlp.down_proj.weight"]
        save_file(tensors, weights, metadata={"format": "pt"})
    return target


@pytest.mark.parametrize(
    "damage",
    ["no weights", "cut weights", "corrupt header", "corrupt config", "a tensor is missing"],
)
def test_a_damaged_model_is_refused_by_name(tiny, tmp_path, damage):
    source = Path(store.folder(tiny().model, Path(tiny().results_dir)))
    folder = damaged_copy(source, tmp_path / "damaged", damage)
    x = tiny("model.pretrain=null", f"model.path={folder}")
    with pytest.raises(UserError, match=f"model.path={folder}: ") as caught:
        train(x, progress=False)
    assert "fetch" in str(caught.value)


def test_a_missing_model_is_refused_by_name(tiny, tmp_path):
    x = tiny("model.pretrain=null", f"model.path={tmp_path}/nowhere")
    with pytest.raises(
        UserError, match=r"model\.path=.*nowhere: cannot be loaded .* give a folder"
    ):
        train(x, progress=False)


@pytest.mark.parametrize("damage", ["cut", "text", "other model", "pickle"])
def test_a_damaged_checkpoint_is_refused_by_name(tiny, tmp_path, damage):
    loop = make_loop(tiny(), tmp_path)
    loop.step = 2
    loop.save_checkpoint()
    path = tmp_path / "checkpoint.pt"
    assert make_loop(tiny(), tmp_path).step == 2
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "text":
        path.write_text("no checkpoint")
    elif damage == "other model":
        torch.save({"step": 2, "model": {}, "optimizer": {}}, path)
    else:
        torch.save({"step": 2, "model": Unpickled()}, path)
    with pytest.raises(UserError, match=f"{path} is damaged .*; delete it to train from the start"):
        make_loop(tiny(), tmp_path)


class Unpickled:
    def __reduce__(self):
        return os._exit, (3,)  # would end the tests: a checkpoint is data, never a program


# ---- prompts of one's own

GOOD = {"id": "a", "problem": "3 5 = 8", "answer": "3 5 = 8"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([GOOD, GOOD | {"id": "b", "answer": ""}], r"row 2: missing or empty \['answer'\]"),
        ([GOOD | {"answer": "  "}], r"row 1: missing or empty \['answer'\]"),
        ([GOOD | {"answer": None}], r"row 1: missing or empty \['answer'\]"),
        ([GOOD | {"problem": ""}], r"row 1: missing or empty \['problem'\]"),
        ([GOOD, GOOD], "row 2: id='a' occurs twice"),
        ([GOOD, GOOD | {"id": 7}, GOOD | {"id": "7"}], "row 3: id='7' occurs twice"),
        ([GOOD, {"id": "b", "problem": "x"}], r"row 2: missing or empty \['answer'\]"),
        ([{}], r"row 1: missing or empty \['id', 'problem', 'answer'\]"),
        (
            [GOOD, ["id", "problem", "answer"]],
            r"row 2: missing or empty \['id', 'problem', 'answer'\]",
        ),
        ([3], r"row 1: missing or empty"),
    ],
)
def test_jsonl_names_the_row(tmp_path, rows, message):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match=message) as caught:
        jsonl(path=str(path))
    assert str(path) in str(caught.value)


def test_jsonl_reads_prompts(tmp_path):
    path = tmp_path / "train.jsonl"
    rows = [GOOD, {"id": 2, "problem": " x \n", "answer": 0, "level": 3}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert jsonl(path=str(path)) == [
        Prompt("a", "3 5 = 8", "3 5 = 8"),
        Prompt("2", " x \n", "0"),  # the text stays as it is; an answer of 0 is an answer
    ]
    path.write_text('{"id": 1\n')
    with pytest.raises(UserError, match=r"train\.jsonl is damaged near line 1"):
        jsonl(path=str(path))
    path.write_text("")
    with pytest.raises(UserError, match=r"data\.train: no prompts"):
        check(jsonl(path=str(path)), "data.train")
    for prompt, what in (
        (Prompt("a", "", "x"), "text"),
        (Prompt("a", "x", ""), "reference answer"),
    ):
        with pytest.raises(UserError, match=f"data.train: prompt id='a' has an empty {what}"):
            check([prompt], "data.train")


def test_a_run_on_jsonl_prompts(tiny, tmp_path):
    for name, references in {
        "train": ["1 2 3 4 = 10", "1 2 3 4 = 9"],
        "test": ["2 3 4 5 = 14"],
    }.items():
        rows = [{"id": f"{name}-{r}", "problem": r, "answer": r} for r in references]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    from common.experiment import load

    given = tiny()
    x = load(
        [
            "data=jsonl",
            f"data.train.path={tmp_path}/train.jsonl",
            f"data.benchmarks.test.path={tmp_path}/test.jsonl",
            "model=huggingface",
            f"model.path={store.folder(given.model, Path(given.results_dir))}",
            f"results_dir={tmp_path}/out",
            *["sampling.prompts=2", "optim.steps=1", "eval.n=4", "eval.k=[1]", "eval.curve_n=4"],
            *["eval.rare_nll_samples=0"],
        ],
        "f_grpo",
    )
    counts = pd.read_csv(train(x, progress=False) / "counts.csv")
    assert counts[["benchmark", "problem_id", "n"]].values.tolist() == [
        ["test", "test-2 3 4 5 = 14", 4]
    ]


# ---- verdicts to rewards to rows


@pytest.mark.parametrize(
    ("correct", "wrong"),
    [(1.0, 0.0), (1.0, -1.0), (0.1, -0.6), (0.3, 0.1), (1.1, -0.4), (3.3, 0.2)],
)
def test_rewards_are_exactly_the_two_values(correct, wrong):
    verdicts = [Verdict("correct", 1.0), Verdict("wrong", 0.0), Verdict("unparsed", 0.0)] * 2
    reward = rewards(verdicts, 3, correct, wrong)
    assert reward.shape == (2, 3)
    assert (reward == correct).tolist() == [[True, False, False]] * 2
    assert (reward == wrong).tolist() == [[False, True, True]] * 2


def test_equal_responses_are_verified_once_a_reference():
    tokenizer = pretrain.tokenizer()
    texts = ["3+5", "3+5", "5", "3+5"]
    ids = tokenizer([text + "<eos>" for text in texts], add_special_tokens=False)["input_ids"]
    width = max(map(len, ids))
    response = torch.tensor([row + [0] * (width - len(row)) for row in ids])
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (width - len(row)) for row in ids])
    batch = RolloutBatch(
        torch.ones(2, 1), torch.ones(2, 1), response, mask, mask * 0, torch.ones(4).bool()
    )
    calls = []

    def verify(pairs):
        calls.extend(pairs)
        return [Verdict("wrong", 0.0, f"{text} {reference}") for text, reference in pairs]

    prompts = [Prompt("a", "", "one"), Prompt("b", "", "two")]
    out, verdicts = verify_batch(batch, prompts, tokenizer, verify)
    assert out == texts
    assert [v.parsed for v in verdicts] == ["3+5 one", "3+5 one", "5 two", "3+5 two"]
    assert calls == [("3+5", "one"), ("3+5", "one"), ("5", "two"), ("3+5", "two")]


def test_metric_rows_by_hand():
    """Problem p: right, right (the same answer), wrong, unparsed; q: right, cut off three times."""
    rows = [
        ("p", 0, "", "correct", "a", 4, -2.0, True),
        ("p", 1, "", "correct", "a", 4, -1.0, True),
        ("p", 2, "", "wrong", "b", 2, -1.0, True),
        ("p", 3, "", "unparsed", None, 2, -4.0, False),
        ("q", 0, "", "correct", "c", 4, -2.0, True),
        ("q", 1, "", "unparsed", None, 8, -2.0, False),
        ("q", 2, "", "unparsed", None, 8, -2.0, False),
        ("q", 3, "", "unparsed", None, 8, -2.0, False),
    ]
    sampled = Sampled("toy", pd.DataFrame(rows, columns=samples_module.COLUMNS))
    counts = sampled.counts()
    assert counts.values.tolist() == [["toy", "p", 4, 2, 1], ["toy", "q", 4, 1, 1]]
    got = metric_rows(sampled, [1, 2, 8]).set_index("metric")
    assert list(got.index[:2]) == ["pass@1", "pass@2"]  # k = 8 is above n = 4
    value = got["value"]
    assert value["pass@1"] == pytest.approx(37.5)  # (2/4 + 1/4) / 2
    # 1 - C(2,2)/C(4,2) = 5/6; 1 - C(3,2)/C(4,2) = 1/2; mean 2/3
    assert value["pass@2"] == pytest.approx(100 * 2 / 3)
    assert value["token_entropy"] == pytest.approx(16 / 40)  # all nats over all tokens
    assert value["sequence_entropy"] == pytest.approx(2.0)  # 8/4 and 8/4
    assert value["distinct_correct"] == 1
    assert value["valid"] == pytest.approx(50.0)  # 3/4 and 1/4
    assert value["truncated"] == pytest.approx(50.0)  # 1/4 and 3/4
    assert value["response_length"] == pytest.approx(5.0)  # 3 and 7
    assert got["stderr"]["valid"] == pytest.approx(25.0)  # sd of 75, 25 is 50/sqrt(2), over sqrt(2)
    assert (got["n_problems"] == 2).all()
    assert (got["n_samples"] == 4).all()


@pytest.mark.parametrize("batch", [4, 6, 64])
def test_every_problem_gets_its_samples_whatever_the_batch(tiny, batch):
    x = tiny(f"eval.batch={batch}")
    model, tokenizer = load_module.load_model(x.model, Path(x.results_dir), "cpu")
    prompts = [
        Prompt(text, text, text) for text in ("1 2 3 4 = 10", "5 6 7 8 = 26", "1 1 1 9 = 12")
    ]
    settings = dict(benchmark="b", n=10, settings=x.eval, seed=(0,))
    rows = samples_module.sample(model, tokenizer, prompts, in_process, **settings).rows
    assert rows.groupby("problem_id").size().to_dict() == {p.id: 10 for p in prompts}
    assert rows.groupby("problem_id")["sample"].apply(list).tolist() == [list(range(10))] * 3
    assert rows["response"].nunique() > 20  # no draw is repeated for another part of the batch


# ---- Delta NLL on rare answers


def test_rare_answers_are_the_least_likely_right_ones(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(rare_nll, "SHARE", 0.2)
    x = tiny("eval.rare_nll_samples=40")
    model, tokenizer = load_module.load_model(x.model, Path(x.results_dir), "cpu")
    prompts = [Prompt(text, text, text) for text in ("1 2 3 4 = 10", "5 6 7 8 = 26")]
    rare = rare_nll.rare_correct(model, tokenizer, prompts, all_made_up, x.eval, tmp_path)
    drawn = samples_module.sample(
        model,
        tokenizer,
        prompts,
        all_made_up,
        benchmark="rare-correct",
        n=40,
        settings=x.eval,
        seed=(0,),
    ).rows
    right = drawn[(drawn["outcome"] == "correct") & drawn["stopped"]]
    nll = (-right["log_prob"] / right["tokens"]).sort_values(ascending=False)
    assert len(rare) == round(0.2 * len(right)) > 2
    assert [row["response"] for row in rare] == right["response"][nll.index[: len(rare)]].tolist()
    ids = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    for row in rare:
        response = [*ids(row["response"]), tokenizer.eos_token_id]
        terms = slow_log_probs(model, ids(row["prompt"]), response, 1.0)
        slow = -sum(log_prob.item() for log_prob, _ in terms) / len(response)
        assert row["nll"] == pytest.approx(slow, abs=1e-5)
    row = rare_nll.delta_nll(model, tokenizer, rare, x.eval).iloc[0]
    assert row["value"] == pytest.approx(0, abs=1e-6)
    assert row["n_samples"] == len(rare)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(0.0)  # the uniform model: NLL = log V for every token
    row = rare_nll.delta_nll(model, tokenizer, rare, x.eval).iloc[0]
    mean = sum(row["nll"] for row in rare) / len(rare)
    assert row["value"] == pytest.approx(math.log(len(tokenizer)) - mean, abs=1e-4)


def test_the_cache_of_rare_answers_knows_what_they_were_drawn_with(tiny, tmp_path):
    x = tiny()
    model, tokenizer = load_module.load_model(x.model, Path(x.results_dir), "cpu")
    prompts = [Prompt("a", "1 2 3 4 = 10", "1 2 3 4 = 10")]

    def files(prompts=prompts, **changes):
        settings = replace(x.eval, **changes)
        rare_nll.rare_correct(model, tokenizer, prompts, all_made_up, settings, tmp_path)
        return len(list(tmp_path.glob("*.jsonl.gz")))

    assert files() == 1
    assert files(n=9, k=[1], every=2, curve_n=2) == 1  # of other samples
    assert files(temperature=0.5) == 2
    assert files(max_tokens=10) == 3
    assert files(rare_nll_samples=8) == 4
    assert files([Prompt("a", "1 2 3 4 = 11", "1 2 3 4 = 11")]) == 5  # the same id, another text
    assert files() == 5


def test_a_base_model_without_right_answers_leaves_the_row_out(tiny, monkeypatch):
    wrong = Verdict("wrong", 0.0, "x")
    judges = nullcontext(lambda pairs: [wrong for _ in pairs])
    monkeypatch.setattr(local, "judges", lambda *_: judges)
    rows = read_csv(train(tiny("optim.steps=1"), progress=False) / "metrics.csv")
    assert len(rows) > 10
    assert "delta_NLL_rare" not in set(rows["metric"])
