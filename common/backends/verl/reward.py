"""verl's reward function: our verifier behind its guarded pool of workers. A missing verdict stops
the run: its fault is written to `fault.txt` in the work folder, the response fails, and the trainer
refuses the incomplete batch, which verl itself would fill up."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from common.backends.verl.data import REFERENCES, reference
from common.backends.verl.progress import beat
from common.config.schema import Reward, Verification
from common.experiment import Experiment
from common.results.files import write, write_json
from common.types import Prompt, Verdict, Verify
from common.verifiers.guard import lasting, seeing

FAULT = "fault.txt"


def describe(x: Experiment, path: Path, prompt: Prompt) -> None:
    """Write what the workers need, so that edits of the project during a run do not matter."""
    parts = {"verifier": seeing(x.data.verifier, prompt)}
    parts |= {"verification": asdict(x.verification), "reward": asdict(x.reward)}
    write_json(path, parts)


class Batcher:
    """Gathers pairs while others are judged. Make one in each process, for one event loop."""

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
                    if not future.done():  # its request was cancelled
                        future.set_exception(error)
            else:
                for (_, future), verdict in zip(batch, verdicts, strict=True):
                    if not future.done():
                        future.set_result(verdict)
        self.task = None


_made: dict[str, tuple[Reward, Batcher, BinaryIO]] = {}


def _start(described: str) -> tuple[Reward, Batcher, BinaryIO]:
    if described not in _made:
        parts = json.loads(Path(described).read_text())
        verify = lasting(parts["verifier"], Verification(**parts["verification"]))
        file = open(Path(described).with_name(REFERENCES), "rb")  # noqa: SIM115  as long as we live
        _made[described] = Reward(**parts["reward"]), Batcher(verify), file
    return _made[described]


async def judge(
    data_source: str, solution_str: str, ground_truth: int, extra_info: dict, described: str
) -> dict:
    """Return the reward (R_c, R_w or between, F-GRPO Eq. 1) of a response and what is kept with it.
    `described`: `describe`'s file; `ground_truth`: data.py. Raises what the guard raises."""
    try:
        values, batcher, file = _start(described)
        verdict = await batcher.verdict(solution_str, reference(file, ground_truth))
    except asyncio.CancelledError:  # by verl, and no fault of the verifier
        raise
    except BaseException as error:
        fault = f"{type(error).__name__}: {error}"[:4000] + "\n"
        write(Path(described).with_name(FAULT), fault)
        raise
    beat(Path(described).parent)
    score = verdict.reward
    return {
        "score": values.correct * score + values.wrong * (1 - score),
        "outcome": verdict.outcome,
        # as JSON: verl's tables want one type a column
        "parsed": json.dumps(verdict.parsed),
        "problem_id": extra_info["problem_id"],
        "benchmark": data_source,
        "tokens": int(extra_info["tokens"]),
        "log_prob": float(extra_info["log_prob"]),
        "stopped": bool(extra_info["stopped"]),
    }
