"""The runs of the yardstick: every method at the learning rates of its protocol."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from common.errors import UserError, require
from common.sweeps.plan import Reproduce, Sweep, changed, from_base, runs_of
from common.yardstick.protocol import BOTH, EQUALISED, LOWER, LOWER_RATE, REFERENCE, Protocol

if TYPE_CHECKING:
    from common.experiment import Experiment


def plan(
    protocol: Protocol, config: Reproduce, methods: Iterable[str], words: Sequence[str]
) -> tuple[list[Experiment], dict[str, str]]:
    """Return (every run, the methods that this backend refuses -> the reason).

    config: has two sweeps, the base model and the plain rate, to which each method is added. words:
    overrides for every run. The runs are ordered seed by seed, so that a command that is stopped
    has compared all methods on the seeds that it reached. In each seed the base model and the
    reference come first.
    """
    start, rates = changed(config, words).sweeps
    base, reference = (_run(config, sweep, REFERENCE) for sweep in (start, rates))
    fewest, k = reference.eval.curve_n, protocol.most_samples
    require(fewest >= k, "eval.curve_n", fewest, f"pass@{k} is compared at every evaluation")
    once, refused = [base, *_rates(protocol, reference, reference)], {}
    for method in methods:
        if method == REFERENCE:
            continue
        try:
            once += _rates(protocol, _run(config, rates, method), reference)
        except UserError as error:
            refused[method] = str(error)
    return [
        from_base(replace(x, seed=seed), protocol.base(seed)) for seed in rates.seeds for x in once
    ], refused


def _run(config: Reproduce, sweep: Sweep, method: str) -> Experiment:
    """Return the sweep's first run, with this method."""
    words = [f"method={method}", *sweep.overrides]
    return runs_of(config, replace(sweep, seeds=sweep.seeds[:1], overrides=words))[0]


def _rates(protocol: Protocol, x: Experiment, reference: Experiment) -> list[Experiment]:
    """Return the method's runs at the plain learning rate and at the protocol's other one; a single
    run where the equalised rate is the same. Raises UserError where method and experiment do not
    fit."""
    from common.methods import rate

    if LOWER in protocol.rates:
        optim = replace(x.optim, lr=x.optim.lr * LOWER_RATE)
        return [x, replace(x, table=LOWER, name=f"{x.name}_{LOWER}", optim=optim)]
    to = reference.method.advantage
    if x.method.controller is None:  # a controller would change the weights from step to step
        given = dict(to=to, group_size=x.sampling.group_size, reward=x.reward, arguments={})
        factor = rate.equalised(1.0, x.bound, **given)
        if math.isclose(factor, 1, rel_tol=1e-4):  # but for epsilons of the normalisers
            return [replace(x, table=BOTH)]
    optim = replace(x.optim, equalise_to=to)
    return [x, replace(x, table=EQUALISED, name=f"{x.name}_{EQUALISED}", optim=optim)]
