"""What a fine-tuned start model must measure before the 7B rows train from it: the gates of
configs/reproduce.yaml (common/sweeps/gates.py), each a job without a GPU.

Numbers of a benchmark are named "BENCHMARK pass@K", on the training prompts "solve_rate" (percent)
and "entropy" (nats: as a controller sees it, the mean over responses of the token mean of -log p).
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from common.errors import UserError
from common.results.files import read_csv, write_csv
from common.results.run import Run
from common.sweeps.gates import Gate

NOISE = 1.96 * 2**0.5  # standard errors over problems: 95 % of differences of two evaluations
NAMES = {"pass@1": "solve_rate", "token_entropy_per_response": "entropy"}  # on the prompts


def judge(x: Gate) -> Path:
    """Compare the measured numbers with the expected ones, write both to measured.csv, mark the run
    folder as finished and return it. Raises UserError with every number that is not as expected,
    and the remedy; the folder is then not finished."""
    run = Run(Path(x.results_dir), x.paper, x.path.name, asdict(x))
    if run.done:
        return run.path
    table = pd.DataFrame([_compared(x, name, *pair) for name, *pair in _measured(x)])
    table = table[table["expected"] != ""]
    write_csv(run.path / "measured.csv", table)
    print(table.to_string(index=False), flush=True)
    lacking = sorted({*x.near, *x.above} - set(table["number"]))
    bad = [
        f"{row.number}={row.measured:.4g} (expected {row.expected})"
        for row in table[~table["passes"]].itertuples()
    ]
    bad += [f"{name}=None (not measured)" for name in lacking]
    if bad:
        run.close()
        raise UserError(f"{x.name}: {'; '.join(bad)} (model {x.model}); {x.remedy}")
    run.finish()
    return run.path


def _measured(x: Gate) -> Iterator[tuple[str, float, float]]:
    """Yield (name of a number, its value, its standard error over problems)."""
    places = {"": Path(x.results_dir) / "evaluations" / x.prompts}
    places |= {f"{n} ": Path(x.results_dir) / x.paper / run for n, run in x.benchmarks.items()}
    for prefix, folder in places.items():
        for row in read_csv(folder / "metrics.csv").itertuples():
            name = NAMES.get(row.metric) if not prefix else row.metric
            if name is not None:
                yield f"{prefix}{name}", row.value, row.stderr


def _compared(x: Gate, name: str, value: float, stderr: float) -> dict:
    passes, expected = True, []
    if name in x.near:
        center, digit = x.near[name]
        half = NOISE * stderr + digit
        passes &= abs(value - center) <= half
        expected.append(f"{center:g} ± {half:.2g}")
    if name in x.above:
        passes &= value > x.above[name]
        expected.append(f"above {x.above[name]:g}")
    about = {"number": name, "measured": value, "stderr": stderr}
    return about | {"expected": " and ".join(expected), "passes": passes}
