"""What `rlvr methods` shows is what the code says, and every function says what it is."""

import importlib
import inspect
import pkgutil
import re

import pytest
from refuses import refuses

import common.advantages
import common.losses
from common.methods import catalogue

PARAMETERS = {  # positional parameters -> what such a function is
    ("rewards",): "advantage",
    ("log_prob", "old_log_prob", "advantages", "mask"): "loss or token weights",
    ("mask",): "aggregation",
    ("log_prob", "ref_log_prob"): "KL estimator",
}


def functions() -> dict:
    """Every public function of the two packages, by dotted name."""
    public = {}
    for package in (common.advantages, common.losses):
        for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            for name, f in vars(importlib.import_module(info.name)).items():
                defined = inspect.isfunction(f) and f.__module__ == info.name
                if defined and not name.startswith("_"):
                    public[f"{info.name}.{name}"] = f
    return public


ALL = functions()
USED = [f for name in catalogue.names() for f in catalogue.functions(name).values()]


def positional(f) -> tuple:
    parameters = inspect.signature(f).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


def is_helper(path: str) -> bool:
    """Named by no method file, and another function calls it."""
    word = re.compile(rf"\b{ALL[path].__name__}\(")
    calls = [p for p, f in ALL.items() if p != path and word.search(inspect.getsource(f))]
    return ALL[path] not in USED and bool(calls)


SHOWN = [p for p, f in ALL.items() if positional(f) in PARAMETERS and not is_helper(p)]


@pytest.mark.parametrize("path", SHOWN)
def test_every_function_says_formula_and_source(path):
    doc = inspect.getdoc(ALL[path])
    assert re.search("^Source: .+", doc, re.M), f"{path}: no line Source:"
    assert re.search(r"^    .*\S$", doc, re.M), f"{path}: no indented formula"


def test_the_command_shows_one_method_and_lists_them_all(capsys):
    kinds = {PARAMETERS[positional(ALL[path])] for path in SHOWN}
    assert kinds == set(PARAMETERS.values())
    catalogue.main(["f_grpo"])
    shown = capsys.readouterr().out
    assert "gamma: 0.5" in shown
    assert "g      = (1 - mu_hat)^gamma" in shown
    catalogue.main(["method=f_grpo"])
    assert capsys.readouterr().out == shown
    with refuses("method", "fgrpo"):
        catalogue.main(["fgrpo"])
    catalogue.main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == catalogue.names()
    assert max(map(len, lines)) <= 100
