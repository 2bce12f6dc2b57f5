"""Modules that take long to import, such as transformers: the first test that uses one imports it,
not the collection of the tests."""

from importlib import import_module
from typing import Any


class Late:
    """Stands for a module, whose names are read from it. monkeypatch.setattr takes the module's
    path as a text instead."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks for its own marks at all names of a file
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)
