import os
import random
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
from common.sweeps.cost import Estimate, Range
from common.sweeps.plan import evaluations_of
from common.sweeps.profiles import load_profile
from slurm import plan
from slurm.script import dependency, executor, options, parameters

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
    e = Estimate(Range(1, 1), 1, 0, 0)
    evaluations = [plan.Job("evaluate", str(i), one, (str(i % 2),), cost=e) for i in range(4)]
    made = plan.arrays(evaluations)
    assert [[j.key for j in g] for g in made] == [["0", "2"], ["1", "3"]]
    wide = replace(evaluations[0], cost=replace(e, gpus=8))  # an array asks for one size
    wider = plan.arrays([wide, *evaluations[1:]])
    assert [[j.key for j in g] for g in wider] == [["0"], ["1", "3"], ["2"]]


@pytest.mark.parametrize("gpus", [8, 16])
def test_no_more_gpus_are_in_use_than_the_profile_has_trainings_for(one, gpus):
    """Whatever each job really takes, and each after what it needs."""
    sizes, hours = random.Random(1), random.Random(2)
    jobs = [plan.Job("train", f"t{i}", one) for i in range(20)]
    jobs += [plan.Job("evaluate", f"e{i}", one, (f"t{i}", f"t{i // 2}")) for i in range(20)]
    estimates = {
        job.key: Estimate(Range(1, 1 + 9 * hours.random()), sizes.choice((1, 4, 8)), 0, 0)
        for job in jobs
    }
    jobs = [replace(job, cost=estimates[job.key]) for job in jobs]
    jobs += [plan.Job("compare", "compare", None, follows=tuple(job.key for job in jobs))]
    made = plan.capped(jobs, gpus)
    assert sorted(job.key for job in made) == sorted(job.key for job in jobs)
    for factor in (0.01, 1.0, 100.0):
        starts, ends = {}, {"": 0.0}
        for job in made:  # each is behind what it waits for
            starts[job.key] = max(ends[key] for key in ("", *job.needs, *job.follows))
            ends[job.key] = starts[job.key] + hours.random() ** factor
        for now in starts.values():
            used = [e.gpus for key, e in estimates.items() if starts[key] <= now < ends[key]]
            assert sum(used) <= gpus
    least = sum(e.hours.high * e.gpus for e in estimates.values()) / gpus
    assert least <= plan.makespan(made).high < 1.6 * least


def test_an_evaluation_takes_over_the_gpus_of_its_training(one):
    jobs = [plan.Job("train", f"t{i}", one) for i in range(3)]
    jobs += [plan.Job("evaluate", f"e{i}", one, (f"t{i}",)) for i in range(3)]
    jobs = [replace(job, cost=Estimate(Range(1, 9), 8, 0, 0)) for job in jobs]
    made = {job.key: job.follows for job in plan.capped(jobs, 16)}
    assert [*made] == ["t0", "e0", "t1", "e1", "t2", "e2"]
    assert made.pop("t2") in (("e0",), ("e1",))
    assert made == {"t0": (), "e0": ("t0",), "t1": (), "e1": ("t1",), "e2": ("t2",)}


def test_dependencies_name_elements_that_must_succeed_and_arrays_that_must_end(one):
    ids = {"a": "7_0", "b": "7_1", "c": "8"}
    job = plan.Job("evaluate", "x", one, ("a",), ("b", "a", "c", "done before"))
    assert dependency(job, ids) == "afterok:7_0,afterany:7_1:8"
    assert dependency(replace(job, kind="compare"), ids) == "afterok:7_0,afterany:7:8"
    assert dependency(plan.Job("evaluate", "x", one, ("done before",)), ids) is None


# ---- profiles and scripts


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_loads_and_asks_for_what_it_says(name, one, tmp_path):
    profile = load_profile(name)
    assert profile.accelerator in assumptions().accelerators

    def asked(kind: str, count: int = 1, needs: str | None = None) -> list[str]:
        gpus = max(1, profile.gpus) if kind == "train" else 1
        job = plan.Job(kind, "key", one, cost=Estimate(Range(1, 1), gpus, 0, 0))
        return options(parameters([job], tmp_path, profile, needs), count)

    training = asked("train", 3, "afterok:1")
    wanted = {f"--nodes={profile.nodes}", f"--time={profile.time_min}", "--requeue",
              f"--signal=USR2@{profile.signal_lead_s}", "--kill-on-invalid-dep=yes",
              "--dependency=afterok:1", "--array=0-2%3"}  # fmt: skip
    assert wanted <= {*training}
    assert any("gpus-per-node" in word for word in training) == (profile.gpus_per_node > 0)
    light = asked("compare")
    lead = min(profile.signal_lead_s, 30 * profile.light_time_min)  # at most half of its time
    assert {f"--signal=USR2@{lead}", "--nodes=1"} <= {*light}
    assert not any("gpus-per-node" in word or "array" in word for word in light)
    assert f"--array=0-99%{min(100, profile.array_parallelism)}" in asked("gate", 100)
    assert any(word.startswith("--mem=") for word in training)
    profile = replace(profile, memory_gb=None, light_memory_gb=None)
    assert not any("--mem" in word for word in (*asked("train"), *asked("gate")))
    profile = load_profile(name)
    share = profile.cpus_per_node // max(1, profile.gpus_per_node)
    wanted = {"--nodes=1", f"--cpus-per-task={share}"}
    wanted |= {"--gpus-per-node=1"} if profile.gpus_per_node else set()
    assert wanted <= {*asked("evaluate")}


@pytest.fixture
def sent(tmp_path, monkeypatch):
    """Submits jobs as submitit does, to stand-ins of SLURM's programs; returns the script."""
    (tmp_path / "bin").mkdir()
    for name in ("srun", "sbatch"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\necho Submitted batch job 7\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def sends(profile, given: dict, count: int = 1) -> str:
        array = executor(tmp_path, profile, tmp_path / "it's tasks.json", given)
        with array.batch():
            first, *_ = [array.submit(print) for _ in range(count)]
        return first.paths.submission_file.read_text()

    return sends


@pytest.mark.parametrize(("kind", "gpus", "count"), [("train", 8, 3), ("evaluate", 1, 1)])
def test_what_is_shown_is_what_submitit_asks_for(one, tmp_path, sent, kind, gpus, count):
    profile = replace(
        load_profile("h100-1x8"),
        gpu_type="h100",
        container="apptainer exec --nv my.sif",
        setup=["module load cuda"],
        sbatch={"reservation": "ours", "exclusive": True},
        srun=["--container-image=image.sqsh"],
    )
    job = plan.Job(kind, "key", one, cost=Estimate(Range(1, 1), gpus, 0, 0))
    given = parameters([job], tmp_path, profile, "afterok:1")
    text = sent(profile, given, count)
    marked = {line.removeprefix("#SBATCH ") for line in text.splitlines() if "#SBATCH" in line}
    shown = {shlex.quote(word) for word in options(given, count)}
    assert {f"--gpus-per-node=h100:{gpus}", "--reservation=ours", "--exclusive"} <= shown
    logs = {word for word in marked if word.startswith(("--output", "--error", "--open-mode"))}
    assert marked == shown | logs
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    (command,) = [line for line in text.splitlines() if line.startswith("srun")]
    words = shlex.split(command)
    assert {"--kill-on-bad-exit=1", "--container-image=image.sqsh"} <= {*words}
    at = words.index("apptainer")
    started = ["apptainer", "exec", "--nv", "my.sif", sys.executable, "-u", "-m", "slurm.start"]
    assert words[at : at + 9] == [*started, str(tmp_path / "it's tasks.json")]
    assert text.index("module load cuda") < text.index("\nsrun")


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
