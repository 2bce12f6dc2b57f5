"""The settings of an experiment beside those that its paper prints."""

import csv
import re
from typing import Any

from common.config.compose import ROOT
from common.experiment import Experiment

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w])")
SIZED = ("max response length", "max length")  # printed once a model


def compared(x: Experiment, pool: int | None) -> list[str]:
    """Lines that say which printed values are other than ours, and how many could be compared.

    `pool` is the number of training prompts, None where it is not known.
    """
    table = f"papers/{x.paper}/published/hyperparameters.csv"
    if not (ROOT / table).is_file():
        return [f"No setting was compared with the paper: {table} is missing"]
    with open(ROOT / table, newline="") as file:
        printed = list(csv.DictReader(file))
    pairs = list(_pairs(x, printed, pool))
    if not pairs:
        return [
            f"No setting was compared with the paper: {table} has no value of a name known here"
        ]
    differ = [
        f"  {row['scope']}: {row['parameter']}: {value}, "
        f"printed {row['value'][:60]} ({row['source']})"
        for row, value, same in pairs
        if not same
    ]
    said = f"Of the {len(printed)} rows of {table}, {len(pairs)} were compared"
    return [f"{said}; other than printed:", *differ] if differ else [f"{said}; all are as printed"]


def _pairs(x: Experiment, printed: list[dict], pool: int | None):
    """(row, our value, whether they are equal) of every row whose name `values` knows and that
    starts with numbers; rows of a method or a model only where they are this experiment's."""
    ours = values(x, pool)
    for row in printed:
        if not _concerns(x, row):
            continue
        name = _name(row["parameter"])
        if row["scope"] == "evaluation" and name in ("temperature", "max tokens"):
            name = f"{name} (all models)"
        value = ours.get(name)
        if value is None:
            continue
        mine = [float(number) for number in (value if isinstance(value, tuple) else [value])]
        theirs = [float(number) for number in NUMBER.findall(row["value"])][: len(mine)]
        if theirs:
            yield row, value, theirs == mine


def values(x: Experiment, pool: int | None) -> dict[str, Any]:
    """Ours by the names under which the papers' tables print them."""
    s, o, e = x.sampling, x.optim, x.eval
    loss = x.method.loss
    ours = {
        ("learning rate",): o.lr,
        ("adam betas",): o.betas,
        ("weight decay",): o.weight_decay,
        ("gradient norm clipping",): o.grad_clip,
        ("warmup steps",): o.warmup_steps,
        ("global batch size", "prompt batch size", "batch size"): s.prompts,
        ("mini-batch size",): s.prompts // o.mini_batches,
        ("epochs",): None if pool is None else round(o.steps * s.prompts / pool, 2),
        ("steps", "training steps"): o.steps,
        ("sampling temperature", "temperature"): s.temperature,
        ("top-p", "top-p (all models)"): 1.0,
        ("top-k", "top-k (all models)"): -1,
        ("group size n", "group size g", "rollouts per prompt g"): s.group_size,
        ("number of generations",): s.group_size,
        ("kl coefficient beta",): x.method.kl_coef,
        ("kl penalty coefficient (all algorithms)",): x.method.kl_coef,
        ("entropy bonus coefficient (all algorithms)",): x.method.entropy_coef,
        ("max completion length", "max response length"): s.max_tokens,
        ("reward correct / wrong",): (x.reward.correct, x.reward.wrong),
        ("temperature (all models)",): e.temperature,
        ("max length",): e.max_tokens,
        ("clip epsilon low", "clip ratio"): loss.get("eps_low"),
        ("clip epsilon high",): loss.get("eps_high"),
    }
    return {name: value for names, value in ours.items() for name in names}


def _name(parameter: str) -> str:
    lower = parameter.lower()
    return next((name for name in SIZED if lower.startswith(name)), lower)


def _concerns(x: Experiment, row: dict) -> bool:
    """Whether a printed row is about this experiment's method and model."""
    if row["scope"] not in ("training", "evaluation"):
        method = x.method.name.removeprefix("f_").replace("_", "-")
        return row["scope"].lower() == method
    name = _name(row["parameter"])
    if name not in SIZED:
        return True
    which = re.sub(r"[^a-z0-9]", "", row["parameter"].lower().removeprefix(name))
    model = re.sub(r"[^a-z0-9]", "", x.model.name.lower())
    math_model = "15bmath" in model
    return which in model if which != "othermodels" else not math_model
