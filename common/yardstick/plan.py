"""The runs of the yardstick: every method at the learning rates of its protocol."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from common.errors import UserError, require
from common.sweeps.plan import from_base
from common.yardstick.protocol import (
    BASE,
    BOTH,
    EQUALISED,
    LOWER,
    LOWER_RATE,
    PLAIN,
    REFERENCE,
    Protocol,
)

if TYPE_CHECKING:
    from common.experiment import Experiment


def plan(
    protocol: Protocol, methods: Iterable[str], seeds: Iterable[int], overrides: list[str]
) -> tuple[list[Experiment], dict[str, str]]:
    """Every run, and the methods that this backend refuses with the reason.

    Seed by seed, so that a command that is stopped has compared all methods on the seeds that it
    reached; the base model and the reference come first.
    """
    reference, refused = _load(protocol, REFERENCE, overrides), {}
    fewest, k = reference.eval.curve_n, protocol.most_samples
    require(fewest >= k, "eval.curve_n", fewest, f"pass@{k} is compared at every evaluation")
    untrained = replace(reference.optim, steps=0)
    once = [replace(reference, name=BASE, label=BASE, table=BOTH, optim=untrained)]
    once += _rates(protocol, reference, reference)
    for method in methods:
        if method == REFERENCE:
            continue
        try:
            once += _rates(protocol, _load(protocol, method, overrides), reference)
        except UserError as error:
            refused[method] = str(error)
    return [
        from_base(replace(x, seed=seed), protocol.base(seed)) for seed in seeds for x in once
    ], refused


def _load(protocol: Protocol, method: str, overrides: list[str]) -> Experiment:
    from common.config.compose import CONFIGS, compose
    from common.config.strict import strict
    from common.experiment import Experiment

    return strict(Experiment, compose(CONFIGS, [f"method={method}", *overrides], protocol.name))


def _rates(protocol: Protocol, x: Experiment, reference: Experiment) -> list[Experiment]:
    """The method at the same learning rate and at the other one; one run where the equalised rate
    is the same. Raises UserError where method and experiment do not fit."""
    from common.methods import rate

    if LOWER in protocol.rates:
        optim = replace(x.optim, lr=x.optim.lr * LOWER_RATE)
        twin = replace(x, table=LOWER, name=f"{x.name}_{LOWER}", optim=optim)
        return [replace(x, table=PLAIN), twin]
    to = reference.method.advantage
    if x.method.controller is None:  # which would change the weights from step to step
        given = dict(to=to, group_size=x.sampling.group_size, reward=x.reward, arguments={})
        factor = rate.equalised(1.0, x.bound, **given)
        if math.isclose(factor, 1, rel_tol=1e-4):  # epsilons of the normalisers apart
            return [replace(x, table=BOTH)]
    optim = replace(x.optim, equalise_to=to)
    other = replace(x, table=EQUALISED, name=f"{x.name}_equalised", optim=optim)
    return [replace(x, table=PLAIN), other]
