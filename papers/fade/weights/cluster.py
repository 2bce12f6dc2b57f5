"""Weight changes of the models that a cluster's training kept: the job after it, which fills the
table in Fig. 8, Table 9 and Fig. 5 left (common/sweeps/measures.py).

The run folder has steps/step-01000.csv, the table of tensors of one step's model, with the leading
vectors beside it; a step that is there is not measured again. At the end thirds.csv (Table 12, with
the last step) and metrics.csv. A metric names the optimiser steps, as the paper does; that of the
last step is also there without them.
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

UNITS = {  # of a step's numbers, named as the paper's tables print them
    "output_head_L2_share": "percent",  # of the sum of squares of all changes
    "s1/s2": "ratio",
    "rank1_fraction": "percent",
    "srank": "",
    "inner": "percent",  # the mean share of a layer: with 28 of them and the head's, 99.1 % of all
}
NS_A_NUMBER = (20.0, 150.0)  # 77 of processor time (`rlvr bench names=weights`); threads, the disk


def run(x: Measure) -> None:
    """Measure every step's model. Raises UserError for a model that is not there, of another shape
    than the start, or not finite."""
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
    """The result rows of one step's table of tensors."""
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
    """Of one step's numbers, by their names in UNITS."""
    about = {"table": x.row.table, "model": x.model.name, "method": x.row.method}
    about |= {"seed": x.row.seed, "step": step, "run_id": x.path.name}
    at = [f", step {updates(step * x.updates)}", *([""] if step == x.row.checkpoint else [])]
    return [
        about | {"metric": name + words, "value": value, "unit": UNITS[name]}
        for words in at
        for name, value in values.items()
    ]


def updates(count: int) -> str:
    """Optimiser steps as Fig. 8 writes them: 10k."""
    return f"{count // 1000}k" if count % 1000 == 0 else str(count)


def takes(x: Measure, training: Experiment, profile: Profile) -> Estimate:
    """Hours by the numbers of the models. Raises UserError where the profile's jobs without a GPU
    have too little memory, or too little time for one model."""
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
    return priced(seconds, 0, 0.0, memory, [0, 0], light, a)
