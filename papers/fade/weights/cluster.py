"""Weight changes of the models that a cluster training run kept. A job after the training measures
them for the table in Fig. 8, Table 9 and Fig. 5 left (common/sweeps/measures.py).

The run folder has steps/step-01000.csv, the table of tensors of one step's model, and an .npz file
with the leading left singular vectors; a step that has its file is not measured again. The end
writes thirds.csv (Table 12, against optimiser step 15,000, or the last where that is not measured)
and metrics.csv. A metric's name holds the number of optimiser steps, as in the paper; the last
step's metrics are also stored without it.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

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
from papers.fade.weights.tables import HEAD, Geometry, changes, memory_gb, thirds

# nanoseconds per parameter, low and high. We measured 77 of processor time;
# the range allows for several threads and a slow disk.
NS_A_NUMBER = (20.0, 150.0)
TABLE_12 = 15_000  # the optimiser step that Table 12's directions are compared with


def run(x: Measure) -> None:
    """Measure the model of every step. Raises UserError if a model is missing, has other shapes
    than the start, or is not finite."""
    out = Run(Path(x.results_dir), x.row.paper, x.path.name, x.config())
    if out.done:
        return
    start = Checkpoint(locate(folder(x.model, Path(x.results_dir))), "start", "start")
    found, vectors, models = {}, {}, []
    for step in x.steps:
        place = out.path / "steps" / f"step-{step:05d}.csv"
        one = Checkpoint(locate(x.weights(step)), place.stem, x.row.method, x.row.seed, step)
        if not place.exists():
            table, leading = changes(settings(), start, [one], progress=False)
            place.parent.mkdir(exist_ok=True)
            np.savez(place.with_suffix(".npz"), **{name: u for (name, _), u in leading.items()})
            write_csv(place, table)
        with np.load(place.with_suffix(".npz")) as held:
            vectors |= {(name, one.name): held[name] for name in held}
        found[step] = pd.read_csv(place)
        models.append(one)
    until = [one for one in models if one.step * x.updates <= TABLE_12]
    whole = not until or until[-1].step * x.updates < TABLE_12
    turned = thirds(models if whole else until, vectors)
    write_csv(out.path / "thirds.csv", turned)
    rows = [row for step, table in found.items() for row in numbers(x, table, turned, step)]
    write_csv(out.path / "metrics.csv", pd.DataFrame(rows).reindex(columns=COLUMNS))
    out.finish()


def settings() -> Geometry:
    return strict(Geometry, compose("fade", [], "weights"))


def numbers(x: Measure, table: pd.DataFrame, turned: pd.DataFrame, step: int) -> list[dict]:
    """Return the result rows of one step from its table of tensors and from `thirds`, with the
    metrics named as in the paper's tables."""
    head = table[table["part"] == HEAD].iloc[0]
    layers = table[table["part"].str.startswith("layer")]
    values = {
        # share of the sum of squares of all changes
        "output_head_L2_share": (head["energy_share"], "percent"),
        "s1/s2": (head["s1_over_s2"], "ratio"),
        "rank1_fraction": (100 * head["rank1_fraction"], "percent"),
        "srank": (head["srank"], ""),
        # mean share of a layer: 28 layers and the head make 99.1 % of all changes
        "inner": (layers.groupby("part")["energy_share"].sum().mean(), "percent"),
        # the output tokens' direction u (Sec. 15.1)
        "u_same_sign": (100 * head["u_same_sign"], "percent"),
        "u_half_energy": (100 * head["u_half_energy"], "percent"),
    }
    cosines = turned[turned["step"] == step].set_index("part")["cos_u"]
    if len(cosines):  # Table 12; of the inner layers the third that has turned least
        values["cos_u"] = (cosines[HEAD], "")
        values["inner_cos_u"] = (cosines.drop(HEAD).max(), "")
    updates = step * x.updates
    written = f"{updates // 1000}k" if updates % 1000 == 0 else str(updates)  # as in Fig. 8
    about = {"table": x.row.table, "model": x.model.name, "method": x.row.method}
    about |= {"seed": x.row.seed, "step": step, "run_id": x.path.name}
    return [
        about | {"metric": name + words, "value": value, "unit": unit}
        for words in (f", step {written}", *([""] if step == x.row.checkpoint else []))
        for name, (value, unit) in values.items()
    ]


def takes(x: Measure, training: Experiment, profile: Profile) -> Estimate:
    """Estimate the job's time from the number of parameters of its models. Raises UserError if the
    profile's jobs without a GPU have too little memory, or too little time for one model."""
    a = assumptions()
    size = model_size(training, a)
    layer = (size.parameters - 2 * size.vocab * size.hidden) / size.layers / size.hidden
    shapes = {f"layer {i}": (size.hidden, round(layer)) for i in range(size.layers)}
    memory = memory_gb(settings(), shapes | {"lm_head.weight": (size.vocab, size.hidden)}, 1)
    remedy = f"weight changes of {training.model.name} take {memory:.2g} GB; raise this limit"
    allowed = profile.light_memory_gb
    require(allowed is None or memory <= allowed, "light_memory_gb", allowed, remedy)
    ends = [1e-9 * ns * size.parameters for ns in NS_A_NUMBER]
    remedy = f"one model takes {ends[0] / 60:.0f} minutes at least; raise this limit"
    minutes = profile.light_time_min
    require(ends[0] < 60 * minutes, "light_time_min", minutes, remedy)
    light = replace(profile, time_min=minutes)
    return priced([len(x.steps) * one for one in ends], 0, 0.0, memory, light, a)
