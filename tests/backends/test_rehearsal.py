"""DPH-RL's rehearsal set: what is drawn, how prompts are divided, what one update does with it."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from local_loop import made_up, make_loop, slow_log_probs

from common.backends import rehearsal
from common.backends.local import train
from common.errors import UserError
from common.experiment import load
from common.results.files import read_jsonl
from common.seeds import in_turn
from common.types import Prompt, Verdict
from common.verifiers import countdown

DPH = ("method=dph_f", "method.rehearsal.samples=4", "method.rehearsal.at_least=2")
BOTH = pytest.mark.parametrize("name", ["dph_f", "dph_js"])


@pytest.fixture
def mixed(monkeypatch):
    """Half of all responses are right, so that there is something to rehearse."""
    monkeypatch.setattr(countdown, "verify", made_up)


def files(x) -> list[Path]:
    return sorted(Path(x.results_dir).glob("models/rehearsal/*/*.jsonl.gz"))


def row(right: int, kept: bool) -> dict:
    return {"right": right, "kept": kept, "response": [1], "log_probs": [-0.5]}


def test_prompts_are_divided_by_k_answers_and_one_more():
    rows = [row(4, True), row(3, True), row(4, False), row(2, True), row(0, False)]
    assert rehearsal.divided(rows, 3) == ([0, 1], [2, 3, 4])
    assert rehearsal.divided(rows, 4) == ([0], [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(1, True), row(4, False)], "at_least=3: the base model solves none of 2 .* at most 1"),
        ([row(3, True), row(4, True)], "at_least=3: the base model solves all 2 training prompts"),
    ],
)
def test_a_set_without_one_of_the_two_is_refused(rows, message):
    with pytest.raises(UserError, match=rf"method\.rehearsal\.{message}"):
        rehearsal.divided(rows, 3)


def test_turns_are_epochs_that_any_step_can_begin():
    drawn = in_turn(5, 0, 20, 1, "rehearsal")
    epochs = [drawn[start : start + 5] for start in range(0, 20, 5)]
    assert all(sorted(epoch) == list(range(5)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert [i for at in range(0, 20, 4) for i in in_turn(5, at, 4, 1, "rehearsal")] == drawn
    assert in_turn(5, 0, 20, 2, "rehearsal") != drawn


def test_a_batch_is_padded_and_rows_of_it_only_as_far_as_they_need(tiny, tmp_path, mixed):
    loop = make_loop(tiny(*DPH), tmp_path)
    prompts = [Prompt("a", "1 4 5 9 = 10", ""), Prompt("b", "1 4 = 5", "")]
    rows = [
        {"response": [5, 6, 7], "log_probs": [-0.1, -0.2, -0.3]},
        {"response": [8], "log_probs": [-0.4]},
    ]
    batch = rehearsal.as_batch(prompts, rows, loop.tokenizer, "cpu")
    assert batch.group_size == 1
    assert batch.mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.response_ids[batch.mask > 0].tolist() == [5, 6, 7, 8]
    torch.testing.assert_close(batch.log_probs[1], torch.tensor([-0.4, 0, 0]))
    short = rehearsal.chosen(batch, [1, 1])
    assert short.response_ids.tolist() == [[8], [8]]
    assert torch.equal(short.prompt_ids[0], batch.prompt_ids[1])


def test_what_is_drawn_is_the_base_models_and_drawn_once(tiny, tmp_path, mixed):
    x = tiny(*DPH)
    loop = make_loop(x, tmp_path / "one")
    (file,) = files(x)
    rows = read_jsonl(file)
    assert len(rows) == len(loop.prompts) == 40
    texts = [loop.tokenizer.decode(r["response"], skip_special_tokens=True) for r in rows]
    for r, text, prompt in zip(rows, texts, loop.prompts, strict=True):
        assert 0 <= r["right"] <= 4
        assert (
            bool(r["response"])
            == r["kept"]
            == (r["kept"] and made_up(text, prompt.reference).reward)
        )
        if r["kept"]:
            ids = loop.tokenizer(prompt.text, add_special_tokens=False)["input_ids"]
            with torch.no_grad():
                slow = [
                    one.item() for one, _ in slow_log_probs(loop.model, ids, r["response"], 1.0)
                ]
            assert r["log_probs"] == pytest.approx(slow, abs=1e-5)
    never = {p.id for p in loop.prompts if p.reference.endswith(("4", "8"))}
    assert all(r["right"] == 0 for r, p in zip(rows, loop.prompts, strict=True) if p.id in never)
    assert 3 < sum(r["right"] for r in rows) / (40 - len(never)) * 2 < 5  # half of 4

    before = file.read_bytes()
    others = ["method=dph_js", "seed=2", "method.rehearsal.at_least=3", "sampling.group_size=8"]
    for word in others:  # the same file
        again = make_loop(tiny(*DPH, word), tmp_path / word)
        assert files(x) == [file]
        assert len(again.extra_loss.rehearsed.prompt_ids) + len(again.explored) == 40
    assert file.read_bytes() == before
    make_loop(tiny(*DPH, "sampling.temperature=0.9"), tmp_path / "other")
    assert len(files(x)) == 2


def test_the_further_answer_is_none_of_the_k(tiny, tmp_path, mixed):
    loop = make_loop(tiny(*DPH), tmp_path)
    right = Verdict("correct", 1.0)
    verdicts = iter([right, Verdict("wrong", 0.0), right, right, right])  # of one prompt
    (row,) = rehearsal.presampled(
        loop.model,
        loop.tokenizer,
        loop.prompts[:1],
        lambda pairs: [next(verdicts) for _ in pairs],
        samples=4,
        temperature=1.0,
        max_tokens=20,
        verifier=loop.x.data.verifier,
        results_dir=tmp_path,
        cache=tmp_path,
    )
    assert row["right"] == 3
    assert row["kept"]
    assert len(row["response"]) == len(row["log_probs"]) > 0


def test_optimiser_steps_rehearse_in_turn(tiny, tmp_path, mixed, monkeypatch):
    """Two a rollout here, each the next 4 of the set: an epoch has each answer once."""
    loop = make_loop(tiny(*DPH), tmp_path)
    numbers, drawn, turn, chosen = [], [], loop.extra_loss.turn, rehearsal.chosen
    monkeypatch.setattr(loop.extra_loss, "turn", lambda n: numbers.append(n) or turn(n))
    monkeypatch.setattr(rehearsal, "chosen", lambda b, rows: drawn.extend(rows) or chosen(b, rows))
    for step in range(1, 5):
        loop.one_step(step)
    assert numbers == list(range(8))
    pool = len(loop.extra_loss.rehearsed.prompt_ids)
    assert 4 < pool < 32
    assert sorted(drawn[:pool]) == list(range(pool))


def test_rl_goes_over_the_other_prompts(tiny, tmp_path, mixed):
    loop = make_loop(tiny(*DPH), tmp_path)
    rows = read_jsonl(files(loop.x)[0])
    known = {p.id for p, r in zip(loop.prompts, rows, strict=True) if r["right"] >= 2 and r["kept"]}
    assert 3 < len(known) < 30
    drawn = [p.id for _ in range(20) for p in loop.draw_prompts()]
    assert set(drawn) == {p.id for p in loop.prompts} - known
    assert len(loop.prompts) == 40  # what Delta NLL takes its prompts from


@BOTH
@pytest.mark.parametrize("micro_batch", [3, 1024])
def test_the_gradient_is_eta_times_that_of_the_slow_divergence(
    tiny, tmp_path, mixed, name, micro_batch
):
    words = ("method.rehearsal.eta=0.3", "sampling.temperature=0.8")
    loop = make_loop(
        tiny(*DPH, f"method={name}", *words, f"optim.micro_batch={micro_batch}"), tmp_path
    )
    with torch.no_grad():
        for p in loop.model.parameters():
            p.mul_(1.1)
    batch = loop.extra_loss.turn(0)
    assert len(batch.prompt_ids) == 4  # 2 prompts an optimiser step x 16 responses, an eighth of it
    total = 0.0
    for i in range(len(batch.prompt_ids)):
        prompt = batch.prompt_ids[i][batch.prompt_mask[i] > 0].tolist()
        response = batch.response_ids[i][batch.mask[i] > 0].tolist()
        slow = slow_log_probs(loop.model, prompt, response, 0.8)
        for (log_prob, _), ref in zip(slow, batch.log_probs[i].tolist(), strict=False):
            u = (log_prob - ref).exp()
            js = u * u.log() - (u + 1) * ((u + 1) / 2).log()
            total = total + (js if name == "dph_js" else u - 1 - u.log())
    total = total / batch.mask.sum()
    expected = torch.autograd.grad(0.3 * total, list(loop.model.parameters()))
    assert total.item() > 1e-3
    loop.optimizer.zero_grad()
    logged = loop.extra_loss.backward(loop.model, 0)
    assert logged["rehearsal"].item() == pytest.approx(total.item(), rel=1e-4)
    assert logged["loss"].item() == pytest.approx(0.3 * total.item(), rel=1e-4)
    for p, gradient in zip(loop.model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, gradient, rtol=1e-3, atol=1e-6)


def test_an_update_adds_it_to_the_gradient_of_rl(tiny, tmp_path, mixed):
    """The update's gradient less RL's is that of the rehearsal alone, and the loss says so."""
    loop = make_loop(tiny(*DPH, "method.rehearsal.eta=0.5", "optim.grad_clip=1e9"), tmp_path)
    with torch.no_grad():
        for p in loop.model.parameters():
            p.mul_(1.1)
    batch, reward, _, _ = loop.rollout(1)
    loop.optimizer.step = lambda: None
    extra_loss, advantages = loop.extra_loss, reward - reward.mean(1, keepdim=True)

    def gradient():
        return torch.cat([p.grad.flatten().clone() for p in loop.model.parameters()])

    loop.extra_loss = None
    alone = loop.update(batch, advantages, 0)
    of_rl = gradient()
    loop.extra_loss = extra_loss
    both = loop.update(batch, advantages, 0)
    of_both = gradient()
    loop.optimizer.zero_grad()
    divergence = extra_loss.backward(loop.model, 0)["rehearsal"].item()
    torch.testing.assert_close(of_both - of_rl, gradient(), rtol=1e-4, atol=1e-6)
    assert gradient().norm() > 1e-2
    assert both["rehearsal"] == pytest.approx(divergence)
    assert "rehearsal" not in alone
    assert both["loss"] == pytest.approx(alone["loss"] + 0.5 * divergence, abs=1e-6)


@BOTH
def test_it_holds_the_policy_near_the_base_model(tiny, tmp_path, mixed, name):
    """After the same steps of RL, with a large eta, it is nearer; it begins at no distance."""
    last = {}
    for eta in (1e-6, 30):
        x = tiny(*DPH, f"method={name}", f"method.rehearsal.eta={eta}", "optim.mini_batches=1")
        loop = make_loop(x, tmp_path / str(eta))
        rows = [loop.one_step(step) for step in range(1, 13)]
        assert abs(rows[0]["rehearsal"]) < 1e-6
        last[eta] = sum(row["rehearsal"] for row in rows[-3:]) / 3
    assert 0 < last[30] < 0.5 * last[1e-6]


def test_a_killed_run_ends_as_one_that_was_not(tiny, tmp_path, mixed):
    x = tiny(*DPH)
    whole = make_loop(x, tmp_path / "whole")
    rows = [whole.one_step(step) for step in (1, 2, 3, 4)]
    kept = files(x)[0].read_bytes()
    first = make_loop(x, tmp_path / "parts")
    parts = [first.one_step(step) for step in (1, 2)]
    first.save_checkpoint()
    second = make_loop(x, tmp_path / "parts")
    parts += [second.one_step(step) for step in (3, 4)]
    assert parts == rows
    for one, two in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, two)
    files(x)[0].unlink()
    make_loop(x, tmp_path / "made again")
    assert files(x)[0].read_bytes() == kept


def test_a_resumed_command_leaves_the_same_bytes(tiny):
    """With the task's own verifier in its workers; stopped in the middle and started again."""
    # the tiny model is right two times in a hundred
    often = ["method.rehearsal.samples=32", "method.rehearsal.at_least=1", "data.train.size=1000"]
    x = tiny("method=dph_js", *often)

    def content(run: Path) -> dict:
        names = {str(f.relative_to(run)): f for f in run.rglob("*") if f.is_file()}
        return {
            n: f.read_bytes() for n, f in names.items() if n not in ("meta.json", "DONE", ".lock")
        }

    run = train(x, progress=False)
    expected = content(run)
    assert all(math.isfinite(r["rehearsal"]) for r in read_jsonl(run / "metrics.jsonl"))
    shutil.rmtree(run)
    steps = iter(range(100))

    def stop_at_the_fourth():
        if next(steps) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(x, progress=False, on_step=stop_at_the_fourth)
    assert not (run / "DONE").exists()
    assert train(x, progress=False) == run
    assert content(run) == expected


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("method.rehearsal.eta=0", r"method\.rehearsal\.eta=0\.?0?: must be above 0"),
        ("method.rehearsal.share=0", r"method\.rehearsal\.share=0\.?0?: must be above 0"),
        ("method.rehearsal.samples=0", r"method\.rehearsal\.samples=0: must be at least 1"),
        ("method.rehearsal.at_least=0", r"method\.rehearsal\.at_least=0: must be at least 1"),
        (
            "method.rehearsal.at_least=5",
            r"method\.rehearsal\.at_least=5: must be at most samples=4",
        ),
        ("+method.rehearsal.beta=1", r"method\.rehearsal\.beta=1"),
        (
            "method.rehearsal.divergence._target_=common.losses.divergences.none",
            r"method\.rehearsal\.divergence\._target_=common\.losses\.divergences\.none: cannot",
        ),
        (
            "+method.rehearsal.divergence.alpha=2",
            r"method\.rehearsal\.divergence\.alpha=2: unknown",
        ),
        ("backend=verl", r"method\.rehearsal=dph_f: backend=verl has no rehearsal set .*null"),
    ],
)
def test_bad_settings_are_refused(tiny, override, message):
    with pytest.raises(UserError, match=message):
        tiny(*DPH, override)


def test_a_divergence_of_another_shape_is_refused_before_anything_runs(tiny, tmp_path):
    own = tmp_path / "mine.py"
    own.write_text(
        "def mean(log_prob, ref_log_prob):\n    return (log_prob - ref_log_prob).mean()\n"
    )
    with pytest.raises(UserError, match=r"method\.rehearsal\.divergence=.*mean: gave \(\) where"):
        tiny(*DPH, f"method.rehearsal.divergence._target_={own}:mean")


def test_every_setting_names_another_run():
    words = ["eta=0.02", "samples=9", "at_least=5", "share=0.5"]
    all_words = [["method=dph_f", f"method.rehearsal.{word}"] for word in words]
    all_words += [["method=dph_f"], ["method=dph_js"]]
    assert len({load(["name=x", *some], "f_grpo").run_id for some in all_words}) == 6
