"""DLC: samples follow the exact calibrated distribution, both log-probabilities are kept, the
memory network learns what was sampled, and a killed run resumes with it."""

from pathlib import Path

import pytest
import torch
from refuses import refuses
from scipy.stats import chisquare
from tiny import network, speaking

from common.backends import checkpoint
from common.backends.local import Loop
from common.config.schema import MemorySettings
from common.models import load, pretrain, store
from common.rollout.dlc import MemoryNetwork, importance, memory_network
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


def made(policy, **settings) -> MemoryNetwork:
    return memory_network(MemorySettings(importance_cap=None, **settings), policy, None, seed=0)


def memory_of(policy, **changes) -> MemoryNetwork:
    settings = {"mu": 0.5, "lr": 1e-2, "start": "policy", "shrink": 1} | changes
    memory = made(policy, **settings)
    with torch.no_grad():  # another network than the policy, with opinions of its own
        for parameter in memory.model.parameters():
            noise = torch.rand(parameter.shape, generator=torch.Generator().manual_seed(1))
            parameter.add_(0.3 * (noise - 0.5))
    return memory


def drawn(model, tokenizer, memory, group_size: int, max_tokens: int, **given) -> RolloutBatch:
    ids, mask = encode(tokenizer, given.get("prompts", PROMPTS), "cpu")
    return generate(
        model,
        ids,
        mask,
        group_size=group_size,
        temperature=given.get("temperature", 1.0),
        max_tokens=max_tokens,
        eos_id=tokenizer.eos_token_id,
        generator=torch.Generator().manual_seed(given.get("seed", 0)),
        memory=memory,
    )


def full_logits(model, tokens: list[int]) -> torch.Tensor:
    """Logits of every position, from one plain forward pass of transformers."""
    return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float()


@torch.no_grad()
def test_two_tokens_follow_the_exact_calibrated_distribution(policy):
    """Chi-square of 40,000 samples of two tokens against softmax((f - mu m) / T), enumerated."""
    model, tokenizer = policy
    memory, temperature, rows = memory_of(model), 1.3, 40_000
    ids, _ = encode(tokenizer, PROMPTS[:1], "cpu")
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
    batch = drawn(model, tokenizer, memory, rows, 2, temperature=temperature, prompts=PROMPTS[:1])
    counts = dict.fromkeys(cells, 0)
    for a, b in batch.response_ids.tolist():
        counts[a, end if a == end else b] = counts.get((a, end if a == end else b), 0) + 1
    frequent = [cell for cell, p in cells.items() if p * rows >= 10]
    observed = [counts[cell] for cell in frequent]
    expected = [cells[cell] * rows for cell in frequent]
    rest = max(rows - sum(expected), 1e-9)
    assert len(frequent) > 50
    assert chisquare([*observed, rows - sum(observed)], [*expected, rest]).pvalue > 1e-3
    policy_alone = torch.softmax(full_logits(model, prompt)[-1] / temperature, -1)
    assert (policy_alone - first).abs().sum() > 0.2  # the test could tell the two apart


def random_model(kind: str, tied: bool, **sizes):
    """A tiny model of transformers with the tiny tokenizer's vocabulary."""
    tokenizer = pretrain.tokenizer()
    sizes |= {"bos_token_id": None, "head_dim": 16}
    return speaking(tokenizer, kind, tie_word_embeddings=tied, **sizes), tokenizer


SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
OTHER = {"hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 1}
GIVEN = {"mu": 0.5, "lr": 1e-2, "start": "checkpoint", "shrink": 1, "importance_cap": None}


def from_checkpoint(path, model, tokenizer) -> MemoryNetwork:
    return memory_network(MemorySettings(**GIVEN, path=str(path)), model, tokenizer, seed=0)


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])  # decoded by us, and by transformers
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("memory_tied", [True, False])
def test_a_memory_from_a_checkpoint_is_exact_with_tied_and_untied_heads(
    tmp_path, kind, tied, memory_tied
):
    """Both log-probabilities are those of two plain forward passes, before and after a step."""
    torch.manual_seed(0)
    model, tokenizer = random_model("qwen2", tied, **SIZES)
    network, own = random_model(kind, memory_tied, **OTHER)
    store.save(network, own, tmp_path / "memory")
    memory = from_checkpoint(tmp_path / "memory", model, tokenizer)
    batch = drawn(model, tokenizer, memory, 4, 5, temperature=1.3)
    assert exact(model, network, batch)
    assert batch.log_probs[batch.mask == 0].abs().sum() == 0
    assert batch.sampler_log_probs[batch.mask == 0].abs().sum() == 0
    memory.learn(batch, micro_batch=8)
    heads = memory.model.get_output_embeddings(), memory.model.get_input_embeddings()
    assert (heads[0].weight is heads[1].weight) == memory_tied
    batch = drawn(model, tokenizer, memory, 4, 5, temperature=1.3)
    assert exact(model, memory.model, batch)
    assert not exact(model, network, batch)  # it has learned


@torch.no_grad()
def exact(model, network, batch) -> bool:
    errors, ids, mask = [], batch.prompt_ids, batch.prompt_mask
    for row in range(len(batch.response_ids)):
        of = row // batch.group_size
        prompt = ids[of][mask[of].bool()].tolist()
        length = int(batch.mask[row].sum())
        response = batch.response_ids[row, :length]
        f, m = (
            full_logits(one, prompt + response.tolist())[len(prompt) - 1 : -1]
            for one in (model, network)
        )
        for got, logits in ((batch.log_probs, f), (batch.sampler_log_probs, f - 0.5 * m)):
            expected = torch.log_softmax(logits / 1.3, -1).gather(1, response[:, None])[:, 0]
            errors.append((got[row, :length] - expected).abs().max().item())
    return max(errors) < 2e-4


def test_a_memory_of_other_tokens_is_refused(tmp_path):
    model, tokenizer = random_model("qwen2", True, **SIZES)
    larger, own = random_model("qwen2", True, **SIZES, vocab_size=len(tokenizer) + 3)
    store.save(larger, own, tmp_path / "larger")
    moved = pretrain.tokenizer(tuple(reversed(pretrain.countdown.WORDS)))
    store.save(model, moved, tmp_path / "moved")
    for path in (tmp_path / "larger", tmp_path / "moved", "./none"):
        with refuses("method.sampler.path", path):
            from_checkpoint(path, model, tokenizer)


def test_the_memory_learns_what_was_sampled_and_then_makes_it_rarer(policy):
    model, tokenizer = policy
    memory = made(model, mu=1.0, lr=1e-2, start="random", shrink=1)
    batch = drawn(model, tokenizer, memory, 64, 6)
    losses = [memory.learn(batch, micro_batch=64) for _ in range(60)]
    assert losses[0] == pytest.approx(torch.log(torch.tensor(len(tokenizer))).item(), abs=1e-4)
    assert losses[-1] < 0.5 * losses[0]
    first = batch.response_ids[:, 0]
    common = first.mode().values
    again = drawn(model, tokenizer, memory, 64, 6, seed=1).response_ids[:, 0]
    assert (again == common).float().mean() < 0.7 * (first == common).float().mean()


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


def test_what_dynamic_sampling_evicts_is_remembered_or_not(tiny, tmp_path):
    """The modes that are always right carry no gradient, so they are evicted; `all` learns them."""

    def right(pairs):  # of two thirds of the prompts every response is right, of the others half
        texts = [sum(map(ord, reference)) % 3 for _, reference in pairs]
        halves = [i % 2 == 0 for i in range(len(pairs))]
        chosen = [bool(t) or half for t, half in zip(texts, halves, strict=True)]
        return [Verdict("correct" if c else "wrong", float(c)) for c in chosen]

    learned, words = {}, [*DLC, "sampling.dynamic_batches=6"]
    for remember in ("kept", "all"):
        x = tiny(*words, f"method.sampler.remember={remember}")
        loop = Loop(x, tmp_path / remember, right)
        given = []
        loop.sampler.memory.learn = lambda batch, _, given=given: given.append(batch) or 0.0
        row = loop.one_step(1)
        learned[remember] = len(given[0].prompt_ids)
    assert row["rollout_batches"] > 1
    assert learned == {"kept": 4, "all": 4 * row["rollout_batches"]}
    ids = {x.run_id for x in (tiny(*words), tiny(*words, "method.sampler.remember=kept"))}
    assert len(ids) == 2


@pytest.mark.parametrize("start", ["random", "policy", "checkpoint"])
def test_a_killed_run_ends_as_one_that_was_not(tiny, tmp_path, start):
    words = [*DLC, f"method.sampler.start={start}", "optim.steps=4"]
    if start == "checkpoint":
        path = store.folder(tiny().model, Path(tiny().results_dir))
        words.append(f"method.sampler.path={path}")
    x = tiny(*words)
    whole = Loop(x, tmp_path / "whole", in_process)
    rows = [whole.one_step(step) for step in (1, 2, 3, 4)]
    first = Loop(x, tmp_path / "parts", in_process)
    parts = [first.one_step(step) for step in (1, 2)]
    checkpoint.save(first.folder / "checkpoint.pt", first)
    second = Loop(x, tmp_path / "parts", in_process)
    parts += [second.one_step(step) for step in (3, 4)]
    assert parts == rows
    pairs = zip(
        whole.sampler.memory.model.parameters(),
        second.sampler.memory.model.parameters(),
        strict=True,
    )
    assert all(torch.equal(a, b) for a, b in pairs)


def test_heads_need_not_divide_the_inner_width():
    """Qwen2.5-1.5B: 12 heads, and 8960 / 12 is no whole number."""
    heads = dict(num_attention_heads=3, num_key_value_heads=1)
    policy = network(hidden_size=48, intermediate_size=40, vocab_size=16, **heads)
    memory = made(policy, mu=0.5, lr=1e-3, start="random", shrink=2)
    assert (memory.model.config.hidden_size, memory.model.config.intermediate_size) == (24, 20)
    ids = torch.randint(0, 16, (2, 5))
    assert torch.equal(memory.model(input_ids=ids).logits, torch.zeros(2, 5, 16))


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("mu=-1", "mu", -1),
        ("lr=0", "lr", 0),
        ("shrink=3", "shrink", 3),
        ("start=zero", "start", "zero"),
        ("start=checkpoint", "path", None),
        ("path=a/b", "path", "a/b"),
    ],
)
def test_bad_settings_are_refused(tiny, tmp_path, override, key, value):
    with refuses(f"method.sampler.{key}", str(value)):
        Loop(tiny(*DLC, f"method.sampler.{override}"), tmp_path, in_process)
