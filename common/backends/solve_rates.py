"""The start model's solve rates on the training set: an evaluation before the training.

A run whose `data.train.solve_rate` leaves easy prompts out needs it. Runs that start from the same
model and choose from the same set share one, whatever their method and seed. It is an ordinary
evaluation: sampled in chunks, each a file, and a chunk that is finished is never sampled again.
"""

from collections.abc import Callable
from pathlib import Path

from common.backends import backend
from common.datasets.benchmark import Benchmark
from common.datasets.solve_rate import KEY, chooser, unfiltered
from common.evaluation.config import BATCH, Evaluate
from common.experiment import Experiment
from common.results.longer import finished

SEED = 1  # of the samples: every seed of a row trains on the same prompts
MOST = 4096  # samples of a chunk: 25,000 prompts are then enough chunks for the GPUs of a node


def measurement(x: Experiment) -> Evaluate | None:
    """The evaluation that `x` needs; None where it trains nothing, or on the whole set. Length and
    temperature are those of the run's evaluations, verifier and prompts those of its training."""
    node = x.data.train
    if chooser(node, "data.train") is None or x.optim.steps == 0:
        return None
    engine = backend(x.backend).engine
    sampling: dict = {"n": node[KEY]["n"], "max_tokens": x.eval.max_tokens}
    sampling |= {"top_p": 1.0, "temperature": x.eval.temperature}
    asked = Benchmark(
        name=x.data.name,
        prompts=unfiltered(node),
        verifier=x.data.verifier,
        deadline=x.verification.deadline,
        **sampling,
    )
    return Evaluate(
        label=f"{x.model.name}-solve-rates",
        engine=engine,
        batch=min(BATCH[engine], MOST),
        seed=SEED,
        device=x.device,
        threads=x.threads,
        workers=x.verification.workers,
        memory_gb=x.verification.memory_gb,
        results_dir=x.results_dir,
        row=None,
        model=x.model,
        eval=asked,
        **sampling,
    )


def measure(x: Experiment, on_chunk: Callable[[], None]) -> None:
    """Make the evaluation that `x` needs, or go on with it. Nothing is done where it is finished,
    and where `x` is."""
    needed = measurement(x)
    done = finished(Path(x.results_dir) / x.paper / x.run_id, x.optim.steps)
    if needed is not None and not (done or (needed.path / "DONE").exists()):
        from common.evaluation.run import evaluate

        evaluate(needed, on_chunk)
