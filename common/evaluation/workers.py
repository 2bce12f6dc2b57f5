"""vLLM engines side by side, each a process on one GPU or on `tensor_parallel` GPUs.

A chunk is the same whichever engine draws it, so a model's benchmarks are spread over all visible
GPUs, chunk by chunk, while finished chunks are verified here. An engine that dies, is stopped, or
makes no step for too long (common/watch.py) ends the evaluation.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import Any

import psutil
import torch

from common.errors import Fault, UserError, require
from common.evaluation.config import Evaluate
from common.evaluation.engines import Chunk, Responses, drawn, vllm_engine
from common.types import Prompt
from common.watch import Watch, end_with_parent, parts, stall_s

LOOK = 1.0  # most seconds between two calls of `on_chunk`, which may stop the evaluation
LOOK_S = 5.0  # seconds between two looks at an engine's processes, or two progress reports


@dataclass
class Worker:
    """One engine's process and our end of the pipe to it."""

    process: Any
    pipe: Any
    gpu: str | None
    group: int  # whose model it has loaded
    watch: Watch
    said: int = 0  # number of its messages so far
    family: set[psutil.Process] = field(default_factory=set)  # its processes, when last seen

    @property
    def name(self) -> str:
        return "the engine" if self.gpu is None else f"the engine on GPU {self.gpu}"

    def look(self) -> None:
        """Raise Fault if the engine is stopped, has lost a process, or stands still."""
        with suppress(psutil.Error):
            first = psutil.Process(self.process.pid)
            self.family = {first, *first.children(recursive=True)}
        seen = [
            replace(part, name=self.name) if part.pid == self.process.pid else part
            for part in parts(self.family)
        ]
        self.watch.longest = float(self.said > 0)  # a step of vLLM takes less than a second
        if wrong := self.watch.look(seen, self.said, time.monotonic()):
            raise Fault(f"engine=vllm: {wrong}; run the same command to resume")


def drawn_by_vllm(
    gpus: Sequence[str | None], groups: Sequence[Iterator[Chunk]], on_chunk: Callable[[], None]
) -> Generator[tuple[Chunk, Responses]]:
    """Yield the chunks, each with its rows as soon as they are there, in any order, drawn by an
    engine on each of `gpus` (`places`). The chunks of a group are alike (`like`). An engine stays
    with its group, then takes one that no other works on, then any, and is loaded for it again.
    `on_chunk` is called every second and may raise: the chunks that are being drawn are then lost.
    Raises what an engine raises, and UserError if an engine dies or stands still."""
    engines, busy, looked = dict[int, Worker](), dict[Any, tuple[int, Chunk]](), 0.0
    checked = set[int]()

    def begin(place: int) -> None:
        engine = engines.get(place)
        own, others = engine and engine.group, {engines[one].group for one, _ in busy.values()}
        order = sorted(range(len(groups)), key=lambda one: (one != own, one in others))
        found = ((group, chunk) for group in order for chunk in islice(groups[group], 1))
        group, chunk = next(found, (None, None))
        if group is None:
            return
        if engine is None or engine.group != group:
            if engine is not None:
                _end(engine)
            # All engines of a model load the same files, so only the first one is checked, before
            # its chunk is stored. Each engine may have to make a model made here (`pretrain`).
            checks = group not in checked or chunk.x.model.pretrain is not None
            engine = engines[place] = _start(group, chunk, gpus[place], checks)
            checked.add(group)
        engine.pipe.send((chunk.x, chunk.start, chunk.prompts))
        busy[engine.pipe] = place, chunk

    try:
        for place in range(len(gpus)):
            begin(place)
        while busy:
            on_chunk()
            for pipe in wait(list(busy), LOOK):
                place, chunk = busy[pipe]
                rows = _answer(engines[place])
                if rows is None:
                    continue
                del busy[pipe]
                begin(place)
                yield chunk, rows
            if time.monotonic() > looked + LOOK_S:
                for place, _ in busy.values():
                    engines[place].look()
                looked = time.monotonic()
    finally:
        for engine in engines.values():
            _end(engine)


def places(x: Evaluate) -> list[str | None]:
    """Return CUDA_VISIBLE_DEVICES of every engine: `tensor_parallel` GPUs each, and the rest idle.
    Raises UserError for fewer GPUs than one engine needs."""
    each, seen = x.tensor_parallel or 1, gpus(x.device)
    if each == 1:
        return seen
    names = [name for name in seen if name is not None]
    remedy = f"{len(names)} GPU(s) are visible here; lower it, or take more"
    require(each <= len(names), "tensor_parallel", each, remedy)
    return [",".join(names[i : i + each]) for i in range(0, len(names) - each + 1, each)]


def gpus(device: str) -> list[str | None]:
    """Return each GPU that this process sees, as CUDA_VISIBLE_DEVICES names it; [None] on a CPU."""
    if device == "cpu" or not torch.cuda.is_available():
        return [None]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]


def _start(group: int, first: Chunk, gpu: str | None, checks: bool) -> Worker:
    context = multiprocessing.get_context("spawn")  # CUDA and threads do not survive a fork
    ours, theirs = context.Pipe()
    args = (theirs, first.x, first.prompts, gpu, checks)
    process = context.Process(target=_work, args=args)
    process.start()
    theirs.close()  # so that the pipe ends when the process dies
    return Worker(process, ours, gpu, group, Watch(stall_s()))


def _end(worker: Worker) -> None:
    """Kill an engine's process and all its children, such as vLLM's engine core."""
    with suppress(psutil.Error):
        worker.family |= set(psutil.Process(worker.process.pid).children(recursive=True))
    worker.process.kill()
    worker.process.join()
    for process in worker.family:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(worker.family, timeout=10)


def _answer(worker: Worker) -> Responses | None:
    """Return a chunk's rows, or None for mere progress. Raises the engine's error, or Fault."""
    try:
        answer = worker.pipe.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        raise Fault(
            f"engine=vllm: {worker.name} died (exit code {worker.process.exitcode}; -9 is most "
            "often too little main memory); run the same command to resume"
        ) from None
    worker.said += 1
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _work(
    pipe: Connection, x: Evaluate, prompts: list[Prompt], gpu: str | None, checks: bool
) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # left to the parent, which then kills this
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    engine, told = None, 0.0

    def tell() -> None:
        nonlocal told
        if time.monotonic() > told + LOOK_S:
            told = time.monotonic()
            pipe.send(None)

    while True:
        chunk = pipe.recv()
        try:
            if engine is None:
                engine = vllm_engine(x, prompts, tell, checks)
            pipe.send(drawn(engine, *chunk))
        except UserError as error:
            pipe.send(error)
