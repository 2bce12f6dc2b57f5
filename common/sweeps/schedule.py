"""Jobs side by side: `schedule` on the GPUs of a machine (slurm/local_gpus.py), `run_all` on its
cores."""

import multiprocessing
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

from common.errors import UserError
from common.watch import end_with_parent

SHOWN = 40  # characters for the names of running tasks, in 100 columns next to the bar


@dataclass(frozen=True)
class Scheduled:
    key: str  # unique
    needs: Collection[str] = ()  # keys of the jobs that must have succeeded before
    follows: Collection[str] = ()  # keys of the jobs that must have ended before, failed or not
    places: int = 1  # GPUs or CPU slots that it takes
    call: Callable[[], object] | None = None  # for `run_all`, in a worker process: picklable


def schedule(
    jobs: Sequence[Scheduled],
    places: Sequence[str],
    begin: Callable[[Scheduled, list[str]], None],
    ended: Callable[[], Iterable[tuple[str, bool]]],
    lost: Callable[[Scheduled, list[str]], None],
) -> list[str]:
    """Begin every job on places of its own, once the jobs that it waits for have ended, in their
    order: one that finds too few free places is not overtaken, or it might wait for ever. Return
    the keys of the failed jobs. `ended` waits a while and yields (key, whether it succeeded) of
    each job that has ended since; `lost` is called with each job that never begins and the failed
    jobs that it needs. An exception in a callback ends the schedule."""
    waiting, running, done, failed = list(jobs), dict[str, list[str]](), set[str](), set[str]()

    def next_job() -> Scheduled | None:
        for job in waiting:
            if failed.intersection(job.needs) or done.issuperset([*job.needs, *job.follows]):
                return job
        return None

    while waiting or running:
        while (job := next_job()) is not None:
            taken = {place for some in running.values() for place in some}
            free = [place for place in places if place not in taken]
            if lacking := failed.intersection(job.needs):
                done.add(job.key)
                failed.add(job.key)
                lost(job, sorted(lacking))
            elif job.places <= len(free):
                running[job.key] = free[: job.places]
                begin(job, running[job.key])
            else:
                break
            waiting.remove(job)
        for key, well in ended():
            del running[key]
            done.add(key)
            if not well:
                failed.add(key)
    return [job.key for job in jobs if job.key in failed]


def run_all(tasks: Sequence[Scheduled], workers: int) -> None:
    """Run every task, each on one thread, and print what it returns, or "done". The failure of a
    task stops only those that need it. At the end a UserError names the failed tasks. Ctrl-C stops
    all workers; what they have stored is kept."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)
    futures: dict[Future, str] = {}
    failed: dict[str, str] = {}
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())

    def name_running() -> None:
        running = ", ".join(futures.values())
        short = running if len(running) <= SHOWN else f"{running[: SHOWN - 3]}..."
        progress.update(bar, description=short or "runs")

    def begin(job: Scheduled, _: list[str]) -> None:
        futures[pool.submit(job.call)] = job.key
        name_running()

    def ended() -> Iterable[tuple[str, bool]]:
        for future in wait(futures, return_when=FIRST_COMPLETED).done:
            title, error = futures.pop(future), future.exception()
            if error is not None:
                failed[title] = str(error) or type(error).__name__
            result = None if error else future.result()
            outcome = "failed" if error else result if isinstance(result, str) else "done"
            progress.console.print(f"{outcome}  {title}", highlight=False)
            progress.advance(bar)
            name_running()
            yield title, error is None

    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            bar = progress.add_task("runs", total=len(tasks))
            places = [str(i) for i in range(workers)]
            schedule(tasks, places, begin, ended, lost=lambda *_: None)
    except KeyboardInterrupt:
        for process in list(pool._processes.values()):
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    if failed:
        reasons = "\n".join(f"  {title}: {reason}" for title, reason in failed.items())
        count = f"{len(failed)} of {len(tasks)} runs"
        raise UserError(f"{count} failed; the same command resumes:\n{reasons}")


def _start_worker() -> None:
    """Set up a worker: one thread, no progress bars, an end with the parent."""
    import rich
    import torch

    end_with_parent()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    rich.get_console().quiet = True
