"""Evaluations before training, which measure the start model's solve rates on the training set.

A run needs them if its `data.train.solve_rate` leaves easy prompts out. Runs with the same start
model and set share them. A large set is split into several evaluations, which are parallel jobs.
"""

from collections.abc import Callable

from common.backends import backend
from common.datasets.benchmark import Benchmark
from common.datasets.prompts import stated
from common.datasets.solve_rate import KEY, chooser, unfiltered
from common.evaluation.config import Evaluate
from common.experiment import Experiment
from common.results.longer import finished

SEED = 1  # of the samples: the same for all seeds of an experiment, so they share their prompts
PART = 8192  # samples of an evaluation: 25,000 prompts with 8 samples each are 24 jobs


def measurements(x: Experiment) -> list[Evaluate]:
    """Return the evaluations that `x` needs: several for a large set of known size."""
    node = x.data.train
    if chooser(node, "data.train") is None or x.optim.steps == 0:
        return []
    whole, n = unfiltered(node), node[KEY]["n"]
    parts = max(1, round((stated(whole) or 0) * n / PART))
    if parts == 1:
        return [on_prompts(x, whole, n)]
    of = {"_target_": "common.datasets.prompts.part", "of": whole, "parts": parts}
    return [on_prompts(x, of | {"number": number}, n) for number in range(parts)]


def on_prompts(x: Experiment, node: dict, n: int) -> Evaluate:
    """Return the evaluation of the start model of `x` on the training prompts of `node`."""
    engine = backend(x.backend).engine
    sampling: dict = {"n": n, "max_tokens": x.eval.max_tokens}
    sampling |= {"top_p": 1.0, "temperature": x.eval.temperature}
    asked = Benchmark(
        name=x.data.name,
        prompts=node,
        verifier=x.data.verifier,
        deadline=x.verification.deadline,
        **sampling,
    )
    return Evaluate(
        label=f"{x.model.name}-solve-rates",
        engine=engine,
        batch=None,
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
    """Run or resume the evaluations that `x` needs, unless `x` itself is finished."""
    if finished(x.path, x.optim.steps):
        return
    if needed := [one for one in measurements(x) if not (one.path / "DONE").exists()]:
        from common.evaluation.run import evaluate_all

        evaluate_all(needed, on_chunk)
