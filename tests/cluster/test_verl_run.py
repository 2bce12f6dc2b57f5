"""A real training with all that must outlive a kill: a controller (FADE) and a memory network that
samples along (DLC), on two ranks with a vLLM each. Killed after its first checkpoint, then finished
by the same command.

Every number is checked against the local backend's own functions on the recorded tokens.
"""

import copy
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import psutil
import pytest
import torch
from runs import DEVICE, flags, of_this_run, policy, pretrained

from common import watch
from common.backends import snapshots
from common.backends.prompts import prompts
from common.backends.verl import backend
from common.config.files import ROOT
from common.experiment import load
from common.losses import contributions
from common.methods import binding as loop
from common.models.policy import log_probs
from common.results.collect import verify
from common.results.files import read_csv, read_jsonl
from common.rollout.dlc import MemoryNetwork, importance, memory_network
from common.types import RolloutBatch
from common.verifiers import countdown

pytestmark = pytest.mark.skipif(
    find_spec("verl") is None, reason="verl is not installed here: make test-cluster runs these"
)
exact = pytest.mark.skipif(DEVICE != "cpu", reason="float32, digit by digit: on the CPU")
STEPS, PROMPTS, GROUP, RANKS = 3, 4, 8, 2
CAP = 1.1  # of the importance ratio: a quarter of the tokens are above
# right a quarter of the time: a step in which all groups are right or wrong alike shows no loss
BETTER = ["model.pretrain.demonstrations=30000", "model.pretrain.layers=2"]
PATIENCE = 1800  # seconds for a start of verl: the machine may be busy
METHOD = ["method=fade", "method.controller.beta=0.3", "method.clock=rollout"]
SAMPLER = f"method.sampler={{mu:0.2,lr:3e-3,start:policy,shrink:1,importance_cap:{CAP}}}"


def command(arguments: list[str], log: Path, recorded: Path, **more: str) -> subprocess.Popen:
    """`rlvr train paper=f_grpo <arguments>` in a session of its own, its responses recorded; `more`
    is environment."""
    paths = [str(ROOT), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    with open(log, "ab") as output:
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("runs.py")), *arguments],
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(paths), "RECORDED": str(recorded)}
            | {"RANKS": str(RANKS)}
            | more,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def stopped(trained: subprocess.Popen, log: Path, run: Path, part: str) -> None:
    """Stop a part of a training run: the run ends by itself, names the part, the log and how to
    resume, and leaves nothing running."""
    family = [psutil.Process(pid) for pid in of_this_run(run) if pid != trained.pid]
    found = [one.pid for one in watch.parts(family) if part in one.name and not one.copy]
    assert DEVICE != "cpu" or len(found) == RANKS
    os.kill(found[0], signal.SIGSTOP)
    code = trained.wait(600)
    said = log.read_text()
    assert code == 2, said[-5000:]  # of an error that is the user's to read (common/errors.py)
    assert part in said.split("the last lines:")[0]
    last = max((run / "work" / "log").glob("*.txt"))  # where Ray does not come up it starts again
    for text in ("is stopped (SIGSTOP)", str(last), "to resume from step"):
        assert text in said
    until = time.monotonic() + 300
    while of_this_run(run) and time.monotonic() < until:
        time.sleep(0.5)
    assert of_this_run(run) == []


@pytest.fixture(scope="module")
def resumed(one_start, tmp_path_factory):
    """(Experiment, run folder, step -> recorded responses, those of the last evaluation)."""
    folder = tmp_path_factory.mktemp("verl-resumed")
    more = [
        f"optim.steps={STEPS}",
        f"sampling.group_size={GROUP}",
        "eval.every=1",
        "keep_at=[1,2]",
        "checkpoint_every=null",
        "covariances=true",
        *METHOD,
        SAMPLER,
    ]
    arguments = flags(pretrained(folder, *BETTER), folder, *more)
    x = load(arguments, "f_grpo")
    run, log = folder / "f_grpo" / x.run_id, folder / "log.txt"
    latest = run / "work" / "checkpoints" / "latest_checkpointed_iteration.txt"
    first = command(arguments, log, folder / "first.jsonl", HELD_AFTER=str(latest))
    try:
        until = time.monotonic() + PATIENCE
        while not latest.exists() and first.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        assert latest.exists(), log.read_text()[-5000:]
        stopped(first, log, run, "VLLM::EngineCore")  # what nobody but us notices
    finally:
        for left in of_this_run(run):  # of one that has failed the drill
            with suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
        first.wait()
    reached = backend.checkpointed(run / "work")
    assert 1 <= reached < STEPS
    second = command(arguments, log, folder / "second.jsonl")
    assert second.wait(PATIENCE) == 0, log.read_text()[-5000:]
    before, after = (read_jsonl(folder / f"{name}.jsonl") for name in ("first", "second"))
    size = PROMPTS * GROUP
    chosen = [row for row in before if row["source"] == "train"][: reached * size]
    chosen += [row for row in after if row["source"] == "train"]
    assert len(chosen) == STEPS * size
    steps = {i + 1: chosen[i * size : (i + 1) * size] for i in range(STEPS)}
    evaluated = [row for row in after if row["source"] != "train"][-2 * 4 * x.eval.n :]
    return x, run, steps, evaluated


def test_it_ends_as_if_nothing_had_happened(resumed):
    x, run, _, _ = resumed
    assert verify(run) == []
    assert not (run / "work").exists()
    assert of_this_run(run) == []
    rows = read_csv(run / "metrics.csv")
    natural = rows[rows.benchmark == "natural"]
    last, point = set(natural[natural.step == 3].metric), set(natural[natural.step == 1].metric)
    assert {"pass@1", "pass@4", "pass@8"} <= last
    assert {name for name in point if "pass" in name} == {"pass@1", "pass@4"}  # of 4 samples
    curve = pd.read_json(run / "metrics.jsonl", lines=True)
    assert curve.step.tolist() == [1, 2, 3]
    named = "reward solve_rate active_groups unparsed timeout error response_length truncated lr"
    named += " rollout_difference rollout_difference_mean grad_norm entropy"
    named += " seconds rollout_seconds log_prob_seconds update_seconds weights_seconds"
    named += " checkpoint_seconds evaluation_seconds tokens_per_second pass@1/natural pass@1/rare"
    assert set(named.split()) <= set(curve.columns)
    scores = natural[natural.metric == "pass@1"].set_index("step").value
    assert curve.set_index("step")["pass@1/natural"].to_dict() == pytest.approx(scores.to_dict())
    assert (curve.lr == x.optim.lr).all()
    kept = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert kept == ["step-00001", "step-00002"]


def test_samples_are_judged_as_the_verifier_judges_them(resumed):
    x, run, _, _ = resumed
    counts = pd.read_csv(run / "counts.csv")
    for name in x.data.benchmarks:
        samples = read_jsonl(run / "samples" / f"{name}.jsonl.gz")
        assert len(samples) == 4 * x.eval.n
        for sample in samples:
            verdict = countdown.verify(sample["response"], sample["problem_id"])
            assert (sample["outcome"], sample["parsed"]) == (verdict.outcome, verdict.parsed)
        right = sum(sample["outcome"] == "correct" for sample in samples)
        assert counts[counts.benchmark == name].c.sum() == right


def test_the_controllers_state_survives(resumed):
    _, run, _, _ = resumed
    # alpha follows from the solve rates of all steps; a state lost at the kill would start again
    p_hat = 0.5
    for row in read_jsonl(run / "metrics.jsonl"):
        p_hat = 0.7 * p_hat + 0.3 * row["solve_rate"]
        assert row["alpha"] == pytest.approx(min(max(1.5 * (1 - p_hat) / p_hat, 1.0), 3.0))


def models_of(x, run) -> tuple[list, MemoryNetwork]:
    """The policy before each step, and the memory network, before the first."""
    folders = [Path(x.model.path), snapshots.folder(run, 1), snapshots.folder(run, 2)]
    policies = [policy(path)[0] for path in folders]
    return policies, memory_network(x.method.sampler, policies[0], None, x.seed)


def packed(rows: list[dict], group: int) -> RolloutBatch:
    """The recorded responses of a step, each prompt's together; `log_probs` are vLLM's."""
    rows = sorted(rows, key=lambda row: row["prompt"])
    prompts = [row["prompt"] for row in rows[::group]]
    assert [row["prompt"] for row in rows] == [ids for ids in prompts for _ in range(group)]
    width, longest = max(map(len, prompts)), max(len(row["response"]) for row in rows)
    ids = torch.tensor([[0] * (width - len(one)) + one for one in prompts])
    real = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts])

    def padded(name: str) -> torch.Tensor:
        return torch.tensor([row[name] + [0] * (longest - len(row[name])) for row in rows])

    lengths = torch.tensor([len(row["response"]) for row in rows])
    mask = (torch.arange(longest) < lengths[:, None]).float()
    stopped = torch.ones(len(rows), dtype=torch.bool)
    return RolloutBatch(ids, real, padded("response"), mask, padded("log_probs").float(), stopped)


@torch.no_grad()
def calibrated(network, memory, batch: RolloutBatch, mu: float) -> torch.Tensor:
    """log softmax(f - mu m) of each token, by plain forward passes of both models, (B, T)."""
    group = batch.group_size
    ids = torch.cat([batch.prompt_ids.repeat_interleave(group, 0), batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask.repeat_interleave(group, 0), batch.mask.long()], 1)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    given = dict(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False)
    logits = network(**given).logits - mu * memory(**given).logits
    chosen = logits[:, batch.prompt_ids.shape[1] - 1 : -1].log_softmax(-1)
    return chosen.gather(-1, batch.response_ids[..., None])[..., 0]


def worst(found: torch.Tensor, batch: RolloutBatch) -> float:
    return ((found - batch.log_probs).abs() * batch.mask).max().item()


@exact
def test_every_response_is_drawn_with_the_memory_that_learned_from_those_before(resumed):
    x, run, steps, _ = resumed
    policies, memory = models_of(x, run)
    mu, earlier = x.method.sampler.mu, None
    for row, network in zip(read_jsonl(run / "metrics.jsonl"), policies, strict=True):
        batch = packed(steps[row["step"]], GROUP)
        assert worst(calibrated(network, memory.model, batch, mu), batch) < 2e-3
        assert worst(calibrated(network, memory.model, batch, 0.0), batch) > 0.1
        assert row["rollout_difference_mean"] <= row["rollout_difference"] < 2e-3
        if earlier is not None:  # with the memory of the step before it would not agree
            assert worst(calibrated(network, earlier, batch, mu), batch) > 0.02
        earlier = copy.deepcopy(memory.model)
        learned = memory.learn(batch, micro_batch=16)
        assert row["memory_loss"] == pytest.approx(learned, abs=1e-4)


@exact
def test_the_loss_has_the_policys_ratio_to_what_was_sampled_from(resumed):
    x, run, steps, _ = resumed
    policies, _ = models_of(x, run)
    _, tokenizer = policy(Path(x.model.path))
    bound, state, difference = x.bound, {}, []
    references = {
        tuple(tokenizer(prompt.text, add_special_tokens=False)["input_ids"]): prompt.reference
        for prompt in prompts(x)[0]
    }
    for row, network in zip(read_jsonl(run / "metrics.jsonl"), policies, strict=True):
        drawn = packed(steps[row["step"]], GROUP)
        with torch.no_grad():
            old, _ = log_probs(network, drawn, temperature=1.0)
        batch = RolloutBatch(
            drawn.prompt_ids,
            drawn.prompt_mask,
            drawn.response_ids,
            drawn.mask,
            old * drawn.mask,
            drawn.stopped,
            drawn.log_probs,
        )
        texts = tokenizer.batch_decode(batch.response_ids, skip_special_tokens=True)
        asked = [
            references[tuple(ids[real.bool()].tolist())]
            for ids, real in zip(batch.prompt_ids, batch.prompt_mask, strict=True)
        ]
        pairs = zip(texts, [a for a in asked for _ in range(GROUP)], strict=True)
        rewards = torch.tensor([countdown.verify(*pair).reward for pair in pairs])
        rewards = rewards.view(PROMPTS, GROUP)
        assert row["reward"] == pytest.approx(rewards.mean().item())
        lengths = batch.mask.sum(1)
        surprise = (-batch.log_probs.sum(1) / lengths).mean().item()
        state, arguments = loop.observe(
            bound, state, solve_rate=row["solve_rate"], entropy=surprise, step=row["step"]
        )
        seen = {"correct": rewards == 1, "lengths": lengths.view(PROMPTS, GROUP)}
        weights = loop.advantages(bound, rewards, arguments=arguments, **seen)
        held = contributions.logged(batch.log_probs, weights.reshape(-1, 1), batch.mask)
        assert {key: row[key] for key in held} == pytest.approx(held, abs=1e-4)
        assert bool(held) == (weights != 0).any()  # else all groups were right or wrong alike
        expected = {}
        for cap in (CAP, None):
            ratio = importance(batch, cap)
            weighted = weights.reshape(-1, 1) * (1.0 if ratio is None else ratio)
            values, _ = bound.loss(batch.log_probs, batch.log_probs, weighted, batch.mask)
            expected[cap] = (values * bound.aggregate(batch.mask)).sum().item()
        assert row["loss"] == pytest.approx(expected[CAP], abs=1e-5)
        difference.append(abs(expected[None] - expected[CAP]))
    assert max(difference) > 1e-4, difference


@exact
def test_the_evaluation_is_of_the_policy_alone_with_the_weights_of_its_step(resumed):
    """Prompt tokens, temperature, weight transfer and export in one: vLLM's log-probabilities of
    its samples are those of the exported models, on our own prompt encoding."""
    x, run, _, evaluated = resumed
    batch = packed(evaluated, x.eval.n)
    for path, agrees in ((run / "model", True), (snapshots.folder(run, 2), False)):
        network, _ = policy(path)
        with torch.no_grad():
            found, _ = log_probs(network, batch, x.eval.temperature)
        assert (worst(found, batch) < 1e-3) == agrees
    sums = sorted(round(sum(row["log_probs"]), 4) for row in evaluated)
    names = (run / "samples" / f"{name}.jsonl.gz" for name in x.data.benchmarks)
    stored = sorted(sample["log_prob"] for name in names for sample in read_jsonl(name))
    assert stored == pytest.approx(sums, abs=2e-4)
