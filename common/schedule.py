"""Independent runs side by side, one a core, in worker processes that import once."""

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed

from common.errors import UserError


def run_all(tasks: list[tuple[str, Callable, tuple]], workers: int) -> None:
    """Run every (title, function, arguments), all picklable, each on one thread.

    One task's failure does not stop the others; at the end a UserError names those that failed.
    Ctrl-C stops all workers; what they had stored is kept.
    """
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)
    failed: dict[str, str] = {}
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            bar = progress.add_task("runs", total=len(tasks))
            futures = {pool.submit(function, *args): title for title, function, args in tasks}
            for future in as_completed(futures):
                title, error = futures[future], future.exception()
                if error is not None:
                    failed[title] = str(error) or type(error).__name__
                progress.console.print(f"{'failed' if error else 'done'}  {title}", highlight=False)
                progress.advance(bar)
    except KeyboardInterrupt:
        for process in list(pool._processes.values()):
            process.kill()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if failed:
        reasons = "\n".join(f"  {title}: {reason}" for title, reason in failed.items())
        raise UserError(
            f"{len(failed)} of {len(tasks)} runs failed; the same command resumes:\n{reasons}"
        )


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
