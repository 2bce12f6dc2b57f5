"""A training of verl in a real SLURM with all that must outlive a stop: a controller (FADE) and a
memory network that samples along (DLC), on two ranks with a vLLM each. It is told to stop in its
second step, saves it, requeues itself and goes on. The comparison follows.

Every number is checked against the local backend's own functions on the recorded tokens. With
CLUSTER_TESTS=cuda the jobs are processes of this machine, nothing is recorded and nothing stops.
"""

import copy
import os
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import torch
from runs import DEVICE, flags, of_this_run, policy, pretrained

sys.path.append(str(Path(__file__).parents[1] / "slurm"))

from lab import Lab, running, sh

from common.backends import snapshots
from common.backends.prompts import prompts
from common.backends.verl.progress import STOP
from common.experiment import load
from common.losses import contributions
from common.methods import binding as loop
from common.models.policy import log_probs
from common.results.collect import verify
from common.results.files import read_csv, read_jsonl
from common.rollout.dlc import MemoryNetwork, importance, memory_network
from common.sweeps.profiles import load_profile
from common.types import RolloutBatch
from common.verifiers import countdown

pytestmark = pytest.mark.skipif(
    find_spec("verl") is None, reason="verl is not installed here: make test-cluster runs these"
)
exact = pytest.mark.skipif(DEVICE != "cpu", reason="float32, digit by digit: on the CPU")
STEPS, PROMPTS, GROUP, DRAWN = 3, 4, 8, "drawn.jsonl"
CAP = 1.1  # of the importance ratio: a quarter of the tokens are above
# right a quarter of the time: a step in which all groups are right or wrong alike shows no loss
BETTER = ["model.pretrain.demonstrations=30000", "model.pretrain.layers=2"]
PATIENCE = 3600  # seconds that one wait may take: a start of verl takes three minutes of a core
HERE = Path(__file__).parent
MORE = [
    f"optim.steps={STEPS}",
    f"sampling.group_size={GROUP}",
    "eval.every=1",
    "keep_at=[1,2]",
    "checkpoint_every=null",
    "covariances=true",
    "method=fade",
    "method.controller.beta=0.3",
    "method.clock=rollout",
    f"method.sampler={{mu:0.2,lr:3e-3,start:policy,shrink:1,importance_cap:{CAP}}}",
]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """(lab, the Experiment). All its jobs have ended."""
    folder = tmp_path_factory.mktemp("verl-run")
    model, root, go = pretrained(folder, *BETTER), folder / "results", folder / "go"
    with running() if DEVICE == "cpu" else nullcontext() as cluster:
        lab = Lab(cluster, root, lambda *words: load(flags(model, root, *words), "f_grpo"))
        x = lab.tiny(*MORE)
        work = root / "f_grpo" / x.run_id / "work"
        saved = work / "checkpoints" / "latest_checkpointed_iteration.txt"
        if DEVICE == "cpu":
            paths = os.pathsep.join([os.environ["PYTHONPATH"], str(HERE)])
            loops = {"AGENT_LOOPS": str(HERE / "recorder.yaml"), "HELD": f"{saved}:{go}"}
            os.environ.update(loops, PYTHONPATH=paths, RECORDED=str(folder / DRAWN), RANKS="2")
        else:
            lab.profile = load_profile("local")
        # 0.6 of the lead is what a step and its checkpoint may take; CPUs as verl reserves them
        limits = dict(time_min=60, memory_gb=12, signal_lead_s=600, cpus_per_node=6)
        lab.submit([x], **limits)
        if DEVICE == "cpu":
            lab.wait(lambda: saved.exists() or not sh("squeue", "-h"), PATIENCE)
            assert saved.exists(), lab.show()  # else the job has failed
            sh("scancel", "--signal=USR2", lab.job(x))  # as before a time limit
            lab.wait((work / STOP).exists)
            go.touch()
            lab.hasten()
            lab.settled(PATIENCE)
        lab.wait(lambda: not any(one.queued for one in lab.statuses().values()), PATIENCE)
        yield lab, x


@pytest.fixture(scope="module")
def run(swept):
    """(Experiment, run folder)."""
    lab, x = swept
    return x, lab.root / lab.paper / x.run_id


@pytest.fixture(scope="module")
def recorded(run):
    """(step -> recorded responses, those of the last evaluation)."""
    x, folder = run
    rows = read_jsonl(folder.parents[2] / DRAWN)
    size = PROMPTS * GROUP
    drawn = [row for row in rows if row["source"] == "train"]
    assert len(drawn) == STEPS * size
    steps = {i + 1: drawn[i * size : (i + 1) * size] for i in range(STEPS)}
    return steps, [row for row in rows if row["source"] != "train"][-2 * 4 * x.eval.n :]


@exact
def test_it_was_told_to_stop_saved_its_step_and_went_on(swept):
    lab, x = swept
    began, stopped, again, ended = lab.attempts(x)
    assert began["step"] == 0
    assert stopped["how"] == "stopped: USR2: time limit or preemption"  # and in time
    assert 1 <= again["step"] < STEPS
    assert ended["how"] == "done"
    assert of_this_run(lab.root) == []


def test_the_comparison_followed(swept):
    lab, x = swept
    assert {one.state for one in lab.statuses().values()} == {"done"}, lab.show()
    rows = read_csv(lab.root / lab.paper / "laptop" / "metrics.csv.gz")
    assert set(rows.run_id) == {x.run_id}
    assert (lab.root / lab.paper / "comparison.csv").read_text().count("\n") > 10


def test_it_ends_as_if_nothing_had_happened(run):
    x, run = run
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


def test_samples_are_judged_as_the_verifier_judges_them(run):
    x, run = run
    counts = pd.read_csv(run / "counts.csv")
    for name in x.data.benchmarks:
        samples = read_jsonl(run / "samples" / f"{name}.jsonl.gz")
        assert len(samples) == 4 * x.eval.n
        for sample in samples:
            verdict = countdown.verify(sample["response"], sample["problem_id"])
            assert (sample["outcome"], sample["parsed"]) == (verdict.outcome, verdict.parsed)
        right = sum(sample["outcome"] == "correct" for sample in samples)
        assert counts[counts.benchmark == name].c.sum() == right


def test_the_controllers_state_survives(run):
    _, run = run
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
def test_every_response_is_drawn_with_the_memory_that_learned_from_those_before(run, recorded):
    (x, run), (steps, _) = run, recorded
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
def test_the_loss_has_the_policys_ratio_to_what_was_sampled_from(run, recorded):
    (x, run), (steps, _) = run, recorded
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
def test_the_evaluation_is_of_the_policy_alone_with_the_weights_of_its_step(run, recorded):
    """Prompt tokens, temperature, weight transfer and export in one: vLLM's log-probabilities of
    its samples are those of the exported models, on our own prompt encoding."""
    (x, run), (_, evaluated) = run, recorded
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
