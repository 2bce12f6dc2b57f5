"""Data sets as prompts. Configurations name this package's loader as `common.datasets.load`."""

from common.datasets.hub import load

__all__ = ["load"]
