"""DLC: samples follow the exact calibrated distribution, both log-probabilities are kept, the
memory network learns what was sampled, and a killed run resumes with it."""

from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare

from common.backends.local import Loop, train
from common.errors import UserError
from common.models import load
from common.results.files import read_jsonl
from common.rollout.decoder import make_decoder
from common.rollout.dlc import CalibratedDecoder, MemoryNetwork, importance
from common.rollout.local import encode, generate
from common.types import RolloutBatch, Verdict
from common.verifiers import countdown

DLC = ("method=dlc", "method.sampler.mu=0.5")
PROMPTS = ["3 5 7 12 = 41", "1 2 3 4 = 10"]


def in_process(pairs):
    return [countdown.verify(*pair) for pair in pairs]


@pytest.fixture
def policy(tiny):
    x = tiny()
    return load.load_model(x.model, Path(x.results_dir), "cpu")


def memory_of(policy, **changes) -> MemoryNetwork:
    settings = {"mu": 0.5, "lr": 1e-2, "start": "policy", "shrink": 1, "seed": 0} | changes
    memory = MemoryNetwork(policy, **settings)
    with torch.no_grad():  # another network than the policy, with opinions of its own
        for parameter in memory.model.parameters():
            noise = torch.rand(parameter.shape, generator=torch.Generator().manual_seed(1))
            parameter.add_(0.3 * (noise - 0.5))
    return memory


def full_logits(model, tokens: list[int]) -> torch.Tensor:
    """Logits of every position, from one plain forward pass of transformers."""
    return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float()


@torch.no_grad()
def test_two_tokens_follow_the_exact_calibrated_distribution(policy):
    """Chi-square of 40,000 samples of two tokens against softmax((f - mu m) / T), enumerated."""
    model, tokenizer = policy
    memory, temperature, rows = memory_of(model), 1.3, 40_000
    ids, mask = encode(tokenizer, PROMPTS[:1], "cpu")
    prompt = ids[0].tolist()

    def calibrated(tokens: list[int]) -> torch.Tensor:
        logits = full_logits(model, tokens)[-1] - 0.5 * full_logits(memory.model, tokens)[-1]
        return torch.softmax(logits.double() / temperature, -1)

    first = calibrated(prompt)
    end = tokenizer.eos_token_id
    cells = {}
    for a, p in enumerate(first.tolist()):
        if a == end:
            cells[a, end] = p
        elif p > 1e-5:
            second = calibrated([*prompt, a])
            cells |= {(a, b): p * q for b, q in enumerate(second.tolist())}
    batch = generate(
        model,
        ids,
        mask,
        group_size=rows,
        temperature=temperature,
        max_tokens=2,
        eos_id=end,
        generator=torch.Generator().manual_seed(0),
        memory=memory,
    )
    drawn = batch.response_ids.tolist()
    counts = dict.fromkeys(cells, 0)
    for a, b in drawn:
        counts[a, end if a == end else b] = counts.get((a, end if a == end else b), 0) + 1
    frequent = [cell for cell, p in cells.items() if p * rows >= 10]
    observed = [counts[cell] for cell in frequent]
    expected = [cells[cell] * rows for cell in frequent]
    rest = max(rows - sum(expected), 1e-9)
    assert len(frequent) > 50
    assert chisquare([*observed, rows - sum(observed)], [*expected, rest]).pvalue > 1e-3
    policy_alone = torch.softmax(full_logits(model, prompt)[-1] / temperature, -1)
    assert (policy_alone - first).abs().sum() > 0.2  # the test could tell the two apart


@torch.no_grad()
def test_both_log_probabilities_are_those_of_plain_forward_passes(policy):
    model, tokenizer = policy
    memory = memory_of(model, start="random", shrink=2)
    ids, mask = encode(tokenizer, PROMPTS, "cpu")
    batch = generate(
        model,
        ids,
        mask,
        group_size=20,
        temperature=0.8,
        max_tokens=8,
        eos_id=tokenizer.eos_token_id,
        generator=torch.Generator().manual_seed(0),
        memory=memory,
    )
    for row in range(40):
        prompt = ids[row // 20][mask[row // 20].bool()].tolist()
        length = int(batch.mask[row].sum())
        response = batch.response_ids[row, :length].tolist()
        policy_logits = full_logits(model, prompt + response)[len(prompt) - 1 : -1]
        memory_logits = full_logits(memory.model, prompt + response)[len(prompt) - 1 : -1]
        chosen = torch.tensor(response)[:, None]
        for got, logits in (
            (batch.log_probs, policy_logits),
            (batch.sampler_log_probs, policy_logits - 0.5 * memory_logits),
        ):
            expected = torch.log_softmax(logits / 0.8, -1).gather(1, chosen)[:, 0]
            assert got[row, :length].tolist() == pytest.approx(expected.tolist(), abs=2e-4)
            assert got[row, length:].abs().sum() == 0


@torch.no_grad()
def test_an_empty_memory_and_mu_zero_change_nothing(policy):
    model, tokenizer = policy
    ids, mask = encode(tokenizer, PROMPTS, "cpu")
    plain = make_decoder(model, 4).prefill(ids, mask)
    empty = MemoryNetwork(model, mu=0.5, lr=1e-3, start="random", shrink=1, seed=0)
    assert torch.equal(CalibratedDecoder(model, empty, 4).prefill(ids, mask), plain)
    unheeded = memory_of(model, mu=0.0)
    assert torch.equal(CalibratedDecoder(model, unheeded, 4).prefill(ids, mask), plain)
    copied = MemoryNetwork(model, mu=0.5, lr=1e-3, start="policy", shrink=1, seed=0)
    halved = CalibratedDecoder(model, copied, 4).prefill(ids, mask)
    assert torch.allclose(halved, 0.5 * plain)


def test_the_memory_learns_what_was_sampled_and_then_makes_it_rarer(policy):
    model, tokenizer = policy
    memory = MemoryNetwork(model, mu=1.0, lr=1e-2, start="random", shrink=1, seed=0)
    ids, mask = encode(tokenizer, PROMPTS, "cpu")
    settings = {"group_size": 64, "temperature": 1.0, "max_tokens": 6}
    settings |= {"eos_id": tokenizer.eos_token_id, "memory": memory}
    draw = lambda seed: generate(  # noqa: E731
        model, ids, mask, generator=torch.Generator().manual_seed(seed), **settings
    )
    batch = draw(0)
    losses = [memory.learn(batch, micro_batch=64) for _ in range(60)]
    assert losses[0] == pytest.approx(torch.log(torch.tensor(len(tokenizer))).item(), abs=1e-4)
    assert losses[-1] < 0.5 * losses[0]
    first = batch.response_ids[:, 0]
    common = first.mode().values
    again = draw(1).response_ids[:, 0]
    assert (again == common).float().mean() < 0.7 * (first == common).float().mean()


def test_memory_steps_do_not_depend_on_micro_batches(policy):
    model, tokenizer = policy
    ids, mask = encode(tokenizer, PROMPTS, "cpu")
    states = []
    for micro_batch in (4, 1000):
        memory = MemoryNetwork(model, mu=1.0, lr=1e-2, start="random", shrink=1, seed=0)
        batch = generate(
            model,
            ids,
            mask,
            group_size=4,
            temperature=1.0,
            max_tokens=6,
            eos_id=tokenizer.eos_token_id,
            generator=torch.Generator().manual_seed(0),
            memory=memory,
        )
        memory.learn(batch, micro_batch)
        states.append(torch.cat([p.flatten() for p in memory.model.parameters()]))
    assert torch.allclose(*states, atol=1e-6)


def test_importance_by_hand():
    ids, mask = torch.ones(1, 1), torch.tensor([[1.0, 1.0, 0.0]])
    log_probs = torch.tensor([[-1.0, -1.0, 0.0]])
    sampler = torch.tensor([[-1.0 - 2.0, -1.0 + 0.5, 0.0]])
    stopped = torch.ones(1, dtype=torch.bool)
    batch = RolloutBatch(ids, ids, mask.long(), mask, log_probs, stopped, sampler)
    expected = [3.0, torch.tensor(-0.5).exp().item(), 1.0]  # e^2 = 7.4 is cut at 3
    assert importance(batch, 3.0)[0].tolist() == pytest.approx(expected)
    assert importance(batch, None) is None
    own = RolloutBatch(ids, ids, mask.long(), mask, log_probs, stopped)
    assert importance(own, 3.0) is None


def test_the_correction_reaches_the_update(tiny, tmp_path):
    """Half of the responses are right here; a cap far below 1 shrinks every token's weight."""

    def mixed(pairs):
        right = [sum(map(ord, text)) % 2 for text, _ in pairs]
        return [Verdict("correct" if r else "wrong", float(r)) for r in right]

    norms = {}
    for cap in ("null", "0.1"):
        x = tiny(*DLC, f"method.sampler.importance_cap={cap}", "method.sampler.start=policy")
        norms[cap] = Loop(x, tmp_path / cap, mixed).one_step(1)["grad_norm"]
    assert 0 < norms["0.1"] < 0.5 * norms["null"]


@pytest.mark.parametrize("start", ["random", "policy"])
def test_a_killed_run_ends_as_one_that_was_not(tiny, tmp_path, start):
    x = tiny(*DLC, f"method.sampler.start={start}", "optim.steps=4")
    whole = Loop(x, tmp_path / "whole", in_process)
    rows = [whole.one_step(step) for step in (1, 2, 3, 4)]
    first = Loop(x, tmp_path / "parts", in_process)
    parts = [first.one_step(step) for step in (1, 2)]
    first.save_checkpoint()
    second = Loop(x, tmp_path / "parts", in_process)
    parts += [second.one_step(step) for step in (3, 4)]
    assert parts == rows
    pairs = zip(whole.memory.model.parameters(), second.memory.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_a_whole_run_trains_and_logs_the_memory(tiny):
    run = train(tiny(*DLC, "method=dapo_iac_dlc"), progress=False)
    losses = [row["memory_loss"] for row in read_jsonl(run / "metrics.jsonl")]
    assert len(losses) == 6
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("method.sampler.mu=-1", "method.sampler.mu=-1.0: must be >= 0"),
        ("method.sampler.lr=0", "method.sampler.lr=0.0: must be above 0"),
        ("method.sampler.shrink=3", "method.sampler.shrink=3: must divide hidden_size=32"),
        ("method.sampler.start=zero", "method.sampler.start"),
    ],
)
def test_bad_settings_are_refused(tiny, tmp_path, override, message):
    with pytest.raises(UserError, match=message):
        Loop(tiny(*DLC, override), tmp_path, in_process)
