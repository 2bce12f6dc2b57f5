"""Inputs of the report made by hand, shared by test_report.py and test_report_browser.py."""

import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd

from common.comparison import compare
from common.comparison.gather import Gathered
from common.report.figures import Picture
from common.report.reruns import Rerun
from common.report.sources import Source
from common.sweeps.cost import Range

CLAIM = {
    "id": "focal",
    "claim": "F beats G",
    "source": "Table 1",
    "published": {
        "where": {"table": "table1", "model": "7B", "benchmark": "AIME"},
        "order": [{"method": "F"}, {"method": ["G", "G2"]}],
        "relation": ">",
    },
}


def cell(method: str, benchmark: str, verdict: str, state: str, **changed) -> dict:
    """A row of Comparison.cells; with a state it has a rerun."""
    rerun = {"rerun": 71.0, "low": 69.0, "high": 73.0, "n_seeds": 3, "n_problems": 30}
    rerun |= {"difference": 0.7, "run_ids": "run-a;run-b"}
    empty = dict.fromkeys(rerun, np.nan) | {"run_ids": ""}
    row = {"table": "table1", "model": "7B", "method": method, "benchmark": benchmark}
    row |= {"metric": "pass@1", "k": 1, "value": 70.3, "unit": "percent"}
    row |= {"verdict": verdict, "reason": "", "notes": "", "state": state}
    return row | (rerun if state else empty) | changed


def comparison(cells: list[dict], *, words: str = "plain", **changed) -> compare.Comparison:
    """One claim, the given cells, one laptop row, one run; every free text is `words`."""
    spec = compare.Spec(
        "paper_a", words, [("table1", words, {})], {words: ("rare", "pass@64")}, [], list
    )
    verdict = {"claim": words, "source": words, "id": "focal", "laptop": "fails"}
    verdict |= {"published": "holds", "cluster": "not run", "published_numbers": "2 > 1"}
    verdict |= {"laptop_numbers": words, "cluster_numbers": "", "laptop_state": "reference"}
    verdict |= {f"{s}_runs": "" for s in ("published", "laptop", "cluster")}
    verdict |= {"published_state": "", "cluster_state": ""}
    gap = {"claim": "focal", "scope": "laptop", "table": words, "benchmark": "rare", "a": words}
    gap |= {"metric": "pass@64", "b": "G", "difference": 9.99, "low": 7.64, "high": 12.3}
    gap |= {"p": 1e-5, "p_holm": 2e-5, "p_bh": 3e-5, "mdd": 3.2, "n_seeds": 5, "n_problems": 200}
    gap |= dict.fromkeys(("prompt_low", "prompt_high", "seed_low", "seed_high"), np.nan)
    gap |= {"subsampling_p": np.nan, "verdict": "holds"}
    rerun = {"scope": "laptop", "table": "laptop_strong", "model": "tiny", "method": words}
    rerun |= {"benchmark": "rare", "metric": "pass@64", "k": 64, "value": 40.6, "unit": "percent"}
    rerun |= {"stderr": 0.4, "n_seeds": 5, "run_ids": "run-a", "state": "missing"}
    note = {"id": "INC001", "kind": "text", "where": words, "what_the_paper_says": words}
    note |= {"what_contradicts_it": words, "advice_to_implementers": words}
    note |= {"tables": "table1", "cells": 1}
    run = {"scope": "laptop", "run_id": "run-a", "table": "laptop_strong", "model": "tiny"}
    run |= {"method": words, "seed": 1, "config": "paper_a/run-a/config.yaml", "commit": "c" * 40}
    run |= {"config_sha256": "a" * 64, "diff_sha256": "", "versions": words, "imported": words}
    run |= {"samples": "paper_a/run-a/s.jsonl.gz", "samples_sha256": "b" * 64}
    run |= {"state": "missing", "detail": words}
    seen = {"scope": "published", "table": "table1", "benchmark": words, "metric": "pass@1"}
    seen |= {"n_problems": 30, "n_seeds": np.nan, "mdd": 18.2, "basis": words}
    lost = dict.fromkeys(("key", "kind", "state", "detail", "table", "model", "method"), words)
    parts = {
        "verdicts": [verdict],
        "gaps": [gap],
        "against_base": [],
        "cells": cells,
        "summary": [rerun],
        "detectable": [seen],
        "notes": [note],
        "runs": [run],
        "missing": [lost],
    }
    frames = {name: pd.DataFrame(rows) for name, rows in parts.items()}
    none = Gathered(pd.DataFrame(), pd.DataFrame(), pd.DataFrame())
    rest = {"left_out": [words], "scopes": {}, "cluster": none}
    return compare.Comparison(spec=spec, **(frames | rest | changed))


def picture(name: str, size: int = 100, folder: Path = Path("figures")) -> Picture:
    """A figure of `size` bytes, which need not be one: the page does not look inside."""
    return Picture(
        name, folder / f"{name}.png", b"p" * size, 640, 400, gzip.compress(b"x\n1\n", mtime=0)
    )


def png() -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (40, 20), (0, 114, 178)).save(out, "PNG")
    return out.getvalue()


def source(made: compare.Comparison | None, *, words: str = "plain", **changed) -> Source:
    table = pd.DataFrame(
        {"scope": [words], "parameter": [words], "value": [words], "source": [words]}
    )
    unread = pd.DataFrame({"item": [words], "caption": [words], "what_is_missing": [words]})
    cost = Range(4, 8)
    parts = {
        "paper": "paper_a",
        "title": words,
        "root": Path("nowhere"),
        "fallback": "",
        "comparison": made,
        "claims": {"focal": CLAIM},
        "hyperparameters": table,
        "missing": unread,
        "figures": [picture("fig1")],
        "reruns": [Rerun("cluster", "table1", "7B", "F", 1, f"run {words}", cost)],
        "left_out": [words],
    }
    return Source(**(parts | changed))
