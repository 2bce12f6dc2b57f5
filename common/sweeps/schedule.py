"""Independent runs side by side, one a core, in worker processes that import once."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait

from common.errors import UserError

Task = tuple[str, Callable, tuple]  # title, function, arguments: all can be pickled


def run_all(tasks: list[Task], workers: int, then: Sequence[Task] = ()) -> None:
    """Run every task, each on one thread; `then` those that need what the first of them made.

    A task may return a word on what became of it, which is told instead of "done".
    One task's failure does not stop the others, but `then` is not begun where the first failed; at
    the end a UserError names those that failed. Ctrl-C stops all workers; what they had stored is
    kept.
    """
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)
    failed: dict[str, str] = {}
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            bar = progress.add_task("runs", total=len(tasks) + len(then))
            titles = {pool.submit(function, *args): title for title, function, args in tasks}
            first, running = next(iter(titles), None), set(titles)
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    title, error = titles[future], future.exception()
                    if error is not None:
                        failed[title] = str(error) or type(error).__name__
                    elif future is first:
                        more = {
                            pool.submit(function, *args): title for title, function, args in then
                        }
                        titles |= more
                        running |= more.keys()
                    word = None if error else future.result()
                    said = "failed" if error else word if isinstance(word, str) else "done"
                    progress.console.print(f"{said}  {title}", highlight=False)
                    progress.advance(bar)
    except KeyboardInterrupt:
        for process in list(pool._processes.values()):
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    if failed:
        reasons = "\n".join(f"  {title}: {reason}" for title, reason in failed.items())
        count = f"{len(failed)} of {len(tasks) + len(then)} runs"
        raise UserError(f"{count} failed; the same command resumes:\n{reasons}")


def end_with_parent() -> None:
    """For a worker: end when the parent does, however that was killed, and give up its runs."""

    def watch():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _start_worker() -> None:
    """One thread, no progress bars beside that of the parent, no life after it."""
    import rich
    import torch

    end_with_parent()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    rich.get_console().quiet = True
