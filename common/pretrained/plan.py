"""The runs of a scale: configs/pretrained_scales.yaml."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from common.errors import require

if TYPE_CHECKING:
    from common.experiment import Experiment

PAPER = "pretrained"
BASE = "base"


@dataclass(frozen=True)
class Scale:
    methods: dict[str, list[str]]  # label -> words
    seeds: list[int]
    overrides: list[str]


def scales() -> dict[str, Scale]:
    """Every scale by its name."""
    from omegaconf import OmegaConf

    from common.config.files import ROOT, read
    from common.config.strict import strict

    nodes = read(ROOT / "configs" / "pretrained_scales.yaml")
    return {str(name): strict(Scale, OmegaConf.create(node)) for name, node in nodes.items()}


def plan(scale: str, overrides: list[str]) -> list[Experiment]:
    """The base model, then every method, seed by seed: a command that is stopped has compared all
    methods on the seeds that it reached. Raises UserError for an unknown scale or a bad word."""
    known = scales()
    require(scale in known, "scale", scale, f"use one of {', '.join(known)}")
    chosen = known[scale]
    words = [f"table={scale}", *chosen.overrides, *overrides]
    methods = [
        replace(_load([*words, *method]), label=label) for label, method in chosen.methods.items()
    ]
    runs = [replace(x, seed=seed) for seed in chosen.seeds for x in methods]
    start = _load(words)
    base = replace(start, name=BASE, label=BASE, optim=replace(start.optim, steps=0))
    return [replace(base, seed=chosen.seeds[0]), *runs]


def _load(words: list[str]) -> Experiment:
    from common.config.compose import CONFIGS, compose
    from common.config.strict import strict
    from common.experiment import Experiment

    return strict(Experiment, compose(CONFIGS, words, PAPER))
