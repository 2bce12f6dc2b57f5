"""The verl backend: a whole Experiment through verl's own trainer, in child processes.

    config.yaml -> parquet files -> verl (Ray, FSDP2, vLLM) -> checkpoints, validation samples
    -> counts -> result rows -> model as a Hugging Face checkpoint -> DONE

A second call resumes from verl's last checkpoint. Runs are not bit-reproducible: vLLM draws from
one random stream for all requests, as they arrive. Left out: eval.rare_nll_samples
(configs/eval/rare_correct.yaml).
"""

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from omegaconf import OmegaConf
from rich.progress import Progress

from common.backends import snapshots
from common.backends.prompts import prompts, sets
from common.backends.sizes import facts, sizes_of
from common.backends.tracking import mirror
from common.backends.verl import config, data, dlc, eased, layout, process, reward, rows, tuning
from common.backends.verl.checkpoints import LATEST, checkpointed, require_gpus
from common.backends.verl.export import export
from common.backends.verl.stand_in import stand_in
from common.errors import Fault, UserError, require
from common.experiment import Experiment
from common.health import Guard
from common.models import store
from common.models.load import load_model
from common.results import longer
from common.results.files import amend, jsonl_appender, whole_rows, write
from common.results.run import Run
from common.watch import stall_s


def train(
    x: Experiment, progress: bool = True, on_step: Callable[..., None] = lambda *_: None
) -> Path:
    """Train and evaluate `x`; return its run folder. A finished run is found and not repeated.
    `on_step` is called before each start of verl and repeatedly while verl runs. If it raises, verl
    saves after the current step and ends. Raises UserError where verl is missing or cannot do what
    `x` asks, and with the last lines of verl's log where verl ends early, dies or stands still."""
    chosen = tuning.tuned(x.verl)
    config.tree()
    stall_s()
    run = Run(Path(x.results_dir).resolve(), x.paper, x.run_id, asdict(x))
    longer.reopen(run, x.optim.steps, run.path / "work" / "checkpoints" / LATEST)
    if run.done:
        run.close()
        snapshots.check_finished(x, run.path)
        return run.path
    longer.require_before(checkpointed(run.path / "work"), x.optim.steps, run.path)
    place = place_of_this_machine(x, run.path)
    require_gpus(place.work, place.nodes * place.gpus)
    longest, context = prepare(x, place)
    run.keep_sets(sets(x))
    keys = layout_keys(x, place, longest, chosen)
    send = mirror(x, run.path, checkpointed(place.work))
    with Progress(disable=not progress) as bar:
        task = bar.add_task(x.run_id, total=x.optim.steps, completed=checkpointed(place.work))

        seen: list[dict] = []

        def note(row: dict) -> None:
            send(row)
            seen.append(row)
            if "reward" in row:  # otherwise the row has only a validation
                bar.update(task, completed=row["step"])
                guard.see(row)

        def ask(*longest: float) -> None:
            on_step(*(one + validation_s(seen, x.eval.every) for one in longest))
            guard.check()

        while (todo := launch_settings(x, place.work)) is not None:
            curve, step = whole_rows(run.path / "metrics.jsonl"), checkpointed(place.work)
            seen[:] = [row for row in curve if row["step"] <= step]
            guard = Guard(seen[:], x.stop_rules)
            ask()
            settings = config.settings(x, place, longest, context, todo)
            settings |= dlc.settings(x, place.work, place.model) | keys | chosen
            least = eased.shortest(x, settings, longest, context)
            settings |= eased.shortened(settings, place.work, least)
            try:
                one_launch(x, run, place, settings, note, ask)
            except Fault as fault:
                fault.eased = eased.note(place.work, str(fault), settings, least)
                raise
            if launch_settings(x, place.work) == todo:
                raise UserError(
                    f"backend=verl: verl ended without an error and without progress; see "
                    f"{place.work / 'log'}"
                )
    Guard(whole_rows(run.path / "metrics.jsonl"), x.stop_rules).check()
    finish(x, run, place)
    return run.path


def validation_s(rows: list[dict], every: int) -> float:
    """Return the seconds that a validation adds to the step before it: 0.6 of the longest so far,
    as slurm/stop.py wants twice the time left."""
    due = (rows[-1]["step"] + 1) % every == 0 if rows else False
    return 0.6 * max((row.get("evaluation_seconds", 0.0) for row in rows), default=0.0) * due


def one_launch(
    x: Experiment, run: Run, place: config.Place, settings: dict, note, on_step: Callable
) -> None:
    """Start verl once and store its metrics until it ends. An error says how to resume."""
    composed = config.compose(settings)
    write(run.path / "verl.yaml", OmegaConf.to_yaml(composed, resolve=True))
    curve, step = run.path / "metrics.jsonl", checkpointed(place.work)
    with (
        jsonl_appender(curve, keep_until_step=step) as append,
        jsonl_appender(run.path / "verl.jsonl", keep_until_step=step) as keep,
    ):
        lost = rows.lost_row(curve, place.work, step)
        if lost is not None:
            append(lost)
        lines = process.launch(
            run.path / "verl.yaml",
            place.work,
            threads=x.threads,
            keep_open=run.lock.fileno(),
            on_step=on_step,
        )
        try:
            for line in lines:
                keep(line)
                row, scores = rows.curve_row(line), rows.scores(line)
                if row is not None:
                    append(row)
                    note(row)
                elif scores:  # of a validation that its step lacks, because verl was killed before
                    amend(curve, line["step"], scores)
                    note({"step": line["step"]} | scores)
        except UserError as error:
            raise type(error)(f"{error}\n{again(x, checkpointed(place.work))}") from error


def again(x: Experiment, step: int) -> str:
    if "slurm.start" in sys.orig_argv:  # a job's process
        how = f"submit it again (make reproduce-{x.paper} SCALE=cluster CLUSTER=... as before)"
    else:
        how = f"run the same command again: {shlex.join(sys.orig_argv)}"
    return f"to resume from step {step} of {x.optim.steps}: {how}"


def place_of_this_machine(x: Experiment, folder: Path) -> config.Place:
    """Return the Place of this machine or allocation. Raises UserError without GPUs or CPUs."""
    stand = stand_in()
    if stand is not None:
        return stand.place(x, folder)
    gpus = 0 if x.device == "cpu" else torch.cuda.device_count()
    require(gpus > 0, "device", x.device, "no GPU is visible here; use backend=local")
    joins, slurm = "RAY_ADDRESS" in os.environ, os.environ.get("SLURM_JOB_NUM_NODES")
    nodes = int(slurm) if slurm else joined() if joins else 1
    cpus = os.environ.get("SLURM_CPUS_ON_NODE")  # Ray would count the CPUs of the whole node
    if not joins:
        there, needed = int(cpus or len(os.sched_getaffinity(0))), layout.reserved_cpus(gpus)
        more = f"verl reserves {needed} CPUs for {gpus} GPU(s); ask for them (--cpus-per-task)"
        require(there >= needed, "cpus", there, f"{more}, or show fewer GPUs: CUDA_VISIBLE_DEVICES")
    return config.Place(
        device="cuda",
        nodes=nodes,
        gpus=gpus,
        cpus=int(cpus) if cpus and not joins else None,
        work=folder / "work",
        model=store.folder(x.model, Path(x.results_dir).resolve()),
    )


def joined() -> int:
    """Return the number of nodes with GPUs in the Ray cluster that RAY_ADDRESS names."""
    import ray

    with ray.init(log_to_driver=False):
        return sum(one["Alive"] and one["Resources"].get("GPU", 0) > 0 for one in ray.nodes())


def prepare(x: Experiment, place: config.Place) -> tuple[int, int]:
    """Write the prompts and a missing tiny model; return the tokens of the longest prompt and of
    the model's context. Raises UserError for prompts that are too long, and for too few of them."""
    train_prompts, benchmarks = prompts(x)
    remedy = f"verl takes a step's prompts from one epoch, which has {len(train_prompts)}"
    fits = x.sampling.prompts <= len(train_prompts)
    require(fits, "sampling.prompts", x.sampling.prompts, remedy)
    if x.model.pretrain is not None:
        load_model(x.model, Path(x.results_dir).resolve(), "cpu")
    tokenizer, described = facts(place.model, "model.path")
    context = described.max_position_embeddings
    longest = data.write_parquet(x, place.work, train_prompts, benchmarks, tokenizer, context)
    most = min(longest + max(x.sampling.max_tokens, x.eval.max_tokens), context)
    dlc.prepare(x, place.work, (described, tokenizer), most)
    reward.describe(x, place.work / "judge.json", train_prompts[0])
    return longest, context


def layout_keys(
    x: Experiment, place: config.Place, longest: int, chosen: dict
) -> dict[str, object]:
    """Return verl's keys that fit the memory of these GPUs; none for a model of unknown sizes."""
    stand = stand_in()
    if stand is not None:
        return stand.settings(x, place)
    models = sizes_of(x)
    if not models:
        return {}
    load = layout.load_of(x, models, prompt=longest)
    gpu_gb = torch.cuda.get_device_properties(0).total_memory / 1e9
    where = {"nodes": place.nodes, "gpus": place.gpus, "gpu_gb": gpu_gb}
    return layout.choose(load, **where, given=chosen).keys()


def launch_settings(x: Experiment, work: Path) -> dict | None:
    """Return what verl's next start must do, or None; a kill may have prevented an evaluation."""
    step = checkpointed(work)
    earlier = work.parent / "eval" / f"step-{step:05d}-counts.csv"  # of a shorter run
    missing = not ((work / "validation" / f"{step}.jsonl").exists() or earlier.exists())
    if step == x.optim.steps:
        return {"trainer.val_only": True, "trainer.val_before_train": True} if missing else None
    due = step > 0 and step % x.eval.every == 0
    return {"trainer.val_only": False, "trainer.val_before_train": due and missing}


def finish(x: Experiment, run: Run, place: config.Place) -> None:
    rows.write_results(x, run.path, place.work)
    if x.optim.steps > 0:
        checkpoint = place.work / "checkpoints" / f"global_step_{x.optim.steps}" / "actor"
        export(checkpoint, run.path / "model", place.device)
    only_state(x, place.work)
    run.finish()


def only_state(x: Experiment, work: Path) -> None:
    """Remove the work folder; with keep_state, keep the last of verl's checkpoints in it."""
    kept = {work / "checkpoints" / LATEST, work / "checkpoints" / f"global_step_{x.optim.steps}"}
    for path in [*(work / "checkpoints").glob("*"), *work.glob("*")]:
        if x.keep_state and (path in kept or path.name == "checkpoints"):
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not x.keep_state:
        work.rmdir()
