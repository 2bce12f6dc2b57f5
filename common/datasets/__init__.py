"""Data sets as prompts. `common.datasets.load` is the path that configurations name."""

from common.datasets.hub import load

__all__ = ["load"]
