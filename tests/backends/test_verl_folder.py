import asyncio
import io
import json
import math
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import datasets
import pandas as pd
import pytest
from omegaconf import OmegaConf
from pyarrow.parquet import ParquetFile
from refuses import refuses
from tiny import ROOT

from common.backends.verl import backend, data, reward, rows
from common.backends.verl.checkpoints import LATEST
from common.errors import UserError
from common.experiment import load
from common.health import Guard
from common.models.pretrain import tokenizer
from common.results.files import read_jsonl, write_json
from common.types import Prompt, Verdict
from slurm.stop import Stop, Stopped

SAVED = {"FSDP_version": 2, "world_size": 8}  # verl's fsdp_config.json
TINY = ["device=cpu", "optim.steps=6", "eval.every=3", "eval.n=8", "eval.k=[1]", "eval.curve_n=4"]


@pytest.mark.parametrize(
    ("saved", "evaluated", "expected"),
    [
        (0, [], (False, False)),
        (2, [], (False, False)),  # no point of the curve
        (3, [3], (False, False)),
        (3, [], (False, True)),  # killed between the checkpoint and its evaluation
        (6, [3], (True, True)),  # only the last evaluation is missing
        (6, [3, 6], None),
    ],
)
def test_what_the_next_launch_does(saved, evaluated, expected, tmp_path):
    x, work = load([*TINY], "f_grpo"), tmp_path / "work"  # 6 steps, evaluated every 3
    latest = work / "checkpoints" / "latest_checkpointed_iteration.txt"
    latest.parent.mkdir(parents=True)
    if saved:
        latest.write_text(str(saved))
    (work / "validation").mkdir()
    for step in evaluated:
        (work / "validation" / f"{step}.jsonl").write_text("")
    found = backend.launch_settings(x, work)
    keys = ("trainer.val_only", "trainer.val_before_train")
    assert found == (None if expected is None else dict(zip(keys, expected, strict=True)))
    if expected == (False, True):  # not again what a shorter run has evaluated where it ended
        earlier = tmp_path / "eval" / "step-00003-counts.csv"
        earlier.parent.mkdir()
        earlier.write_text("")
        assert not backend.launch_settings(x, work)["trainer.val_before_train"]


def test_a_run_goes_on_only_on_as_many_gpus_as_have_saved_it(tmp_path, monkeypatch):
    x = load([*TINY, f"results_dir={tmp_path}", "backend=verl"], "f_grpo")
    work = tmp_path / x.paper / x.run_id / "work"
    write_json(work / "checkpoints" / "global_step_3" / "actor" / "fsdp_config.json", SAVED)
    (work / "checkpoints" / LATEST).write_text("3")
    place = SimpleNamespace(work=work, nodes=2, gpus=8)
    monkeypatch.setattr(backend.config, "tree", lambda: None)  # verl is not installed here
    monkeypatch.setattr(backend, "place_of_this_machine", lambda *_: place)
    monkeypatch.setattr(backend, "prepare", lambda *_: 1 / 0)  # what follows the check
    with refuses("gpus", 16):
        backend.train(x)
    place.nodes = 1
    with pytest.raises(ZeroDivisionError):
        backend.train(x)


def test_a_validation_that_does_not_fit_is_left_to_the_next_attempt(tmp_path, monkeypatch):
    """45 minutes are left, a step takes a minute, the validation before step 6 took 40 minutes: the
    stop is asked for during step 6, before the validation, which would not hear it, and not before.
    """
    x = load([*TINY, f"results_dir={tmp_path}", "backend=verl", "optim.steps=9"], "f_grpo")
    work = tmp_path / x.paper / x.run_id / "work"
    (work / "checkpoints").mkdir(parents=True)
    place = SimpleNamespace(work=work, nodes=1, gpus=8, model="m")
    monkeypatch.setattr(backend.config, "tree", lambda: None)  # verl is not installed here
    monkeypatch.setattr(backend, "place_of_this_machine", lambda *_: place)
    monkeypatch.setattr(backend, "prepare", lambda *_: (9, 99))
    monkeypatch.setattr(backend, "layout_keys", lambda *_: {})
    monkeypatch.setattr(backend.config, "settings", lambda *_: {})
    monkeypatch.setattr(backend.config, "compose", lambda _: OmegaConf.create())
    monkeypatch.setattr(backend, "longer", SimpleNamespace(**{
        name: lambda *_: None for name in ("reopen", "require_before")}))  # fmt: skip
    monkeypatch.setattr(backend.eased, "shortest", lambda *_: 1)
    monkeypatch.setattr(backend.dlc, "settings", lambda *_: {})
    stop, asked = Stop(time.time() + 2700, 900), []

    def launch(*_, on_step, **__):
        for step in range(1, 10):
            try:
                on_step(60.0)  # during the step
            except Stopped as stopped:
                asked.append(step)
                raise stopped
            data = {"rlvr/reward": 0.5, "timing_s/step": 60.0}
            yield {"step": step, "data": data | ({"timing_s/testing": 2400.0} if step == 3 else {})}

    monkeypatch.setattr(backend.process, "launch", launch)
    with pytest.raises(Stopped):
        backend.train(x, progress=False, on_step=stop.between_steps)
    assert asked == [6]


def test_the_nodes_of_a_ray_cluster_that_is_there_are_counted(tmp_path, monkeypatch):
    """RAY_ADDRESS of KubeRay or SkyPilot, without SLURM; a head without GPUs is none of them."""
    nodes = [("a", True, 8), ("b", True, 8), ("head", True, 0), ("gone", False, 8)]
    alive = [{"Alive": up, "Resources": {"GPU": gpus} if gpus else {}} for _, up, gpus in nodes]
    ray = SimpleNamespace(init=lambda **_: nullcontext(), nodes=lambda: alive)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    x = load([*TINY, "device=auto", f"results_dir={tmp_path}"], "f_grpo")
    place = backend.place_of_this_machine(x, tmp_path)
    assert (place.nodes, place.gpus, place.cpus) == (2, 8, None)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")  # a job's own Ray
    assert backend.place_of_this_machine(x, tmp_path).nodes == 1


def test_of_the_work_folder_the_last_checkpoint_alone_is_kept_on_demand(tmp_path):
    x, work = load([*TINY, "keep_state=true"], "f_grpo"), tmp_path / "work"
    for step in (3, 6):
        (work / "checkpoints" / f"global_step_{step}" / "actor").mkdir(parents=True)
    (work / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("6")
    (work / "log").mkdir()
    (work / "train.parquet").write_text("")
    backend.only_state(x, work)
    names = sorted(path.name for path in work.rglob("*"))
    assert names == ["actor", "checkpoints", "global_step_6", "latest_checkpointed_iteration.txt"]


def test_a_longer_run_keeps_the_evaluations_of_the_shorter_one(tmp_path):
    words = [*TINY, "eval.n=2", "eval.k=[1,2]", "eval.curve_n=1"]
    short, longer = (load([*words, f"optim.steps={n}"], "f_grpo") for n in (3, 6))
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "active_groups": 0.5}\n')
    dump(tmp_path / "work" / "validation" / "3.jsonl")
    rows.write_results(short, tmp_path, tmp_path / "work")
    stored = (tmp_path / "eval" / "step-00003.csv").read_bytes()
    (tmp_path / "work" / "validation" / "3.jsonl").rename(tmp_path / "3.jsonl")
    dump(tmp_path / "work" / "validation" / "6.jsonl")
    rows.write_results(longer, tmp_path, tmp_path / "work")
    assert (tmp_path / "eval" / "step-00003.csv").read_bytes() == stored
    assert set(pd.read_csv(tmp_path / "metrics.csv")["step"]) == {3, 6}
    # stopped before it was finished, it has the samples of the last step on its curve
    (tmp_path / "3.jsonl").rename(tmp_path / "work" / "validation" / "3.jsonl")
    assert len(rows.sampled(longer, tmp_path / "work", 3)[0].rows) == 4


def test_log_probs_at_another_temperature_than_the_samples_make_no_entropy(tmp_path):
    words = [*TINY, "eval.n=2", "eval.k=[1,2]", "sampling.temperature=0.7", "backend=verl"]
    dump(tmp_path / "validation" / "6.jsonl")
    for apart, of_eval, missing in (("1", "0.6", True), ("1", "1", False), ("null", "0.6", False)):
        more = f"sampling.log_prob_temperature={apart}", f"eval.temperature={of_eval}"
        found = rows.sampled(load([*words, *more, "eval.curve_n=1"], "f_grpo"), tmp_path, 6)
        assert {bool(one.rows.log_prob.isna().all()) for one in found} == {missing}


def test_every_column_is_found_in_a_line_that_verl_has_logged():
    """A step of a real run on a CPU, where PyTorch counts no memory."""
    (line,) = read_jsonl(ROOT / "tests" / "backends" / "verl_line.jsonl")
    row = rows.curve_row(line)
    data = line["data"]
    assert data["actor/perf/max_memory_allocated_gb"] == row["memory_gib"] == 0.0
    absent = {"actor/kl_loss", "timing_s/ref", "rollout_corr/rollout_is_mean"}  # not in this run
    absent |= {"timing_s/save_checkpoint", "timing_s/testing"}  # not in this step
    absent |= {"actor/asleep_gib"}  # of a GPU
    assert set(rows.COLUMN_OF) - set(data) == absent


def test_a_null_of_verls_log_is_not_a_number(tmp_path):
    """verl writes NaN and inf as null; the cluster's tests have the same through its own logger."""
    values = {"rlvr/reward": 0.5, "rlvr/pass@1/natural": None, "method/alpha": None}
    line = json.loads(json.dumps({"step": 3, "data": values | {"actor/grad_norm": None}}))
    row = rows.curve_row(line)
    assert {key for key, value in row.items() if math.isnan(value)} == {
        "grad_norm", "alpha", "pass@1/natural"
    }  # fmt: skip
    assert math.isnan(rows.scores(line)["pass@1/natural"])
    guard = Guard([row, row], stops=True)
    guard.see(row)
    with refuses("grad_norm", "nan"):
        guard.check()


@pytest.mark.parametrize("stops", [True, False])
def test_a_run_that_breaks_a_rule_in_its_last_steps_is_not_finished(stops, tmp_path, monkeypatch):
    x = load([*TINY, f"results_dir={tmp_path}", f"stop_rules={stops}"], "f_grpo")
    run, ended = tmp_path / x.paper / x.run_id, []
    place = SimpleNamespace(work=run / "work", nodes=1, gpus=1)

    def prepare(*_):
        lines = [json.dumps({"step": step, "reward": 0, "grad_norm": None}) for step in (4, 5, 6)]
        (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        return 1, 1

    monkeypatch.setattr(backend.config, "tree", lambda: None)
    for name, value in {"place_of_this_machine": place, "layout_keys": {}, "launch_settings": None,
                        "sets": {}}.items():  # fmt: skip
        monkeypatch.setattr(backend, name, lambda *_, value=value, **__: value)
    monkeypatch.setattr(backend, "prepare", prepare)
    monkeypatch.setattr(backend, "finish", lambda *_: ended.append(True))
    with refuses("grad_norm", "nan") if stops else nullcontext():
        backend.train(x, progress=False)
    assert bool(ended) is not stops


def test_a_row_that_a_kill_kept_from_the_log_is_in_the_checkpoint(tmp_path):
    curve = tmp_path / "metrics.jsonl"
    curve.write_text('{"step": 1}\n')
    folder = tmp_path / "checkpoints" / "global_step_2"
    folder.mkdir(parents=True)
    kept = rows.keep({"rlvr/reward": 0.5, "actor/lr": 1e-4, "perf/mfu/actor": 0.3})
    (folder / rows.ROW).write_text(json.dumps({"step": 2, "data": kept}))
    assert rows.lost_row(curve, tmp_path, 2) == {"step": 2, "reward": 0.5, "lr": 1e-4}
    curve.write_text('{"step": 1}\n{"step": 2}\n')
    assert rows.lost_row(curve, tmp_path, 2) is None
    assert rows.lost_row(curve, tmp_path, 1) is None


def dump(path: Path) -> None:
    """verl's file of validation samples: two benchmarks, two problems, two samples each."""
    lines = [
        dict(
            uid=f"u{problem}{name}_{sample}_0", output=f"text {sample}", benchmark=name,
            problem_id=problem, outcome="correct" if sample else "wrong",
            parsed=json.dumps("1+1" if sample else None), tokens=3, log_prob=-1.5, stopped=True,
        )
        for name in ("natural", "rare")
        for problem in ("p", "q")
        for sample in (1, 0)
    ]  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_rows_reference_is_in_a_file_of_the_run_and_not_in_the_parquet(tmp_path, monkeypatch):
    """verl sends a row's columns with each sample, and `datasets` cannot read a row group of more
    than 2 GiB: that many megabytes of tests are FADE's."""
    monkeypatch.setattr(data, "ROWS", 2)
    x, tok = load([*TINY], "f_grpo"), tokenizer()
    texts = [f"{i}\n\u2028" * 100_000 for i in range(5)]
    train = [Prompt(f"p{i}", "1 2", text) for i, text in enumerate(texts)]
    data.write_parquet(x, tmp_path, train, {"rare": train[:1]}, tok, context=256)
    assert (tmp_path / "train.parquet").stat().st_size < 20_000
    read = ParquetFile(tmp_path / "train.parquet")
    assert read.num_row_groups == 3
    loaded = datasets.load_dataset("parquet", data_files=str(tmp_path / "train.parquet"))["train"]
    reward.describe(x, tmp_path / "judge.json", Prompt("p", "1 2<think>\n", "3"))
    described = json.loads((tmp_path / "judge.json").read_text())
    assert described["verifier"] == x.data.verifier  # it has no `opened`
    monkeypatch.setattr(reward, "lasting", lambda *_: same)
    extra = dict(problem_id="p", tokens=3, log_prob=-1.0, stopped=True)
    for row, text in zip(loaded, texts, strict=True):
        start, file = row["reward_model"]["ground_truth"], str(tmp_path / "judge.json")
        for said, outcome in ((text, "correct"), ("no", "wrong")):
            found = asyncio.run(reward.judge("train", said, start, dict(extra), file))
            assert found["outcome"] == outcome
    reward._made.pop(file)[-1].close()


def same(pairs):
    return [Verdict("correct", 1.0, "x") if a == b else Verdict("wrong", 0.0) for a, b in pairs]


def test_rewards_keep_the_verdict_and_are_judged_in_batches(tmp_path, monkeypatch):
    x = load([*TINY, "reward.correct=1", "reward.wrong=-1"], "f_grpo")
    sizes = []

    def verify(pairs):
        sizes.append(len(pairs))
        return same(pairs)

    file = str(tmp_path / "judge.json")
    made = x.reward, reward.Batcher(verify), io.BytesIO(b'"1"\n')
    monkeypatch.setitem(reward._made, file, made)
    extra = dict(problem_id="p", tokens=3, log_prob=-1.0, stopped=True)

    async def both():
        jobs = [reward.judge("natural", text, 0, dict(extra), file) for text in ("1", "2", "1")]
        return await asyncio.gather(*jobs)

    scores = asyncio.run(both())
    assert [score["score"] for score in scores] == [1.0, -1.0, 1.0]
    assert [score["outcome"] for score in scores] == ["correct", "wrong", "correct"]
    assert json.loads(scores[1]["parsed"]) is None
    assert max(sizes) > 1


def test_a_cancelled_request_keeps_no_other_waiting():
    """Neither its batch, nor a later one; nor does it make a verifier's fault."""
    begun, go_on = threading.Event(), threading.Event()

    def verify(pairs):
        begun.set()
        assert go_on.wait(60)
        if ("fails", "1") in pairs:
            raise UserError("verifier nonsense: cannot be trusted")
        return [Verdict("correct", 1.0)] * len(pairs)

    async def run(first: str):
        begun.clear(), go_on.clear()
        batcher = reward.Batcher(verify)
        jobs = [asyncio.create_task(batcher.verdict(text, "1")) for text in (first, "1")]
        await asyncio.to_thread(begun.wait, 60)
        jobs[0].cancel()
        await asyncio.sleep(0)
        go_on.set()
        mate = await asyncio.wait_for(asyncio.gather(jobs[1], return_exceptions=True), 20)
        return *mate, await asyncio.wait_for(batcher.verdict("later", "1"), 20)

    right = Verdict("correct", 1.0)
    assert asyncio.run(run("1")) == (right, right)
    failed, later = asyncio.run(run("fails"))
    assert isinstance(failed, UserError)
    assert later == right


def test_a_cancelled_request_is_no_fault_of_the_verifier(tmp_path, monkeypatch):
    """Else a launch that another fault has ended would not be tried again."""
    file, x = str(tmp_path / "judge.json"), load([*TINY], "f_grpo")
    batcher = reward.Batcher(lambda pairs: [Verdict("correct", 1.0)])
    monkeypatch.setattr(reward, "_start", lambda _: (x.reward, batcher, io.BytesIO(b'"1"\n')))

    async def cancelled():
        job = asyncio.create_task(reward.judge("natural", "1", 0, {}, file))
        await asyncio.sleep(0)
        job.cancel()
        await job

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert not (tmp_path / reward.FAULT).exists()


def test_a_verifier_that_fails_is_no_zero(tmp_path, monkeypatch):
    def verify(pairs):
        raise UserError("verifier nonsense: cannot be trusted")

    file = str(tmp_path / "judge.json")
    x = load([*TINY], "f_grpo")
    made = x.reward, reward.Batcher(verify), io.BytesIO(b'"1"\n')
    monkeypatch.setattr(reward, "_start", lambda _: made)
    with pytest.raises(UserError, match="cannot be trusted"):
        asyncio.run(reward.judge("natural", "1", 0, {}, file))
    assert "verifier nonsense" in (tmp_path / reward.FAULT).read_text()
