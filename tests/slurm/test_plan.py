"""Plan, profiles, scripts: what needs no SLURM."""

import os
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
from lab import SETS, SWEEP
from refuses import refuses
from tiny import ROOT

from common.errors import UserError
from common.sweeps.assumptions import assumptions
from common.sweeps.plan import evaluations_of
from common.sweeps.profiles import load_profile
from slurm import plan
from slurm.script import dependency, slurm_executor
from slurm.submit import local_executor
from slurm.submitit_inside import sbatch_text

PROFILES = sorted(path.stem for path in (ROOT / "configs" / "slurm").glob("[!_]*.yaml"))


# ---- plan


def test_the_order_of_jobs_and_what_each_waits_for(tiny):
    a, b = tiny("seed=1", "label=A"), tiny("seed=1", "label=B", "name=b")
    jobs = plan.plan([a, b], evaluations_of([a, b], replace(SWEEP, baselines={"B": "A"})))
    kinds = [job.kind for job in jobs]
    assert kinds == ["model", "train", "train", "evaluate", "evaluate", "compare"]
    model, train, _, first, other = jobs[:5]
    assert train.needs == (model.key,)
    assert [e.row.benchmark for e in first.config.evaluations] == ["Natural", "Rare"]
    assert first.makes == tuple(e.path.name for e in first.config.evaluations)
    assert first.needs == (a.run_id,)
    assert other.needs == (b.run_id, a.run_id)  # the baseline's curve limits what is chosen
    assert jobs[-1].needs == ()
    assert jobs[-1].follows == tuple(job.key for job in jobs[1:-1])
    assert len({job.key for job in jobs}) == len(jobs)
    assert [job.kind for job in plan.plan([a], [])] == ["model", "train", "compare"]


def test_only_what_is_missing(tiny):
    a, b = tiny(), tiny("name=b")
    jobs = plan.plan([a, b], [])
    model = jobs[0].key

    def kinds(done, queued=()):
        return [job.key for job in plan.missing(jobs, set(done), set(queued))]

    assert kinds([]) == [model, a.run_id, b.run_id, "compare"]
    assert kinds([model, a.run_id]) == [b.run_id, "compare"]
    assert kinds([a.run_id, b.run_id, "compare"]) == []  # no model for nothing
    assert kinds([a.run_id, b.run_id]) == ["compare"]
    assert kinds([a.run_id], [b.run_id, "compare"]) == []
    assert kinds([model, "compare"], [a.run_id]) == [b.run_id, "compare"]


def test_a_model_is_evaluated_on_what_is_neither_done_nor_queued(tiny):
    x = tiny()
    three = SETS | {"Third": [*SETS["Rare"], "eval.prompts.size=3"]}
    few, many = (evaluations_of([x], replace(SWEEP, benchmarks=sets)) for sets in (SETS, three))
    (small,), (large,) = (
        [job for job in plan.plan([x], some) if job.kind == "evaluate"] for some in (few, many)
    )
    assert small.key != large.key  # both may be queued at a time
    assert set(small.makes) < set(large.makes)
    left, _ = plan.missing(plan.plan([x], many), {x.run_id, large.makes[0]}, {large.makes[1]})
    assert (left.key, left.makes) == (large.key, large.makes[2:])
    assert [e.row.benchmark for e in left.config.evaluations] == ["Third"]
    both = plan.plan([x], [*few, *many])
    assert len([job for job in both if job.kind == "evaluate"]) == 1
    scored = evaluations_of([x], replace(SWEEP, scored=[*SETS]))
    one, two = [job for job in plan.plan([x], scored) if job.kind in plan.EVALUATED]
    assert two.needs == (x.run_id, *one.makes)
    assert dependency(two, {x.run_id: "7_1"} | dict.fromkeys(one.makes, "8")) == "afterok:7_1:8"


def test_arrays_hold_equal_jobs_and_no_more_than_slurm_takes(one):
    jobs = [plan.Job("train", str(i), one) for i in range(2001)]
    assert [len(group) for group in plan.arrays(jobs)] == [1000, 1000, 1]
    evaluations = [plan.Job("evaluate", str(i), one, (str(i % 2),)) for i in range(4)]
    made = plan.arrays(evaluations, dict.fromkeys("0123", 1))
    assert [[j.key for j in g] for g in made] == [["0", "2"], ["1", "3"]]
    wider = plan.arrays(evaluations, {"0": 8, "1": 1, "2": 1, "3": 1})  # an array asks for one size
    assert [[j.key for j in g] for g in wider] == [["0"], ["1", "3"], ["2"]]


def test_dependencies_name_elements_that_must_succeed_and_arrays_that_must_end(one):
    ids = {"a": "7_0", "b": "7_1", "c": "8"}
    job = plan.Job("evaluate", "x", one, ("a",), ("b", "a", "c", "done before"))
    assert dependency(job, ids) == "afterok:7_0,afterany:7:8"
    assert dependency(plan.Job("evaluate", "x", one, ("done before",)), ids) is None


# ---- profiles and scripts


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_loads_and_makes_a_script(name, one, tmp_path):
    profile = load_profile(name)
    assert profile.accelerator in assumptions().accelerators
    job = plan.Job("train", "key", one)
    gpus = max(1, profile.gpus)
    text = sbatch_text(slurm_executor([job], tmp_path, profile, "afterok:1", gpus), 3)
    done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    wanted = [f"--nodes={profile.nodes}", f"--time={profile.time_min}", "--requeue",
              f"--signal=USR2@{profile.signal_lead_s}", "--kill-on-invalid-dep=yes",
              "--dependency=afterok:1"]  # fmt: skip
    wanted.append(f"--array=0-2%{min(3, profile.array_parallelism)}")
    for flag in wanted:
        assert f"#SBATCH {flag}\n" in text
    assert "wckey" not in text
    assert ("--gpus-per-node" in text) == (profile.gpus_per_node > 0)
    light = sbatch_text(
        slurm_executor([plan.Job("compare", "compare", None)], tmp_path, profile, None), 1
    )
    assert "--gpus-per-node" not in light
    lead = min(profile.signal_lead_s, 30 * profile.light_time_min)  # at most half of its time
    assert f"--signal=USR2@{lead}\n" in light
    assert "--nodes=1\n" in light
    job = plan.Job("evaluate", "key", None)
    evaluation = sbatch_text(slurm_executor([job], tmp_path, profile, None), 1)
    assert "--nodes=1\n" in evaluation
    if profile.gpus_per_node:
        assert "--gpus-per-node=1\n" in evaluation
        share = profile.cpus_per_node // profile.gpus_per_node
        assert f"--cpus-per-task={share}\n" in evaluation


def test_typed_gpus_containers_and_further_words_reach_sbatch_and_srun(one, tmp_path):
    profile = replace(
        load_profile("h100-1x8"),
        gpu_type="h100",
        container="apptainer exec --nv my.sif",
        setup=["module load cuda"],
        sbatch={"reservation": "ours", "exclusive": True},
        srun=["--container-image=image.sqsh"],
    )
    for kind, gpus in (("train", 8), ("evaluate", 1)):
        job = plan.Job(kind, "key", one)
        text = sbatch_text(slurm_executor([job], tmp_path, profile, None, gpus), 1)
        for flag in (
            f"--gpus-per-node=h100:{gpus}",
            "--reservation=ours",
            "--exclusive",
            "--requeue",
        ):
            assert f"#SBATCH {flag}\n" in text
        assert "--kill-on-bad-exit=1 --container-image=image.sqsh" in text
        python = shlex.quote(sys.executable)
        assert f"apptainer exec --nv my.sif {python} -u -m submitit.core._submit" in text
        assert text.index("module load cuda") < text.index("\nsrun")


def test_a_machine_without_slurm_shows_its_jobs_its_gpus(tmp_path):
    """submitit sets CUDA_VISIBLE_DEVICES to "" unless it is told of them."""
    profile = replace(load_profile("local"), gpus_per_node=8)
    job = local_executor(tmp_path, profile).submit(os.getenv, "CUDA_VISIBLE_DEVICES")
    assert job.result() == "0,1,2,3,4,5,6,7"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("nodes: 0", "nodes=0: must be at least 1"),
        ("nodse: 1", "unknown key nodse=1; did you mean nodes?"),
        ("signal_lead_s: 100000", "signal_lead_s=100000: must be less than the time limit"),
        ("memory_gb: much", "memory_gb='much'"),
        ("verl: {trainer: {nnodes: 4}}", "verl.trainer.nnodes=4"),
        ("sbatch: {time: 5}", "sbatch=['time']: these have keys of their own in a profile"),
    ],
)
def test_a_bad_profile_is_refused_by_file_and_key(tmp_path, change, said):
    text = (ROOT / "configs" / "slurm" / "h100-1x8.yaml").read_text()
    key = change.split(":")[0]
    lines = [line for line in text.splitlines() if not line.startswith(f"{key}:")]
    (tmp_path / "mine.yaml").write_text("\n".join([*lines, change]))
    with pytest.raises(UserError) as caught:
        load_profile("mine", tmp_path)
    assert said in str(caught.value)
    assert "mine.yaml" in str(caught.value)
    with refuses("profile", "nope"):
        load_profile("nope", tmp_path)


def test_a_model_that_is_not_trained_is_evaluated_and_waits_for_nothing():
    from types import SimpleNamespace as Made

    row = Made(trained="base-s1", baseline=None, checkpoint=0)
    e = Made(row=row, scores=None, path=Made(name="base-s1-AMC"))
    x = Made(run_id="base-s1", model=Made(pretrain=None, path="a/hub-id"))
    first, compare = plan.plan([x], [e])
    assert (first.kind, first.makes, first.needs, first.of) == ("evaluate", ("base-s1-AMC",), (), x)
    assert compare.follows == (first.key,)
