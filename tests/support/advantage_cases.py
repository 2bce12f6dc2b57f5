"""Advantages bound to a reward convention, and rows to run them on."""

import inspect
import math
import re
from functools import partial

import pytest
import torch

from common.advantages import (
    baseline,
    difficulty,
    functional,
    group,
    likelihood,
    outcomes,
    passk,
    sign,
)

EXACT = dict(unbiased=False, epsilon=0.0)  # GRPO with the population std

MODULES = (group, baseline, difficulty, sign, passk, functional, likelihood, outcomes)

FUNCTIONS = {
    name: function
    for module in MODULES
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and not name.startswith("_")
}


def bind(name: str, *, right: float = 1.0, **params):
    """The advantage with `params`; where it asks which responses are correct, those with the reward
    `right` are."""
    function = partial(FUNCTIONS[name], **params)
    if "correct" not in inspect.signature(FUNCTIONS[name]).parameters:
        return function
    return lambda rewards, **given: function(rewards, correct=rewards == right, **given)


def documented(name: str) -> tuple[str, str]:
    """The expressions for m_S and m_F in the docstring, as Python."""
    line = re.search(r"^m_S = (.*)$", inspect.getdoc(FUNCTIONS[name]), re.M).group(1)
    success, _, failure = line.split(";")[0].replace("^", "**").partition(", m_F = ")
    success = success.removeprefix("m_F = ")
    return success, failure or success


def masses(weights: torch.Tensor, solved: int) -> tuple[float, float]:
    size = len(weights)
    return weights[:solved].sum().item() / size, -weights[solved:].sum().item() / size


def assert_masses(name, size, solved, weights, **values):
    p, k = solved / size, values.get("k", 1)
    known = dict(
        values, p=p, q=1 - p, X=solved, F=size - solved, G=size, sqrt=math.sqrt, comb=math.comb,
        exp=math.exp, log=math.log, R=1 - math.comb(size - solved, k) / math.comb(size, k),
    )  # fmt: skip
    known["z"] = p * math.exp(values.get("beta", 0)) + 1 - p
    for expression, mass in zip(documented(name), masses(weights, solved), strict=True):
        try:
            expected = eval(expression, {"__builtins__": {}}, known)
        except (ZeroDivisionError, ValueError):
            assert solved in (0, size)  # 0/0 or log of a negative number: no success, no failure
            expected = 0.0
        assert mass == pytest.approx(expected, abs=1e-12), f"{name}, X={solved}: {expression}"
