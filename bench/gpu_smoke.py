"""The first fifteen minutes on new GPUs.

    rlvr gpu-smoke [model.path=FOLDER_OR_HUB_ID] [results_dir=results]

Runs on all GPUs that it sees: an all-reduce; three steps of backend=verl with a small real model,
killed after the first checkpoint and resumed; the last validation and the export; an evaluation of
four problems with n = 256; and a step of DLC. Prints what each found and how fast it was. Writes
results/gpu_smoke/table.csv and, on GPUs, efficiency.yaml, which the dry run reads. Ends with exit
code 1 if anything failed.

model.path is Qwen/Qwen2.5-0.5B by default if there is a GPU. Without a GPU the same parts run on
the CPU build of vLLM, with a model that is made here if none is given, and the table names what
that cannot show.
"""

import fcntl
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd
import yaml

from common.config.files import ROOT
from common.config.words import options
from common.errors import UserError, require
from common.experiment import Experiment, load
from common.results.collect import verify
from common.results.files import read_csv, read_jsonl, write, write_csv
from common.results.run import source
from common.sweeps import measured
from common.sweeps.assumptions import assumptions, model_size
from common.sweeps.sampling_time import Engine, decode_rate, measured_kernels

HUB = "Qwen/Qwen2.5-0.5B"
STEPS, N = 3, 256
TRAINING_S, EVALUATION_S, REDUCE_S = 1800, 900, 240  # limits of one start, in seconds
TINY = [  # heads of 32 are vLLM's smallest on a CPU
    *("model.name=tiny", "model.pretrain.demonstrations=8000", "model.pretrain.batch_size=64"),
    *("model.pretrain.lr=0.03", "model.pretrain.embedding_lr=0.02", "model.pretrain.layers=1"),
    *("model.pretrain.hidden_size=64", "model.pretrain.heads=2", "model.pretrain.kv_heads=1"),
    "model.pretrain.intermediate_size=64",
]
NO_GPU = "needs a GPU"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    value: str
    verdict: str = "ok"  # ok; FAILED: why; look: what to know; not looked at: why


@dataclass(frozen=True)
class Machine:
    gpus: int  # 0: none
    name: str

    @property
    def device(self) -> str:
        return "cuda" if self.gpus else "cpu"


def main(words: list[str]) -> None:
    own = options(words, {"model.path": "", "results_dir": "results"})
    there = machine()
    folder = Path(own["results_dir"]).resolve() / "gpu_smoke"
    path = own["model.path"] or (HUB if there.gpus else "")
    shutil.rmtree(folder / "runs", ignore_errors=True)  # from an earlier call: all is done again
    runs = settings(there, path, folder / "runs")
    rows = [
        Row("machine", there.name),
        Row("model", path or "a tiny one, made here"),
        *reduced(there),
    ]
    try:
        for row in trained(there, runs):
            rows.append(row)
    except UserError as error:
        rows.append(Row("stopped", "", f"FAILED: {error}"))
    write_csv_rows(folder / "table.csv", rows)
    show(rows)
    if any(row.verdict.startswith("FAILED") for row in rows):
        sys.exit(1)


def machine() -> Machine:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    name = torch.cuda.get_device_name(0) if count else "no GPU: the CPU build"
    return Machine(count, f"{count} x {name}" if count else name)


def settings(there: Machine, path: str, results: Path) -> list[str]:
    """Return the command-line arguments of `python -m papers.f_grpo`, with as many responses per
    GPU as keep it busy, or a few on a CPU."""
    words = [f"model.path={path}", "model=huggingface", "model.name=smoke"] if path else TINY
    prompts, tokens = (32 * there.gpus, 1024) if there.gpus else (4, 40 if path else 20)
    return [
        *words,
        *("method=grpo", "backend=verl", f"device={there.device}", "data.train.size=6400"),
        *("data.benchmarks.natural.size=4", "~data.benchmarks.rare", "optim.mini_batches=1"),
        *(f"sampling.prompts={prompts}", "sampling.group_size=8", f"sampling.max_tokens={tokens}"),
        *("optim.lr=1e-6", "optim.warmup_steps=0", "optim.micro_batch=16", f"optim.steps={STEPS}"),
        *("eval.n=8", "eval.k=[1,8]", "eval.curve_n=8", f"eval.max_tokens={tokens}"),
        *("eval.rare_nll_samples=0", f"eval.every={STEPS}", "checkpoint_every=1"),
        f"results_dir={results}",
    ]


# ---- what is run


def trained(there: Machine, words: list[str]) -> Iterator[Row]:
    """Train, with a kill and a resume, evaluate, and run a step of DLC. Each result is yielded at
    once, so that a later failure does not lose it."""
    x = load(words, "f_grpo")
    run = Path(x.results_dir) / x.paper / x.run_id
    reached = killed(words, run)
    wait_for_lock(run / ".lock")
    with memory_watched(there) as used:
        began = time.monotonic()
        called("papers.f_grpo", words, TRAINING_S, run.parent / "resumed.log")
        seconds = time.monotonic() - began
    lines = read_jsonl(run / "verl.jsonl")
    curve = [row["step"] for row in read_jsonl(run / "metrics.jsonl")]
    good = verify(run) == [] and curve == list(range(1, STEPS + 1)) and 0 < reached < STEPS
    told = f"killed after step {reached}, resumed to step {curve[-1]} in {seconds:.0f} s"
    yield Row("save, kill, resume", told, "ok" if good else f"FAILED: steps {curve}")
    counts = pd.read_csv(run / "counts.csv")
    said = f"{len(counts)} problems x {counts.n.min()}"
    yield judged("last validation", said, counts.n.eq(8).all())
    yield judged("export", "model/", (run / "model" / "config.json").exists())
    yield difference(there, lines)
    yield ranks(there, lines)
    yield asleep(there, used, run)
    found = measured.speed(lines, {1, reached + 1}, max(1, there.gpus))
    yield from speeds(there, found)
    if there.gpus:
        file = run.parents[2] / "efficiency.yaml"
        yield from efficiencies(there, found, x, run / "model", file)
    else:
        yield missing("measured efficiencies", NO_GPU)
    yield evaluated(there, x, run)
    yield end_tokens(x, run)
    yield dlc(there, words)


def called(module: str, words: list[str], limit: float, log: Path) -> None:
    """Run `python -m module words` with its output in `log`. Raises UserError with the log's end if
    it fails or takes longer than `limit` seconds."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = child.wait(limit)
    except subprocess.TimeoutExpired:
        code = f"none within {limit:.0f} s"
    finally:
        end(child)
    if code != 0:
        raise UserError(f"python -m {module}: exit code {code}; {tail(log)}")


def end(child: subprocess.Popen) -> None:
    """End a command that still runs: first interrupt it as Ctrl-C does, so that it can end what it
    started, then kill it."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if child.poll() is None:
            os.killpg(child.pid, number)
            with suppress(subprocess.TimeoutExpired):
                child.wait(60)


def tail(log: Path) -> str:
    """Return the end of a log on one line, and the path of the log."""
    lines = log.read_text(errors="replace").splitlines()[-12:]
    return f"{' | '.join(lines)[-1500:]} (log: {log})"


def killed(words: list[str], run: Path) -> int:
    """Start the training and kill it outright once it has a checkpoint. Return the checkpoint's
    step."""
    from common.backends.verl.backend import checkpointed

    log = run.parent / "killed.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "papers.f_grpo", *words]
    latest = run / "work" / "checkpoints" / "latest_checkpointed_iteration.txt"
    with open(log, "wb") as output:
        child = subprocess.Popen(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        until = time.monotonic() + TRAINING_S
        while not latest.exists():
            if child.poll() is not None or time.monotonic() > until:
                raise UserError(f"training: no checkpoint before its end; {tail(log)}")
            time.sleep(0.05)
    finally:
        child.kill()
        child.wait()
    return checkpointed(run / "work")


def wait_for_lock(path: Path, seconds: float = 300) -> None:
    """Wait until the processes of a killed run have let go of its folder."""
    until = time.monotonic() + seconds
    with open(path, "w") as file:
        while True:
            try:
                return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                require(time.monotonic() < until, "lock", path, "still held after the kill")
                time.sleep(0.5)


class memory_watched:
    """The GPU memory in use during `with memory_watched(there) as used`. Every half second `used`
    gets a list with the MiB of each GPU."""

    def __init__(self, there: Machine):
        self._gpus, self._end, self.used = there.gpus, threading.Event(), []

    def __enter__(self) -> list[list[int]]:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self.used

    def __exit__(self, *error) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        while self._gpus and not self._end.wait(0.5):
            done = subprocess.run(query, capture_output=True, text=True)
            if done.returncode == 0:
                self.used.append([int(line) for line in done.stdout.split()])


# ---- what is looked at


def judged(what: str, value: str, good: bool) -> Row:
    return Row(what, value, "ok" if good else "FAILED")


def missing(what: str, why: str) -> Row:
    return Row(what, "", f"not looked at: {why}")


def reduced(there: Machine) -> list[Row]:
    """Return rows on a sum over all GPUs and its speed; over two processes if there is no GPU."""
    kind, count = ("nccl", there.gpus) if there.gpus else ("gloo", 2)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={count}", "-m", "slurm.allreduce", kind]
    rows = [missing("several nodes", "this is one; docs/cluster.md says how")]
    if there.gpus < 2:
        rows.append(missing("NCCL over GPUs", "one GPU" if there.gpus else NO_GPU))
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=REDUCE_S)
        got = json.loads(done.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        return [Row(f"all-reduce, {kind}", "", f"FAILED: no end within {REDUCE_S} s"), *rows]
    except (IndexError, ValueError):
        said = " | ".join(done.stderr.splitlines()[-3:])[-300:]
        return [Row(f"all-reduce, {kind}", "", f"FAILED: {said}; NCCL_DEBUG=INFO says more"), *rows]
    value = f"{got['count']} processes, {got['gb_per_s']:.3g} GB/s"
    return [judged(f"all-reduce, {kind}", value, done.returncode == 0), *rows]


def difference(there: Machine, lines: list[dict]) -> Row:
    """Return the row on |p of vLLM - p of the trainer|. Its mean may be at most the tolerance that
    evaluation has for log p."""
    most, key = 0.05 if there.gpus else 1e-3, "training/rollout_probs_diff_mean"
    values = [line["data"][key] for line in lines if key in line["data"]]
    worst = max(values, default=math.nan)
    peak = max((line["data"].get(key.replace("mean", "max"), 0) for line in lines), default=0)
    value = f"mean {worst:.2g}, largest {peak:.2g} of a probability"
    name = "rollout against trainer"
    return Row(name, value, "ok" if worst <= most else f"FAILED: at most {most:g}")


def ranks(there: Machine, lines: list[dict]) -> Row:
    key = "actor/grad_norm"
    norms = [line["data"][key] for line in lines if key in line["data"]]
    if there.gpus < 2:
        return missing("FSDP on several ranks", "one GPU" if there.gpus else NO_GPU)
    good = len(norms) >= STEPS - 1 and all(map(math.isfinite, norms))  # the kill may cost one line
    value = f"{there.gpus} ranks, gradient norm {norms[-1]:.3g}" if norms else ""
    return judged("FSDP on several ranks", value, good)


def asleep(there: Machine, used: list[list[int]], run: Path) -> Row:
    """Check that vLLM has given its memory back while the trainer works."""
    what = "memory while vLLM sleeps"
    if not there.gpus:
        return missing(what, NO_GPU)
    peak = max((max(row) for row in used), default=0)
    share = yaml.safe_load((run / "verl.yaml").read_text())
    share = share["actor_rollout_ref"]["rollout"]["gpu_memory_utilization"]
    full = [i for i, row in enumerate(used) if max(row) > 0.9 * peak]
    between = used[full[0] : full[-1] + 1] if full else []
    least = min((max(row) for row in between), default=peak)
    value = f"{least / 1024:.1f} GiB, at its peak {peak / 1024:.1f} GiB"
    return Row(what, value, "ok" if least < share * peak else "look: does vLLM sleep at all?")


def speeds(there: Machine, found: measured.Speed) -> list[Row]:
    """Return rows on what verl measured in a step."""
    per = "a second and GPU" if there.gpus else "a second"
    said = lambda value, form: "not reported by verl" if value is None else format(value, form)  # noqa: E731
    rows = [
        Row("rollout", f"{said(found.rollout_tokens_s, ',.0f')} tokens {per}"),
        Row("training", f"{said(found.training_tokens_s, ',.0f')} tokens {per}, in the update"),
    ]
    if there.gpus:
        rows += [
            Row("MFU of the update", said(found.mfu, ".1%")),
            Row("trainer's memory", f"{said(found.memory_gb, '.1f')} GiB at its peak"),
        ]
    else:
        rows += [missing("MFU of the update", NO_GPU), missing("trainer's memory", NO_GPU)]
    phases = sorted(found.seconds.items(), key=lambda one: -one[1])
    told = ", ".join(f"{name} {seconds:.2f}" for name, seconds in phases)
    shape = f"{found.samples} x ({found.prompt_tokens:.0f} + {found.response_tokens:.0f}) tokens"
    return [*rows, Row("seconds a step", f"{told} ({shape})")]


def efficiencies(
    there: Machine, found: measured.Speed, x: Experiment, exported: Path, path: Path
) -> list[Row]:
    """Write to `path` the efficiencies with which the dry run's formulas give these speeds."""
    a = assumptions()
    keys = [key for key in a.accelerators if key in there.name.lower()]
    if not keys:
        why = f"{there.name} is not in configs/cost.yaml: add its peaks"
        return [missing("measured efficiencies", why)]
    here = replace(x, model=replace(x.model, path=str(exported), pretrain=None))
    unit, size = a.accelerators[keys[0]], model_size(here, a)
    kernels = measured_kernels(size, 1, a)
    engine = Engine(unit, 1, found.samples // there.gpus, kernels=kernels)
    mean = found.prompt_tokens + found.response_tokens
    got = measured.Measured(
        accelerator=keys[0],
        compute_efficiency=measured.compute_efficiency(
            found, size.parameters, unit.tflops, there.gpus
        ),
        vllm_efficiency=found.rollout_tokens_s / decode_rate(size, None, engine, mean, 1.0),
        model=x.model.path,
        gpus=there.gpus,
        samples=found.samples,
        commit=source()["commit"],
    )
    write(path, yaml.safe_dump(asdict(got), sort_keys=False))
    value = f"compute {got.compute_efficiency:.3f}, decoding {got.vllm_efficiency:.3f}: {path}"
    return [Row("measured efficiencies", value)]


def evaluated(there: Machine, x: Experiment, run: Path) -> Row:
    """Evaluate four problems with n = 256 by vLLM, which first compares itself with the trainer's
    model."""
    words = ["model=huggingface", f"model.path={run / 'model'}", "model.name=smoke"]
    words += ["engine=vllm", "eval=countdown_natural", "eval.prompts.size=4", f"n={N}"]
    words += [f"device={there.device}", f"max_tokens={x.eval.max_tokens}", "temperature=1.0"]
    words += [f"results_dir={run.parents[1]}"]
    began = time.monotonic()
    called("rlvr_papers", ["evaluate", *words], EVALUATION_S, run.parent / "evaluation.log")
    seconds = time.monotonic() - began
    (folder,) = (run.parents[1] / "evaluations").glob("*/")
    counts, rows = pd.read_csv(folder / "counts.csv"), read_csv(folder / "metrics.csv")
    values = rows.set_index("metric")["value"]
    value = f"{len(counts)} problems x {counts.n.min()}, {values['truncated']:.0f} % cut off, "
    value += f"{values['response_length']:.0f} tokens, {seconds:.0f} s with the start"
    return judged("evaluation, n = 256", value, len(counts) == 4 and bool((counts.n == N).all()))


def end_tokens(x: Experiment, run: Path) -> Row:
    """Check how responses to a chat prompt end. Only the tokenizer's own end token stops sampling
    here."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    if tokenizer.chat_template is None:
        return missing("end tokens", "the model has no chat template")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(run / "model", dtype=torch.float32).to(device)
    ends = []
    for question in ("What is 2 + 2?", "Name a colour.", "Write one short sentence."):
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": question}],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        ).to(device)
        if ids["input_ids"].shape[1] == 0:
            return missing("end tokens", "the tokenizer knows nothing of a chat")
        out = model.generate(**ids, max_new_tokens=128, do_sample=False)[0]
        new = out[ids["input_ids"].shape[1] :].tolist()
        special = [token for token in new if token in tokenizer.all_special_ids]
        ends.append(tokenizer.decode(special[:1]) or "none within 128 tokens")
    others = {end for end in ends if end not in (tokenizer.eos_token, "none within 128 tokens")}
    verdict = f"look: {', '.join(sorted(others))} does not stop sampling" if others else "ok"
    return Row("end tokens", f"{', '.join(ends)}; sampling stops at {tokenizer.eos_token}", verdict)


def dlc(there: Machine, words: list[str]) -> Row:
    """Run one step with a memory network in vLLM, under CUDA graphs if there is a GPU."""
    more = ["method=dlc", "method.sampler.start=policy", "optim.steps=1", "eval.every=1"]
    own = [word for word in words if not word.startswith(("method=", "optim.steps", "eval.every"))]
    x = load([*own, *more], "f_grpo")
    run = Path(x.results_dir) / x.paper / x.run_id
    called("papers.f_grpo", [*own, *more], TRAINING_S, run.parent / "dlc.log")
    losses = [row.get("memory_loss", math.nan) for row in read_jsonl(run / "metrics.jsonl")]
    good = verify(run) == [] and all(map(math.isfinite, losses)) and len(losses) == 1
    if not there.gpus:
        return Row("DLC, one step", f"memory's loss {losses[0]:.3g}; CUDA graphs {NO_GPU}")
    return judged("DLC, one step", f"memory's loss {losses[0]:.3g}", good)


# ---- the table


def write_csv_rows(path: Path, rows: list[Row]) -> None:
    write_csv(path, pd.DataFrame([asdict(row) for row in rows]))


def show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "found", "verdict")
    for row in rows:
        table.add_row(row.what, row.value, row.verdict)
    Console(width=None if Console().is_terminal else 130, markup=False).print(table)
