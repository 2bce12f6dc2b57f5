"""Weight changes of the models that a cluster training run kept. A job after the training measures
them for the table in Fig. 8, Table 9 and Fig. 5 left (common/sweeps/measures.py).

The run folder has steps/step-01000.csv, the table of tensors of one step's model, and the leading
singular vectors in an .npz file beside it; a step that has its file is not measured again. The end
writes thirds.csv (Table 12, against the last step) and metrics.csv. The name of a metric holds the
number of optimiser steps, as in the paper; the last step's metrics are also stored without it.
"""

from dataclasses import replace
from pathlib import Path

from common.config.compose import compose
from common.config.strict import strict
from common.errors import require
from common.experiment import Experiment
from common.models.store import folder
from common.results.columns import COLUMNS
from common.results.files import write_csv
from common.results.run import Run
from common.sweeps.assumptions import assumptions, model_size
from common.sweeps.cost import Estimate, priced
from common.sweeps.measures import Measure
from common.sweeps.profiles import Profile
from papers.fade.weights.checkpoints import Checkpoint, locate
from papers.fade.weights.config import Geometry
from papers.fade.weights.tables import HEAD, alignment, changes, memory_gb, thirds

UNITS = {  # metric of a step -> its unit, with the metrics named as in the paper's tables
    "output_head_L2_share": "percent",  # share of the sum of squares of all changes
    "s1/s2": "ratio",
    "rank1_fraction": "percent",
    "srank": "",
    "inner": "percent",  # mean share of a layer: 28 layers and the head make 99.1 % of all changes
}
# nanoseconds per parameter, low and high. We measured 77 of processor time;
# the range allows for several threads and a slow disk.
NS_A_NUMBER = (20.0, 150.0)


def run(x: Measure) -> None:
    """Measure the model of every step.

    Raises UserError if a model is missing, has other shapes than the start, or is not finite.
    """
    import numpy as np
    import pandas as pd

    out = Run(Path(x.results_dir), x.row.paper, x.path.name, x.config())
    if out.done:
        return
    start = Checkpoint(locate(folder(x.model, Path(x.results_dir))), "start", "start")
    tables, vectors, models = [], {}, []
    for step in x.steps:
        place = out.path / "steps" / f"step-{step:05d}.csv"
        one = Checkpoint(locate(x.weights(step)), place.stem, x.row.method, x.row.seed, step)
        if not place.exists():
            table, found, _ = changes(settings(), start, [one], progress=False)
            place.parent.mkdir(exist_ok=True)
            arrays = {f"u {name}": u for (name, _), (u, _) in found.items()}
            arrays |= {f"v {name}": v for (name, _), (_, v) in found.items()}
            np.savez(place.with_suffix(".npz"), **arrays)
            write_csv(place, table)
        with np.load(place.with_suffix(".npz")) as held:
            names = [key[2:] for key in held if key.startswith("u ")]
            vectors |= {(n, one.name): (held[f"u {n}"], held[f"v {n}"]) for n in names}
        tables.append(pd.read_csv(place))
        models.append(one)
    write_csv(out.path / "thirds.csv", thirds(alignment(models, vectors)))
    rows = [row for t, step in zip(tables, x.steps, strict=True) for row in numbers(x, t, step)]
    write_csv(out.path / "metrics.csv", pd.DataFrame(rows).reindex(columns=COLUMNS))
    out.finish()


def settings() -> Geometry:
    return strict(Geometry, compose("fade", [], "weights"))


def numbers(x: Measure, table, step: int) -> list[dict]:
    """Return the result rows of one step from its table of tensors."""
    head = table[table["part"] == HEAD].iloc[0]
    layers = table[table["part"].str.startswith("layer")]
    values = {
        "output_head_L2_share": head["energy_share"],
        "s1/s2": head["s1_over_s2"],
        "rank1_fraction": 100 * head["rank1_fraction"],
        "srank": head["srank"],
        "inner": layers.groupby("part")["energy_share"].sum().mean(),
    }
    return result_rows(x, values, step)


def result_rows(x: Measure, values: dict[str, float], step: int) -> list[dict]:
    """Return the result rows for one step's values, which are named as in UNITS."""
    about = {"table": x.row.table, "model": x.model.name, "method": x.row.method}
    about |= {"seed": x.row.seed, "step": step, "run_id": x.path.name}
    at = [f", step {updates(step * x.updates)}", *([""] if step == x.row.checkpoint else [])]
    return [
        about | {"metric": name + words, "value": value, "unit": UNITS[name]}
        for words in at
        for name, value in values.items()
    ]


def updates(count: int) -> str:
    """Return a number of optimiser steps as Fig. 8 writes it, such as 10k."""
    return f"{count // 1000}k" if count % 1000 == 0 else str(count)


def takes(x: Measure, training: Experiment, profile: Profile) -> Estimate:
    """Estimate the job's time from the number of parameters of its models.

    Raises UserError if the profile's jobs without a GPU have too little memory, or too little time
    for one model.
    """
    a = assumptions()
    size, config = model_size(training, a), settings()
    layer = (size.parameters - 2 * size.vocab * size.hidden) / size.layers / size.hidden
    shapes = {f"layer {i}": (size.hidden, round(layer)) for i in range(size.layers)}
    memory = memory_gb(config, shapes | {"lm_head.weight": (size.vocab, size.hidden)}, 1)
    require(
        memory <= profile.light_memory_gb,
        "light_memory_gb",
        profile.light_memory_gb,
        f"weight changes of {training.model.name} take {memory:.2g} GB; raise it",
    )
    low, high = (1e-9 * ns * size.parameters for ns in NS_A_NUMBER)
    require(
        low < 60 * profile.light_time_min,
        "light_time_min",
        profile.light_time_min,
        f"one model takes {low / 60:.0f} minutes at least; raise it",
    )
    light = replace(profile, time_min=profile.light_time_min)
    seconds = [len(x.steps) * one for one in (low, high)]
    return priced(seconds, 0, 0.0, memory, light, a)
