"""(response, reference) pairs that arrive one at a time and are judged in batches."""

import asyncio

from common.types import Verdict, Verify


class Batcher:
    """Gathers pairs while others are being judged, so that the worker processes get them in
    batches. Make one in each process, and use it from one event loop."""

    def __init__(self, verify: Verify):
        self.verify = verify
        self.waiting: list[tuple[tuple[str, str], asyncio.Future]] = []
        self.task: asyncio.Task | None = None

    async def verdict(self, response: str, reference: str) -> Verdict:
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(((response, reference), future))
        if self.task is None:
            self.task = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self.waiting:
            batch, self.waiting = self.waiting, []
            try:
                verdicts = await asyncio.to_thread(self.verify, [pair for pair, _ in batch])
            except BaseException as error:
                for _, future in batch:
                    future.set_exception(error)
            else:
                for (_, future), verdict in zip(batch, verdicts, strict=True):
                    future.set_result(verdict)
        self.task = None
