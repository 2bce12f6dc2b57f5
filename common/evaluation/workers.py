"""vLLM engines side by side, one a GPU, each in a process of its own.

Which engine draws a chunk changes nothing in it, so one benchmark is spread over all GPUs that this
process sees, chunk by chunk, while the chunks that are back are verified here.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from common.errors import UserError
from common.evaluation.config import Evaluate
from common.evaluation.engines import Rows, chunk, vllm_engine
from common.types import Prompt

LOOK = 1.0  # seconds between two looks at whether to stop


@dataclass
class Worker:
    """One engine's process and our end of the pipe to it."""

    process: Any
    pipe: Any
    gpu: str | None


def drawn_by_vllm(
    x: Evaluate, prompts: list[Prompt], starts: list[int], between: Callable[[], None]
) -> Generator[tuple[int, Rows]]:
    """The chunks that begin at the problems `starts`, each as soon as it is there, in any order.

    `between` is called every second and may raise: the chunks that are being drawn are then lost,
    as they are with Ctrl-C. Raises what an engine raises, and UserError where one of them dies.
    """
    todo, busy = deque(starts), dict[Any, Worker]()
    workers = [_start(x, prompts, gpu) for gpu in gpus(x.device)[: len(starts)]]
    try:
        for worker in workers:
            busy[worker.pipe] = worker
            worker.pipe.send(todo.popleft())
        while busy:
            between()
            for pipe in wait(list(busy), LOOK):
                worker = busy.pop(pipe)
                start, answer = _answer(worker)
                if todo:
                    busy[pipe] = worker
                    worker.pipe.send(todo.popleft())
                yield start, answer
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()


def gpus(device: str) -> list[str | None]:
    """CUDA_VISIBLE_DEVICES of every engine: each GPU that this process sees; on a CPU one None."""
    import torch

    if device == "cpu" or not torch.cuda.is_available():
        return [None]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]


def _start(x: Evaluate, prompts: list[Prompt], gpu: str | None) -> Worker:
    context = multiprocessing.get_context("spawn")  # CUDA and threads do not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, x, prompts, gpu))
    process.start()
    theirs.close()  # so that its death ends the pipe
    return Worker(process, ours, gpu)


def _answer(worker: Worker) -> tuple[int, Rows]:
    try:
        start, answer = worker.pipe.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        where = "" if worker.gpu is None else f" on GPU {worker.gpu}"
        raise UserError(
            f"engine=vllm: the engine{where} died (exit code {worker.process.exitcode}; -9 is most "
            "often too little main memory); the same command resumes"
        ) from None
    if isinstance(answer, BaseException):
        raise answer
    return start, answer


def _work(pipe: Connection, x: Evaluate, prompts: list[Prompt], gpu: str | None) -> None:
    """In the process of an engine: answers each chunk's start with its rows, or an error."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent's, which then kills this
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    engine = None
    while True:
        start = pipe.recv()
        try:
            if engine is None:
                engine = vllm_engine(x, prompts)
            answer = chunk(engine, x, prompts, start)
        except UserError as error:
            answer = error
        pipe.send((start, answer))


def _end_with_parent() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)
