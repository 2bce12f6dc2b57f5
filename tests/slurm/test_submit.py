import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from refuses import refuses
from tiny import ROOT

from common.backends.solve_rates import measurements, on_prompts
from common.comparison.gather import gather
from common.datasets.solve_rate import unfiltered
from common.errors import UserError
from common.evaluation.config import Row
from common.results.collect import verify
from common.results.run import source
from common.sweeps.gates import Gate, Gated
from common.sweeps.measures import Measure
from common.sweeps.profiles import load_profile
from slurm import records, status
from slurm.attempts import attempts
from slurm.submit import submit
from slurm.tables import Chosen

SHORT = ("optim.steps=6", "eval.every=3", "checkpoint_every=2", "keep_checkpoints=true")


def test_jobs_import_the_snapshot_not_the_checkout(lab):
    """The snapshot's own backend is broken after submission; only a job that imports it fails."""
    (run,) = lab.runs(1, overrides=("optim.steps=0",))
    lab.submit([run], partition="high")
    (submission,) = (lab.root / "f_grpo" / "cluster").glob("2*")
    broken = submission / "code" / "common" / "backends" / "__init__.py"
    broken.write_text("raise ImportError('this is the snapshot')\n")
    one = lab.settled()[run.run_id]
    assert one.state == "failed"
    assert "this is the snapshot" in lab.show()


def test_two_methods_are_trained_evaluated_and_compared(lab):
    """The whole path: three trainings on two GPUs, each followed by its evaluation, comparison,
    rows, in a folder of any name."""
    lab.root = lab.root.rename(lab.root.with_name("one of it's"))
    same = (*SHORT, "scope=cluster", f'results_dir="{lab.root}"')
    runs = [
        run
        for name, seeds in (("grpo", (1, 2)), ("f_grpo", (1,)))
        for run in lab.runs(
            *seeds, overrides=(f"method={name}", f"name={name}", f"label={name}", *same)
        )
    ]
    evaluated = lab.evaluations(runs, checkpoint="best", baselines={"f_grpo": "grpo"})
    said = lab.submit(runs, evaluated)
    sent = Counter()
    for kind, count, *_ in map(str.split, said[2:]):
        sent[kind] += int(count)
    assert sent == {"train": 3, "evaluate": 3, "compare": 1}
    statuses = lab.settled()
    assert {one.state for one in statuses.values()} == {"done"}, lab.show()
    spans = [attempts(path.parent) for path in lab.root.glob("f_grpo/cluster/*/runs/*/*.jsonl")]
    spans = [(rows[0]["start"], rows[-1]["end"]) for rows in spans]
    for now, _ in spans:  # array_parallelism=2, of whatever kind
        assert sum(start <= now < end for start, end in spans) <= 2
    logs = {Path(row["log"]) for row in records.latest(lab.root, lab.paper).values()}
    assert len(logs) == 3 + 3 + 1
    assert all(log.exists() for log in logs)
    with refuses("results_dir", lab.root / "100%"):
        records.create(lab.root / "100%", lab.paper)
    assert lab.show().count("benchmark 2/2  chunk 6/6") == 3
    rows = gather(lab.root, "f_grpo").scopes["cluster"].rows
    for e in evaluated:
        own = rows[rows["run_id"] == e.path.name].set_index("metric")
        counts = pd.read_csv(e.path / "counts.csv")
        assert own.loc["pass@1", "value"] == pytest.approx(100 * counts["c"].sum() / (6 * 8))
        taken = json.loads((e.path / "checkpoint.json").read_text())
        assert own["step"].unique().tolist() == [taken["step"]]
        assert taken["folder"] == ("model" if taken["step"] == 6 else "checkpoints/step-00003")
    compared = pd.read_csv(lab.root / "f_grpo" / "comparison.csv")
    ours = compared[(compared["scope"] == "cluster") & (compared["metric"] == "pass@1")]
    ours = ours[ours["benchmark"] == "Natural"]
    assert ours.set_index("method")["n_seeds"].to_dict() == {"grpo": 2, "f_grpo": 1}
    (submission,) = (lab.root / "f_grpo" / "cluster").glob("2*")
    meta = json.loads((lab.root / "f_grpo" / runs[0].run_id / "meta.json").read_text())
    assert json.loads((submission / "code" / "COMMIT").read_text()) == source()
    for key in ("commit", "diff_sha256"):
        assert meta[key] == source()[key]
    assert lab.submit(runs, evaluated) == ["8 of 8 jobs done, 0 queued, 0 to submit"]


def test_what_stands_before_and_after_a_training_runs_in_its_order(lab):
    """Solve rates and a gate before it; its samples' scores and its weights after it."""
    (x,) = lab.runs(1, overrides=(*SHORT, "scope=cluster"))
    rated = x.data.train | {"solve_rate": {"n": 2, "drop_easiest": 0.25}}
    x = replace(x, data=replace(x.data, train=rated))
    (rates,) = measurements(x)
    read = on_prompts(x, unfiltered(rated), 4)
    gate = Gate(
        run="papers.fade.gate.judge",
        name="gate-start",
        paper=x.paper,
        results_dir=x.results_dir,
        model="start",
        prompts=read.path.name,
        benchmarks={},
        near={},
        above={"solve_rate": -1.0, "entropy": 0.0},
        remedy="",
    )
    row = Row(x.paper, x.scope, x.table, x.label, "weights", x.seed, x.run_id, 6, None)
    measure = Measure(
        run="papers.fade.weights.cluster.run",
        takes="papers.fade.weights.cluster.takes",
        row=row,
        model=x.model,
        steps=[3, 6],
        updates=1,
        results_dir=x.results_dir,
    )
    evaluated = lab.evaluations([x], scored=["Rare"])
    lab.submit([x], evaluated, [measure], [Gated(gate, read, [], x, {x.name})])
    statuses = lab.settled()
    assert {one.state for one in statuses.values()} == {"done"}, lab.show()
    (scored,) = (e for e in evaluated if e.scores)
    order = [rates.path, gate.path, lab.root / x.paper / x.run_id, scored.path]
    ends = [(path / "DONE").stat().st_mtime for path in (read.path, *order)]
    assert ends[0] < ends[2] < ends[3] < ends[4]
    assert ends[1] < ends[3] < (measure.path / "DONE").stat().st_mtime
    assert not [line for path in (*order, measure.path) for line in verify(path)]
    rows = gather(lab.root, x.paper).scopes["cluster"].rows
    found = {run: set(part["metric"]) for run, part in rows.groupby("run_id")}
    assert {"rank1_fraction", "rank1_fraction, step 3"} <= found[measure.path.name]
    assert "exact_token_entropy" in found[scored.path.name]


def test_a_failed_training_job_takes_its_evaluations_with_it_and_is_named(
    lab, tmp_path, monkeypatch
):
    """afterok on a failed job must not wait for ever; the comparison runs and names what lacks.

    At the end accounting is gone, for us and for the jobs: all goes on from our own records."""
    good, bad = lab.runs(1, 2, overrides=SHORT)
    place = lab.root / "f_grpo" / bad.run_id
    place.mkdir(parents=True)
    (place / "checkpoint.pt").write_bytes(b"damaged")
    evaluated = lab.evaluations([good, bad])
    lab.submit([good, bad], evaluated)
    statuses = lab.settled()
    assert statuses[good.run_id].state == "done"
    assert statuses[bad.run_id].state == "failed"
    lost = [c for c in statuses.values() if " evaluate " in c.line and c.state != "done"]
    assert ["benchmark 0/2" in c.line for c in lost] == [True]
    assert statuses["compare"].state == "done"
    shown = lab.show()
    assert f"FAILED  {bad.run_id}" in shown
    assert "checkpoint.pt is damaged" in shown
    (tmp_path / "sacct").write_text("#!/bin/sh\necho 'accounting is disabled' >&2; exit 1\n")
    (tmp_path / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    again = lab.statuses()
    assert {key: c.state for key, c in again.items() if " evaluate " not in c.line} == {
        key: c.state for key, c in statuses.items() if " evaluate " not in c.line
    }
    assert {again[c.key].state for c in lost} == {"gone"}
    assert "accounting is disabled" in again[lost[0].key].detail
    (place / "checkpoint.pt").unlink()
    assert lab.submit([good, bad], evaluated)[0] == (
        "4 of 6 jobs done, 0 queued, 3 to submit"  # it, its evaluations, the comparison
    )
    assert {one.state for one in lab.settled().values()} == {"done"}


def without_slurm(lab, *runs) -> None:
    where = {"paper": "f_grpo", "profile": load_profile("local"), "root": lab.root}
    submit(Chosen([*runs]), **where)


def test_cancel_without_slurm(lab):
    (run,) = lab.runs(1, overrides=("optim.steps=20000", "eval.every=20000"))
    without_slurm(lab, run)
    lab.training(run)
    assert lab.statuses()[run.run_id].state == "running"
    assert len(status.cancel(lab.root, "f_grpo")) == 2
    lab.wait(lambda: not any(one.queued for one in lab.statuses().values()))
    step = lab.step(run)
    time.sleep(1)
    assert lab.step(run) == step
    assert lab.statuses()[run.run_id].state == "failed"


def test_an_executor_without_slurm(lab):
    runs = lab.runs(1, 2, overrides=("optim.steps=2", "eval.every=2"))
    place = lab.root / "f_grpo" / runs[0].run_id
    place.mkdir(parents=True)
    (place / "checkpoint.pt").write_bytes(b"damaged")
    without_slurm(lab, *runs)
    lab.wait(lambda: not any(one.queued for one in lab.statuses().values()))
    statuses = lab.statuses()
    assert statuses[runs[0].run_id].state == "failed"
    assert statuses[runs[1].run_id].state == statuses["compare"].state == "done"
    assert "checkpoint.pt is damaged" in lab.show()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"partition": "nowhere"}, "partition=nowhere"),
        ({"account": "unknown"}, "account=unknown"),
        ({"light_partition": "nowhere"}, "invalid partition"),  # of the comparison's job alone
        ({"sbatch": {"reservation": "nobody"}}, "reservation is invalid"),
    ],
)
def test_what_slurm_refuses_is_refused_before_anything_is_submitted(lab, change, said):
    with pytest.raises(UserError, match="SLURM refuses a job of configs/slurm/test") as caught:
        lab.submit(lab.runs(1), **change)
    assert said in str(caught.value)
    assert not (lab.root / "f_grpo" / "cluster").exists()


def test_the_commands(lab, results):
    """submit, status and cancel as a user types them, from another folder than the checkout."""
    sweep = "{table: t, rows: [study/base], seeds: [1], overrides: ['device=cpu']}"
    words = ["scale=smoke", f"results_dir={results}", f"scales.smoke.sweeps=[{sweep}]"]

    def command(*given):
        return subprocess.run(
            [sys.executable, "-m", "rlvr_papers", given[0], "paper=f_grpo", *words, *given[1:]],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )

    submitted = command("submit", "profile=test")
    assert submitted.returncode == 0, submitted.stderr
    assert "f_grpo: 3 jobs" in command("status").stdout
    assert "3 jobs cancelled" in command("cancel").stdout
