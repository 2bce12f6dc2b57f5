"""Reads verl's output as rows of our results store."""

import json
import math
from pathlib import Path

import pandas as pd

from common.backends.evaluations import write_evaluation, write_last
from common.errors import UserError
from common.evaluation.samples import COLUMNS, Sampled
from common.experiment import Experiment
from common.results.columns import SCORE
from common.results.files import read_jsonl, write_jsonl_gz

PREFIX = "rlvr/"  # marks our own metrics among verl's, see experiment_trainer.py
COLUMN_OF = {  # verl's metrics that mean what the local backend's columns mean
    "actor/lr": "lr",
    "actor/grad_norm": "grad_norm",
    "actor/entropy": "entropy",  # before the update, nats a token (trainer.py)
    "actor/pg_loss": "loss",  # without entropy bonus and KL term
    "actor/pg_clipfrac": "clipped",
    "actor/kl_loss": "kl",
    "timing_s/step": "seconds",
    "timing_s/gen": "rollout_seconds",  # part of seconds; all batches that dynamic sampling drew
    "timing_s/old_log_prob": "log_prob_seconds",
    "timing_s/ref": "reference_seconds",
    "timing_s/update_actor": "update_seconds",
    "timing_s/update_weights": "weights_seconds",  # sending weights to vLLM
    "timing_s/save_checkpoint": "checkpoint_seconds",
    "timing_s/testing": "evaluation_seconds",
    "perf/throughput": "tokens_per_second",  # per GPU; prompts and responses
    # most that PyTorch has held for tensors on a GPU while it trained; verl divides by 2**30
    "actor/perf/max_memory_allocated_gb": "memory_gib",
    "actor/asleep_gib": "asleep_gib",  # what else is held: worker.py
    "training/rollout_probs_diff_max": "rollout_difference",  # largest |p_vLLM - p_trainer|
    "training/rollout_probs_diff_mean": "rollout_difference_mean",  # mean over tokens
    "rollout_corr/rollout_is_mean": "correction_mean",  # of the weights; absent without them
}
ROW = "row.json"  # in a checkpoint: the step's metrics, which verl logs only after it has evaluated


def keep(values: dict) -> dict[str, float]:
    return {
        key: float(value)
        for key, value in values.items()
        if key in COLUMN_OF or key.startswith((PREFIX, "method/"))
    }


def lost_row(curve: Path, work: Path, step: int) -> dict | None:
    """Return the row of the checkpoint at `step` if the run was killed before it was logged."""
    kept = work / "checkpoints" / f"global_step_{step}" / ROW
    if not kept.exists() or any(row["step"] == step for row in read_jsonl(curve)):
        return None
    return curve_row(json.loads(kept.read_text()))


def curve_row(line: dict) -> dict | None:
    """Return a row of metrics.jsonl from a line of verl's log; None if it is not a step's."""
    values = _numbers(line)
    if PREFIX + "reward" not in values:
        return None
    row = {"step": line["step"]}
    for key, value in values.items():
        if key.startswith(PREFIX) and key != PREFIX + "validation_samples":
            row[key.removeprefix(PREFIX)] = value
        elif key.startswith("method/") and key not in ("method/solve_rate", "method/entropy"):
            row[key.removeprefix("method/")] = value  # what the controller set
        elif key in COLUMN_OF:
            row[COLUMN_OF[key]] = value
    return row


def scores(line: dict) -> dict[str, float]:
    """Return the columns of a validation in a line of verl's log, {"pass@1/BENCHMARK": percent}."""
    start = PREFIX + SCORE
    found = {key: value for key, value in _numbers(line).items() if key.startswith(start)}
    return {key.removeprefix(PREFIX): value for key, value in found.items()}


def _numbers(line: dict) -> dict:
    return {key: math.nan if value is None else value for key, value in line["data"].items()}


def sampled(x: Experiment, work: Path, step: int) -> list[Sampled]:
    """Return the evaluation samples that verl left for a step, one benchmark after another. Raises
    UserError where a problem lacks samples, which would be missing from the counts."""
    path = work / "validation" / f"{step}.jsonl"
    frame = pd.DataFrame(read_jsonl(path)).rename(columns={"output": "response"})
    frame["sample"] = [int(key.rsplit("_", 2)[1]) for key in frame["uid"]]
    # as objects: pandas' text columns would turn None into NaN
    frame["parsed"] = pd.Series([json.loads(text) for text in frame["parsed"]], dtype=object)
    frame["ids"] = None  # verl's file has only the text
    if x.sampling.reported != x.sampling.temperature and x.eval.temperature != 1:
        frame["log_prob"] = None  # vLLM reported it at temperature 1
    most = frame.groupby(["benchmark", "problem_id"]).size().max()
    # eval.n also for a step that was to be the last, of a run that was continued
    n = x.eval.n if x.eval.n == most or step == x.optim.steps else x.eval.curve_n
    found = []
    for name in x.data.benchmarks:
        rows = frame[frame["benchmark"] == name].sort_values(
            ["problem_id", "sample"], kind="stable", ignore_index=True
        )
        counts = rows.groupby("problem_id").size()
        if len(counts) == 0 or (counts != n).any():
            raise UserError(
                f"{path}: benchmark {name} lacks some of its {n} samples a problem (generating or "
                "verifying them failed); delete the file and run again"
            )
        found.append(Sampled(name, rows[COLUMNS]))
    return found


def write_results(x: Experiment, folder: Path, work: Path) -> None:
    steps = sorted(int(path.stem) for path in (work / "validation").glob("*.jsonl"))
    for step in steps:
        found = sampled(x, work, step)
        write_evaluation(x, folder, step, found)
    for one in found:
        samples = folder / "samples" / f"{one.benchmark}.jsonl.gz"
        write_jsonl_gz(samples, one.rows.to_dict("records"))
    write_last(x, folder)
