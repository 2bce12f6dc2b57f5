import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from evaluations import made
from processes import alive
from refuses import refuses

from common import watch
from common.errors import UserError
from common.evaluation import workers
from common.evaluation.engines import Chunk

pytestmark = pytest.mark.process


def engine(pipe, x, prompts, gpu, checks):
    """In the place of `workers._work`: answers with the chunk's start, the GPU, its model and its
    process; refuses to draw from problem 40, dies of problem 50, is stopped at 60, stands still at
    70, is slow at 80."""
    while True:
        _, start, _ = pipe.recv()
        if start == 50:
            os._exit(3)
        if start == 60:
            core = subprocess.Popen(["sleep", "600"])  # vLLM's core may be a process of its own
            Path(x.results_dir, "core").write_text(str(core.pid))
            os.kill(os.getpid(), signal.SIGSTOP)
        if start == 70:
            time.sleep(600)
        for _ in range(20 * (start == 80)):
            pipe.send(None)
            time.sleep(0.1)
        refused = UserError("engine=vllm: no") if start == 40 else None
        pipe.send(refused or [(start, gpu, checks, x.model.path, os.getpid())])


@pytest.fixture
def of_models(monkeypatch, forked, tmp_path):
    """of_models({model: starts}, on_chunk) -> (model, start) -> row, of two engines."""
    monkeypatch.setattr(workers, "_work", engine)
    x = made(tmp_path, "engine=vllm")

    def group(path: str, starts: list[int]) -> Iterator[Chunk]:
        own = replace(x, model=replace(x.model, path=path, pretrain=None))
        return iter([Chunk(own, start, [], None) for start in starts])

    def found(models: dict, on_chunk=lambda: None) -> dict:
        groups = [group(*one) for one in models.items()]
        drawn = [*workers.drawn_by_vllm(["3", "5"], groups, on_chunk)]
        assert len(drawn) == sum(map(len, models.values()))
        return {(chunk.x.model.path, chunk.start): rows[0] for chunk, rows in drawn}

    yield found
    assert multiprocessing.active_children() == []


@pytest.fixture
def drawn(of_models):
    """drawn(starts, on_chunk) -> start -> row, of one model."""
    return lambda starts, *more: {
        start: row for (_, start), row in of_models({"there": starts}, *more).items()
    }


def test_every_chunk_is_drawn_once_and_no_engine_is_left(drawn):
    found = drawn([0, 2, 4, 6, 8])
    assert {start: row[0] for start, row in found.items()} == {n: n for n in (0, 2, 4, 6, 8)}
    assert {row[1:3] for row in found.values()} == {("3", True), ("5", False)}
    assert found[0][1] == "3"  # the engine that is compared with the trainer's model
    assert drawn([7])[7][1] == "3"  # one chunk needs one engine


def test_an_engine_stays_with_its_model_and_makes_way_for_the_next(of_models):
    """On two GPUs, each of three models is loaded by few engines and checked by one of them."""
    models = {"a": [0, 80, 2], "b": [4, 6, 8, 10], "c": [12]}
    found = of_models(models)
    assert {(model, row[0]) for (model, _), row in found.items()} == {*found}
    assert all(row[3] == model for (model, _), row in found.items())
    engines = {row[4]: row[3] for row in found.values()}
    assert [*engines.values()].count("c") == 1
    assert 3 <= len(engines) <= 5
    assert found["a", 0][1:3] == ("3", True)
    assert found["b", 4][1:3] == ("5", True)  # not a second engine of the first model
    checked = [engines[pid] for pid in {row[4] for row in found.values() if row[2]}]
    assert sorted(checked) == ["a", "b", "c"]


def test_what_goes_wrong_in_one_ends_all(drawn):
    with refuses("engine", "vllm"):
        drawn([0, 40, 2])
    with refuses("engine", "vllm") as caught:
        drawn([0, 50, 2])
    assert "exit code 3" in str(caught.value)

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drawn([0, 2], stop)


def test_an_engine_that_is_stopped_or_stands_still_ends_all(drawn, monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "LOOK_S", 0.1)
    monkeypatch.setattr(watch, "GRACE_S", 1.0)
    with refuses("engine", "vllm"):
        drawn([0, 60, 2])
    assert not alive(int((tmp_path / "core").read_text()))
    monkeypatch.setenv(watch.MINUTES, "0.02")
    with refuses("engine", "vllm"):
        drawn([0, 70, 2])
    monkeypatch.delenv(watch.MINUTES)  # on a busy machine a process takes seconds to start
    assert sorted(drawn([0, 80, 2])) == [0, 2, 80]


def test_engines_of_several_gpus_each(monkeypatch):
    """What of a job's GPUs is too few for one more engine stays idle."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,4,5,7")

    def on_gpus(*words):
        return made(Path("results"), "engine=vllm", "device=cuda", *words)

    x = on_gpus()
    assert workers.places(x) == ["0", "1", "4", "5", "7"]
    two = on_gpus("tensor_parallel=2")
    assert workers.places(two) == ["0,1", "4,5"]
    assert two.path == x.path  # it changes no number that a run's name stands for
    with refuses("tensor_parallel", 8):
        workers.places(on_gpus("tensor_parallel=8"))
    with refuses("tensor_parallel", 2):
        workers.places(made(Path("results"), "engine=vllm", "tensor_parallel=2", "device=cpu"))
    with refuses("tensor_parallel", 2):
        made(Path("results"), "tensor_parallel=2")
