"""The runs of the yardstick: every method at the same learning rate and an equalised one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from common.errors import UserError, require

if TYPE_CHECKING:
    from common.experiment import Experiment

PAPER = "yardstick"
REFERENCE = "grpo"
BASE = "base"
PLAIN, EQUALISED, BOTH = "plain", "equalised", "both"  # the `table` of the rows


def plan(
    methods: Iterable[str], seeds: Iterable[int], overrides: list[str]
) -> tuple[list[Experiment], dict[str, str]]:
    """Every run, and the methods that this backend refuses with the reason.

    Seed by seed, so that a command that is stopped has compared all methods on the seeds that it
    reached; the base model and the reference come first.
    """
    reference, refused = _load(REFERENCE, overrides), {}
    fewest = reference.eval.curve_n
    require(fewest >= 256, "eval.curve_n", fewest, "pass@256 is compared at every evaluation")
    untrained = replace(reference.optim, steps=0)
    once = [replace(reference, name=BASE, label=BASE, optim=untrained), reference]
    for method in methods:
        if method == REFERENCE:
            continue
        try:
            once += _rates(_load(method, overrides), reference)
        except UserError as error:
            refused[method] = str(error)
    return [replace(x, seed=seed) for seed in seeds for x in once], refused


def _load(method: str, overrides: list[str]) -> Experiment:
    from common.config.compose import CONFIGS, compose
    from common.config.strict import strict
    from common.experiment import Experiment

    return strict(Experiment, compose(CONFIGS, [f"method={method}", *overrides], "yardstick"))


def _rates(x: Experiment, reference: Experiment) -> list[Experiment]:
    """The method at the same learning rate and at the equalised one; one run where they
    coincide. Raises UserError where method and experiment do not fit."""
    from common.methods import binding as method

    method.check(x.method, x.sampling.group_size, x.reward)
    bound, size = method.bind(x.method), x.sampling.group_size
    if bound.controller is None:  # which would change the weights from step to step
        theirs = method.largest_weight(method.bind(reference.method), size, x.reward, {})
        ours = method.largest_weight(bound, size, x.reward, {})
        if math.isclose(ours, theirs, rel_tol=1e-4):  # epsilons of the normalisers apart
            return [replace(x, table=BOTH)]
    optim = replace(x.optim, equalise_to=reference.method.advantage)
    other = replace(x, table=EQUALISED, name=f"{x.name}_equalised", optim=optim)
    return [replace(x, table=PLAIN), other]
