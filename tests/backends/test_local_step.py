"""One step of the loop: against a slow re-implementation, its micro-batches, prompts, rates and
sampling, and what stops it."""

import copy
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from local_loop import made_up, make_loop
from plain_forward import plain_scores
from refuses import refuses

from common.backends import checkpoint, local
from common.backends.local import train
from common.models import recorded
from common.results.files import read_csv, read_jsonl
from common.rollout import samplers
from common.types import RolloutBatch, Verdict
from common.verifiers import countdown


def slow_advantages(reward: list[float], gamma: float) -> list[float]:
    size, right = len(reward), sum(reward)
    if right in (0, size):
        return [0.0] * size
    mean = right / size
    std = math.sqrt(sum((r - mean) ** 2 for r in reward) / (size - 1))
    return [(1 - mean) ** gamma * (r - mean) / (std + 1e-6) for r in reward]


def slow_step(x, model, reference, batch: RolloutBatch, reward: list[list[float]]) -> dict:
    """All optimiser steps of one rollout; returns the means of what is logged."""
    gamma = x.method.advantage.get("gamma", 0.0)
    low, high = 1 - x.method.loss["eps_low"], 1 + x.method.loss["eps_high"]
    cispo = x.method.loss["_target_"].endswith("cispo")
    G, temperature = batch.group_size, x.sampling.log_prob_temperature or x.sampling.temperature
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
                terms = zip(*plain_scores(model, prompt, response, temperature), strict=True)
                if reference is not None:
                    with torch.no_grad():
                        ref, _ = plain_scores(reference, prompt, response, temperature)
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
                        d = ref[t] - log_prob
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
    "grpo_entropy at another temperature than samples": [
        *("sampling.temperature=0.8", "sampling.log_prob_temperature=1.2"),
        *("method.entropy_coef=0.05", "method.kl_coef=0.1"),
    ],
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

    generate = samplers.generate
    monkeypatch.setattr(samplers, "generate", rollout)
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


def test_kl_in_the_reward_is_taken_off_every_response(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(countdown, "verify", made_up)
    apart = ("sampling.temperature=0.8", "sampling.log_prob_temperature=1.2")
    x = tiny("method=rloo_verl", *SMALL, "method.kl_coef=0.5", *apart)
    loop = make_loop(x, tmp_path)
    with torch.no_grad():
        for p in loop.reference.parameters():
            p.mul_(1.1)
    drawn, *rest = loop.rollout(1)
    batch, reward = drawn.batch, drawn.rewards
    monkeypatch.setattr(loop, "rollout", lambda step: (drawn, *rest))
    seen, advantages = [], local.binding.advantages

    def kept(bound, rewards, **rest):
        seen.append(rewards)
        return advantages(bound, rewards, **rest)

    monkeypatch.setattr(local.binding, "advantages", kept)
    row = loop.one_step(1)
    wanted = []
    for i, mask in enumerate(batch.mask):
        prompt = i // batch.group_size
        ids = batch.prompt_ids[prompt][batch.prompt_mask[prompt] > 0].tolist()
        response = batch.response_ids[i][mask > 0].tolist()
        with torch.no_grad():
            ref = plain_scores(loop.reference, ids, response, 1.2)[0].sum().item()
        wanted.append((batch.log_probs[i] * mask).sum().item() - ref)
    given = reward.flatten() - 0.5 * torch.tensor(wanted)
    torch.testing.assert_close(seen[0].flatten(), given, rtol=1e-4, atol=1e-4)
    assert (seen[0] - reward).abs().max() > 0.01  # it did something
    assert row["kl"] == pytest.approx(sum(wanted) / batch.mask.sum().item(), rel=1e-3)


@pytest.mark.parametrize(("temperature", "of_log_prob"), [(1.0, "null"), (0.7, "null"), (0.7, 1)])
def test_the_first_step_is_on_policy(tiny, tmp_path, monkeypatch, temperature, of_log_prob):
    monkeypatch.setattr(countdown, "verify", made_up)
    words = [f"sampling.temperature={temperature}", f"sampling.log_prob_temperature={of_log_prob}"]
    x = tiny(*words, "optim.mini_batches=1")
    row = make_loop(x, tmp_path).one_step(1)
    assert row["ratio"] == pytest.approx(1, abs=1e-5)  # sampled from what is trained
    assert row["clipped"] == 0
    assert row["grad_norm"] > 1e-3


@pytest.mark.parametrize("method", ["grpo_entropy", "cw_grpo", "clip_cov"])
def test_the_split_into_micro_batches_changes_neither_loss_nor_gradient(
    tiny, tmp_path, monkeypatch, method
):
    """Nor token weights, which are those of the whole mini-batch."""
    monkeypatch.setattr(countdown, "verify", made_up)
    results, passes = {}, []
    log_probs = recorded.log_probs
    monkeypatch.setattr(recorded, "log_probs", lambda *a: passes.append(1) or log_probs(*a))
    weighed = method != "grpo_entropy"  # in a pass of their own, with one update
    updates = f"optim.mini_batches={1 if weighed else 2}"
    # passes over four groups of 4
    expected = {1: 4, 4: 4, 8: 2, 12: 2, 1024: 1 if weighed else 2}
    for micro_batch in expected:
        settings = ["sampling.group_size=4", f"optim.micro_batch={micro_batch}", updates]
        loop = make_loop(tiny(f"method={method}", *settings), tmp_path)
        loop.optimizer.step = lambda: None
        passes.clear()
        row = loop.one_step(1)
        assert len(passes) == expected[micro_batch] * (1 + weighed)  # a group is never split
        gradient = torch.cat([p.grad.flatten() for p in loop.model.parameters()])
        results[micro_batch] = row, gradient
    row, gradient = results.pop(1024)
    assert gradient.norm() > 1e-3
    for other_row, other_gradient in results.values():
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


def test_a_cosine_ends_at_its_share_of_the_rate(tiny, tmp_path):
    words = ["optim.warmup_steps=4", "optim.decay_over=24", "optim.decay_to=0.1", "optim.lr=1e-3"]
    loop = make_loop(tiny(*words), tmp_path)
    found = [loop.set_lr(step, {}) for step in (2, 4, 14, 24)]
    assert found == pytest.approx([5e-4, 1e-3, 5.5e-4, 1e-4])
    for words in (["optim.decay_over=24", "optim.steps=25"], ["optim.decay_over=2"]):
        with refuses("optim.decay_over", words[0].partition("=")[2]):
            tiny(*words)


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
    whole, row, sampled = plain.rollout(1)
    batch, reward = whole.batch, whole.rewards
    assert sampled is batch
    mixed = reward.amax(1) > reward.amin(1)
    assert 0 < mixed.sum() < 4
    loop = make_loop(tiny("sampling.dynamic_batches=5"), tmp_path)
    kept, row, sampled = loop.rollout(1)
    filled, rewards_ = kept.batch, kept.rewards
    assert len(sampled.prompt_ids) == loop.drawn  # the evicted groups too, as they were drawn
    assert torch.equal(sampled.prompts(0, 4).mask.sum(1), batch.mask.sum(1))
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
    # Too few batches: groups without a gradient fill what is missing, and the step is taken.
    monkeypatch.setattr(countdown, "verify", lambda *pair: Verdict("wrong", 0.0))
    row = make_loop(tiny("sampling.dynamic_batches=2"), tmp_path).one_step(1)
    assert row["rollout_batches"] == 2
    assert row["grad_norm"] == 0


def test_a_controller_sees_the_step_and_its_state_is_kept(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(countdown, "verify", made_up)
    x = tiny("method=fade", "method.clock=rollout")
    loop = make_loop(x, tmp_path)
    rows = [loop.one_step(step) for step in (1, 2)]
    p_hat = 0.98 * (0.98 * 0.5 + 0.02 * rows[0]["solve_rate"]) + 0.02 * rows[1]["solve_rate"]
    assert loop.state["p_hat"] == pytest.approx(p_hat)
    assert rows[1]["alpha"] == pytest.approx(min(max(1.5 * (1 - p_hat) / p_hat, 1), 3))
    assert rows[0]["delta"] == 1  # the entropy is at its start, above its target
    assert 0.1 < loop.state["H_0"] < 5
    checkpoint.save(loop.folder / "checkpoint.pt", loop)
    again = make_loop(x, tmp_path)
    assert again.state == loop.state
    assert again.one_step(3) == loop.one_step(3)


def test_an_advantage_sees_which_answers_are_the_same_and_how_likely(tiny, tmp_path, monkeypatch):
    def by_length(response, reference):
        return Verdict("wrong", 0.0, parsed=[None, "a", "b"][len(response) % 3])

    monkeypatch.setattr(countdown, "verify", by_length)
    loop = make_loop(tiny("method=batch_exploration", "optim.mini_batches=2"), tmp_path)
    drawn, *rest = loop.rollout(1)
    monkeypatch.setattr(loop, "rollout", lambda step: (drawn, *rest))
    seen, advantages = [], local.binding.advantages

    def kept(bound, rewards, **given):
        seen.append(given)
        return advantages(bound, rewards, **given)

    monkeypatch.setattr(local.binding, "advantages", kept)
    loop.one_step(1)
    (given,), batch = seen, drawn.batch
    P, G = drawn.rewards.shape
    answers = [verdict.parsed for verdict in drawn.verdicts]
    for group, numbers in enumerate(given["outcomes"].tolist()):
        own = answers[group * G : (group + 1) * G]
        same = [[a == b for a in own] for b in own]
        assert [[a == b for a in numbers] for b in numbers] == same
    assert len({*answers}) == 3
    likely = (batch.log_probs * batch.mask).sum(1).view(P, G)
    torch.testing.assert_close(given["log_probs"], likely)


def test_the_clock_of_algorithm_2_is_the_optimiser_step(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(countdown, "verify", made_up)
    reference = "{_target_: common.advantages.group.grpo, unbiased: false, epsilon: 0}"
    words = ["method=fade", "optim.mini_batches=2", "method.controller.beta=0.5"]
    loop = make_loop(tiny(*words, f"optim.equalise_to={reference}"), tmp_path)
    reward = make_loop(tiny(*words), tmp_path).rollout(1)[0].rewards
    p_hat, alphas = 0.5, []
    for part in reward.chunk(2):
        p_hat = (p_hat + part.mean().item()) / 2
        alphas.append(min(max(1.5 * (1 - p_hat) / p_hat, 1), 3))
    assert alphas[0] != pytest.approx(alphas[1])
    rates, update = [], loop.update
    monkeypatch.setattr(
        loop,
        "update",
        lambda batch, advantages: (
            rates.append((loop.optimizer.param_groups[0]["lr"], advantages))
            or update(batch, advantages)
        ),
    )
    row = loop.one_step(1)
    assert loop.state["p_hat"] == pytest.approx(p_hat)
    assert row["alpha"] == pytest.approx(alphas[1])
    for (lr, advantages), part, alpha in zip(rates, reward.chunk(2), alphas, strict=True):
        p = part.mean(1, keepdim=True)
        assert torch.allclose(advantages.cpu(), (1 - p) ** (alpha - 1) * (part - p), atol=1e-6)
        assert lr == loop.set_lr(1, {"alpha": alpha, "delta": 1.0})
    assert rates[0][0] != rates[1][0] == row["lr"]


def test_a_gradient_that_is_not_finite_leaves_the_weights_alone(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(countdown, "verify", made_up)
    loop = make_loop(tiny(), tmp_path)
    before = [p.clone() for p in loop.model.parameters()]
    original = recorded.log_probs
    monkeypatch.setattr(
        recorded, "log_probs", lambda *a: (original(*a)[0] * math.nan, original(*a)[1])
    )
    assert math.isnan(loop.one_step(1)["grad_norm"])
    assert all(map(torch.equal, before, loop.model.parameters()))


def test_one_mini_batch_of_two_without_a_finite_gradient_shows(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(countdown, "verify", made_up)
    loop = make_loop(tiny("optim.mini_batches=2"), tmp_path)
    original, calls = loop.update, []

    def update(*given):
        calls.append(original(*given))
        return calls[-1] | ({"grad_norm": math.nan} if len(calls) == 2 else {})

    monkeypatch.setattr(loop, "update", update)
    row = loop.one_step(1)
    assert math.isnan(row["grad_norm"])
    assert row["loss"] == pytest.approx(sum(one["loss"] for one in calls) / 2)


@pytest.mark.trains
def test_a_run_that_breaks_a_rule_in_its_last_steps_is_not_finished(tiny, monkeypatch):
    original, x = local.Loop.one_step, tiny("optim.steps=3")
    lost = {"grad_norm": math.nan}
    monkeypatch.setattr(local.Loop, "one_step", lambda *given: original(*given) | lost)
    for _ in range(2):
        with refuses("grad_norm", "nan"):
            train(x, progress=False)
    run = Path(x.results_dir, x.paper, x.run_id)
    assert checkpoint.step(run / "checkpoint.pt") == 3
    assert not (run / "DONE").exists()


@pytest.mark.trains
def test_a_run_whose_gradient_is_never_finite_ends_after_a_checkpoint(tiny, monkeypatch):
    original, x = recorded.log_probs, tiny("optim.steps=5", "checkpoint_every=9")
    monkeypatch.setattr(
        recorded, "log_probs", lambda *a: (original(*a)[0] * math.nan, original(*a)[1])
    )
    run = Path(x.results_dir, x.paper, x.run_id)
    for _ in range(2):  # it does not go on by itself
        with refuses("grad_norm", "nan"):
            train(x, progress=False)
        assert [row["step"] for row in read_jsonl(run / "metrics.jsonl")] == [1, 2, 3]
        assert checkpoint.step(run / "checkpoint.pt") == 3
    assert train(replace(x, stop_rules=False), progress=False) == run
    assert math.isfinite(read_csv(run / "metrics.csv").value.iloc[0])
