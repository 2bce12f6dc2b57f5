"""Two steps of the local backend on the GPU and on the CPU: the same responses and curves.

A true GPU rounds otherwise, so that now and then a token differs, and from there on the curves:
there the first step is held to wider bounds, and the gradient of one batch to narrow ones.
"""

import fakecuda
import pytest
import torch
from fakecuda.graphs import CUDAGraph
from local_loop import make_loop
from tiny import network

from common.models import recorded as passes
from common.rollout.local import generate
from common.rollout.recorded import Rows
from common.types import RolloutBatch

pytestmark = pytest.mark.trains
PRETENDED = torch.version.cuda is None

MADE_UP = ["data.verifier={_target_: local_loop.made_up}"]
# Each kind of sampler, loss input, controller and option, several in a case where they may be.
CASES = {
    "grpo": [],
    "memory network": ["method=dlc", "method.sampler.importance_cap=2"],
    "memory of what is evicted": ["method=dapo_iac_dlc", "sampling.dynamic_batches=3"],
    "entropy and KL": ["method=grpo_kl", "method.kl_coef=0.1", "method.entropy_coef=0.01"],
    "token weights": ["method=cw_grpo", "covariances=true"],
    "controller": ["method=fade", "sampling.temperature=0.7", "optim.gradient_checkpointing=true"],
    "group size 1": ["method=reinforce", "sampling.group_size=1", "sampling.prompts=32"],
    "micro-batches": ["optim.micro_batch=16"],
    "bfloat16": ["optim.dtype=bfloat16"],
}
STEPS = 2
# Of the second step, 64 responses of up to 20 tokens and two updates: prompts, mask and uniforms go
# to the GPU; tokens, mask, rewards' shape and lengths come back; a look at the finished rows every
# 8 tokens; what is logged of each update; a graph is recorded for each number of rows.
WAITS = {
    "grpo": 32,
    "memory network": 40,
    "micro-batches": 34,
}


@pytest.fixture
def trained(tiny, tmp_path, monkeypatch):
    """trained(device, *words) -> (rows of the curve, drawn responses, weights, synchronisations of
    each step). With `instead`, what another device drew, both train on the same responses from the
    second step on: after an update the weights differ in their last digits, and so may a token."""

    def run(device: str, *words: str, instead: list[RolloutBatch] | None = None):
        x = tiny(f"device={device}", *MADE_UP, *words)
        folder = tmp_path / device
        folder.mkdir(exist_ok=True)
        loop, drawn = make_loop(x, folder), []
        draw = loop.sampler.draw

        def noted(*given):
            batch, gap = draw(*given)
            drawn.append(batch)
            own = instead is None or not rows
            return batch if own else moved(instead[len(drawn) - 1], device), gap

        monkeypatch.setattr(loop.sampler, "draw", noted)
        rows, waits = [], []
        for step in range(1, STEPS + 1):
            if PRETENDED:
                fakecuda.synchronisations()
            rows.append(loop.one_step(step))
            waits.append(fakecuda.synchronisations() if PRETENDED else None)
        assert loop.model.device.type == device
        return rows, drawn, loop.model.state_dict(), waits

    return run


@pytest.mark.parametrize("case", CASES)
def test_curves_are_the_cpus(case, trained):
    here, drawn_here, weights_here, _ = trained("cpu", *CASES[case])
    same = drawn_here if PRETENDED else None
    there, drawn_there, weights_there, waits = trained("cuda", *CASES[case], instead=same)
    for ours, theirs in zip(here, there, strict=True):
        assert ours.keys() == theirs.keys()
    if not PRETENDED:
        assert alike(drawn_here[0], drawn_there[0]) > 0.98
        assert there[0] == pytest.approx(here[0], rel=0.1, abs=0.05, nan_ok=True)
        return
    assert torch.equal(drawn_here[0].response_ids, drawn_there[0].response_ids.cpu())
    assert all(alike(*both) > 0.9 for both in zip(drawn_here, drawn_there, strict=True))
    bound = 1e-2 if case == "bfloat16" else 1e-5  # its products round elsewhere in other shapes
    for ours, theirs in zip(here, there, strict=True):
        assert theirs == pytest.approx(ours, rel=bound, abs=bound, nan_ok=True)
    for name, ours in weights_here.items():
        torch.testing.assert_close(
            weights_there[name].cpu(), ours, rtol=10 * bound, atol=10 * bound
        )
    if case in WAITS:
        assert sum(waits[-1].values()) <= WAITS[case], waits[-1]


def moved(batch: RolloutBatch, device: str) -> RolloutBatch:
    return RolloutBatch(
        **{
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in vars(batch).items()
        }
    )


def alike(one: RolloutBatch, other: RolloutBatch) -> float:
    """The share of places with the same token."""
    ours, theirs = one.response_ids.cpu(), other.response_ids.cpu()
    width = min(ours.shape[1], theirs.shape[1])
    return (ours[:, :width] == theirs[:, :width]).float().mean().item()


@pytest.mark.parametrize("case", ["controller", "token weights"])
def test_the_gradient_of_a_batch_is_the_cpus(case, tiny, tmp_path):
    """Both have the same batch: rounding has nothing to grow on."""
    batch, found = None, []
    for device in ("cpu", "cuda"):
        loop = make_loop(tiny(f"device={device}", *MADE_UP, *CASES[case]), tmp_path / device)
        if batch is None:
            drawn, *_ = loop.rollout(1)
            batch, reward = drawn.batch, drawn.rewards
        row = loop.update(moved(batch, device), (reward - reward.mean()).to(device))
        found.append((row, [p.grad.cpu() for p in loop.model.parameters()]))
    (here, ours), (there, theirs) = found
    bound = 1e-5 if PRETENDED else 1e-3
    assert there == pytest.approx(here, rel=bound, abs=bound)
    torch.testing.assert_close(theirs, ours, rtol=bound, atol=bound)


def test_recorded_passes_are_those_of_the_eager_ones(trained, pretended, monkeypatch):
    """Micro-batches of one shape add up; a shape is recorded when it comes again."""
    words = ["optim.micro_batch=16", "sampling.max_tokens=8"]
    CUDAGraph.recorded = 0
    recorded, *_ = trained("cuda", *words)
    number = CUDAGraph.recorded
    monkeypatch.setattr(passes, "MOST", 0)
    eager, *_ = trained("cuda", *words)
    assert CUDAGraph.recorded - number < number
    assert recorded == [pytest.approx(row, rel=1e-5, abs=1e-5, nan_ok=True) for row in eager]


def test_a_pass_that_is_not_recorded_starts_without_gradients(trained, pretended, monkeypatch):
    """Those of a large model would take the memory of its weights beside the states of the pass."""
    held, log_probs = [], passes.log_probs

    def noted(model, *given):
        held.append(any(p.grad is not None for p in model.parameters()))
        return log_probs(model, *given)

    monkeypatch.setattr(passes, "SMALL", 0)
    monkeypatch.setattr(passes, "log_probs", noted)
    trained("cuda", "optim.mini_batches=2")
    assert len(held) == 2 * STEPS
    assert not any(held)


@pytest.mark.parametrize("words", [[], ["method=dlc", "method.sampler.start=policy"]])
def test_bf16_sampling_is_as_near_as_on_the_cpu(words, trained):
    """Attention rounds elsewhere on a GPU, so that a few tokens differ; the gap to float32 is of
    the same size, and training is from float32 log-probabilities on both."""
    here, drawn_here, *_ = trained("cpu", "sampling.dtype=bfloat16", *words)
    there, drawn_there, *_ = trained("cuda", "sampling.dtype=bfloat16", *words)
    assert alike(drawn_here[0], drawn_there[0]) > 0.8
    for ours, theirs in zip(here, there, strict=True):
        assert 0 < theirs["log_prob_gap"] < 2 * ours["log_prob_gap"] < 0.05
        assert theirs["entropy"] == pytest.approx(ours["entropy"], rel=0.1)


def test_decoding_steps_are_recorded_once_for_each_number_of_rows(trained, pretended, monkeypatch):
    """Recording refuses whatever waits; a step is replayed from then on. Half of the rows leave at
    least."""
    CUDAGraph.recorded = CUDAGraph.replayed = 0
    keep, sizes = Rows.keep, []

    def noted(rows, *given, **named):
        before = len(rows.running)
        keep(rows, *given, **named)
        sizes.append((before, len(rows.running)))

    monkeypatch.setattr(Rows, "keep", noted)
    monkeypatch.setattr(passes, "MOST", 0)  # training passes are not recorded
    _, drawn, *_ = trained("cuda", *CASES["group size 1"])
    assert sizes
    assert all(2 * after <= before for before, after in sizes)
    assert CUDAGraph.recorded == STEPS + len(sizes)
    tokens = sum(batch.response_ids.shape[1] for batch in drawn)
    assert tokens <= CUDAGraph.recorded + CUDAGraph.replayed < tokens + 8 * STEPS


def test_prompts_of_several_lengths_are_sampled_as_on_the_cpu():
    """Their padding is hidden row by row, also where rows have left the batch."""
    model, lengths = network(vocab_size=12), torch.tensor([9, 3, 6, 1])
    mask = (torch.arange(9) >= 9 - lengths[:, None]).long()
    ids = torch.randint(2, 12, (4, 9)) * mask
    found = []
    for device in ("cpu", "cuda"):
        batch = generate(
            model.to(device),
            ids.to(device),
            mask.to(device),
            group_size=8,
            temperature=1.0,
            max_tokens=30,
            eos_id=1,
            generator=torch.Generator().manual_seed(2),
        )
        found.append((batch.response_ids.cpu(), batch.mask.cpu(), batch.log_probs.cpu()))
    (here, real, log_probs), (there, *theirs) = found
    assert torch.equal(here, there)
    assert real[:, 16:].sum(1).bool().float().mean() < 0.5  # most rows have left by then
    torch.testing.assert_close(theirs, [real, log_probs], rtol=1e-4, atol=1e-4)
