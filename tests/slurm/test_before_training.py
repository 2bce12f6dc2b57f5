import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from refuses import refuses
from tiny import ROOT

from common.backends.solve_rates import measurements
from common.backends.verl.checkpoints import LATEST
from common.sweeps.plan import Command
from common.sweeps.profiles import load_profile
from slurm import plan, preflight, status
from slurm.job import Task
from slurm.records import write_tasks
from slurm.tables import Chosen

RUN = """
from pathlib import Path

def run(*, gpus, nodes, rank, address, folder, model, share):
    (folder / f"rank{rank}").write_text(f"{nodes} {address}")
    (folder / "latest_checkpointed_iteration.txt").write_text("7")
    if rank == 0 and share > 0:
        model.mkdir(parents=True)
"""


def rated(x, **asked):
    train = x.data.train | {"solve_rate": {"n": 4, "mean": 0.5} | asked}
    return replace(x, data=replace(x.data, train=train))


@pytest.fixture
def command(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    run = {"_target_": f"{tmp_path / 'own.py'}:run", "share": 1}
    return Command(run, "own.takes", str(tmp_path / "made"), "hub/start", ["in/*.csv"], "make in")


def test_trainings_on_the_same_prompts_wait_for_one_pass(tiny):
    a, b = rated(tiny("label=A")), rated(tiny("seed=2", "label=B", "method=f_grpo"))
    other, whole = rated(tiny(), n=8), tiny("name=whole")
    jobs = {job.key: job for job in plan.plan([a, b, other, whole], [])}
    rates = [job for job in jobs.values() if job.kind == "rates"]
    assert [[e.n for e in job.config.evaluations] for job in rates] == [[4], [8]]
    (model,) = [job.key for job in jobs.values() if job.kind == "model"]
    assert rates[0].needs == (model,)
    for x, needed in ((a, rates[0]), (b, rates[0]), (other, rates[1])):
        assert jobs[x.run_id].needs == (model, needed.key)
    assert jobs[whole.run_id].needs == (model,)
    every, done = [*jobs.values()], {model, a.run_id, other.run_id, whole.run_id}
    left = [job.key for job in plan.missing(every, done, set())]
    assert left == [rates[0].key, b.run_id, "compare"]  # no pass where nothing waits for it
    assert len(plan.arrays(rates)) == 1
    root = Path(a.results_dir)
    assert status.made(root, "f_grpo", rates[0]) == ()
    (made,) = measurements(a)
    made.path.mkdir(parents=True)
    (made.path / "DONE").touch()
    assert status.made(root, "f_grpo", rates[0]) == rates[0].makes


def test_what_starts_from_a_commands_model_waits_for_it(one, command, monkeypatch):
    starts = replace(one, model=replace(one.model, path=command.makes, pretrain=None))
    jobs = plan.plan([starts, replace(one, name="other")], [], {"sft": command})
    assert [job.kind for job in jobs] == ["command", "model", "train", "train", "compare"]
    assert [job.needs for job in jobs if job.kind == "train"] == [("sft",), (jobs[1].key,)]
    profile = load_profile("test")
    with refuses("inputs", "in/*.csv"):
        preflight.check(Chosen([starts], commands={"sft": command}), profile)
    Path("in").mkdir()
    Path("in/a.csv").touch()
    with refuses("loads", "hub/start"):  # the profile has no network, and that one is not cached
        preflight.check(Chosen([starts], commands={"sft": command}), profile)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    profile = replace(profile, setup=[])
    preflight.check(
        Chosen([starts], commands={"sft": command}), profile
    )  # no folder is missed that the command makes
    with refuses("model.path", command.makes):
        preflight.check(Chosen([starts]), profile)
    assert status.made(Path(), "f_grpo", jobs[0]) == ()
    Path(command.makes).mkdir()
    assert status.made(Path(), "f_grpo", jobs[0]) == jobs[0].makes


def ran(folder: Path, command: Command, nodes: int) -> list[subprocess.Popen]:
    """The tasks of a command's job, side by side as srun starts them."""
    (folder / "sft.yaml").write_text(yaml.safe_dump(asdict(command)))
    task = Task("command", "sft", "fade", str(folder), str(folder / "sft.yaml"),
                str(folder / "job"), 10, 5, nodes, 0)  # fmt: skip
    words = [sys.executable, "-m", "slurm.start", str(write_tasks(folder / "task.json", [task]))]
    found = []
    for rank in range(nodes):
        env = os.environ | {"PYTHONPATH": str(ROOT), "SLURM_PROCID": str(rank)}
        found.append(subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True))
    for process in found:
        process.communicate(timeout=120)
    return found


@pytest.mark.process
def test_every_node_runs_the_command_and_knows_the_first(command, tmp_path):
    assert [process.returncode for process in ran(tmp_path, command, 2)] == [0, 0]
    home = tmp_path / "fade" / "sft"
    first, second = ((home / f"rank{i}").read_text() for i in range(2))
    assert first == second
    assert first.startswith("2 ")
    assert (tmp_path / "made").is_dir()
    assert (home / LATEST).read_text() == "7"
    lines = [json.loads(line) for line in (tmp_path / "job" / "attempts.jsonl").open()]
    assert [line.get("how") for line in lines] == [None, "done"]


@pytest.mark.process
def test_a_command_that_leaves_no_model_has_failed(command, tmp_path):
    (process,) = ran(tmp_path, replace(command, run=command.run | {"share": 0}), 1)
    assert process.returncode == 1
    last = json.loads((tmp_path / "job" / "attempts.jsonl").read_text().splitlines()[-1])
    assert f"commands.sft.makes={command.makes}" in last["how"]
