"""Labelled cases and public sets that stand beside the checkout, in shared/data."""

import json

import pytest
from tiny import ROOT

DATA = ROOT.parent / "shared" / "data"


def rows(name: str) -> list[dict]:
    """Of <name>.jsonl; the test is skipped where it is not there."""
    file = DATA / f"{name}.jsonl"
    if not file.exists():
        pytest.skip(f"shared/data/{name}.jsonl is not there")
    return [json.loads(line) for line in file.open(encoding="utf-8")]
