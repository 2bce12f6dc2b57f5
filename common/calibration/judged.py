"""Compares one simulated rerun after another with the paper: the verdicts of `assess` on cells,
gains and claims, without the parts of it that decide no verdict."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from common.claims import judge
from common.claims.file import CLUSTER, predicate
from common.claims.select import indexed
from common.comparison import cells
from common.comparison.compare import KEY, with_own_rows
from common.comparison.gains import gains
from common.comparison.gather import LAPTOP, Gathered
from common.comparison.published import published
from common.comparison.spec import Spec
from common.config.files import ROOT

LOST = ["table", "model", "method", "state", "reason"]


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of one draw: tables with a row for each cell, gain or claim, which have its key,
    its verdict and, where known, its difference and the smallest difference that is detected."""

    cells: pd.DataFrame
    gains: pd.DataFrame
    claims: pd.DataFrame


class Judge:
    """Judges reruns that have the same runs as `stored`."""

    def __init__(self, spec: Spec, root: Path, stored: Gathered):
        home = ROOT / "papers" / spec.paper
        self.spec, self.root = spec, root
        self.printed = published(home / "published")
        stated = judge.load(home / "claims.yaml")
        self.stated = [one for one in stated if predicate(one, CLUSTER) is not None]
        self.exact = spec.exact(root)
        asked = {value for one in self.stated for value in _metrics(predicate(one, CLUSTER))}
        self.metrics = asked.union(self.printed["metric"], spec.metrics)
        named = set(self.printed["benchmark"]).union(*spec.averages.values())
        placed = stored.counts.assign(c=np.arange(len(stored.counts)))
        placed = cells.same_runs(spec, placed, self.printed)
        self.counts = indexed(placed[placed["benchmark"].isin(named)])

    def verdicts(self, rerun: Gathered) -> Verdicts:
        spec, printed = self.spec, self.printed
        right = rerun.counts["c"].to_numpy()
        counts = replace(self.counts, c=right[self.counts.c])
        rows = rerun.rows[rerun.rows["metric"].isin(self.metrics)]  # the others decide nothing
        rows, _ = cells.one_run_each(spec, rows)
        as_printed = cells.as_printed(spec, rows, printed)
        empty = Gathered(rows[:0], rerun.counts[:0], rerun.runs[:0])
        reruns = {LAPTOP: empty, CLUSTER: replace(rerun, rows=rows)}
        scopes = with_own_rows(spec, self.root, reruns, as_printed, printed)
        claims, gaps, _ = judge.judge(
            self.stated, {CLUSTER: scopes[CLUSTER]}, {CLUSTER: counts}, spec.averages, brief=True
        )
        mdd = gaps.groupby("claim")["mdd"].median()
        kept = as_printed[as_printed["metric"].isin(printed["metric"])]
        kept = kept[kept["table"].isin(printed["table"])]
        table = cells.compare_cells(
            spec, printed, kept, self.exact, rerun.runs, pd.DataFrame(columns=LOST)
        )
        return Verdicts(
            cells=table[table["rerun"].notna()],
            gains=gains(spec, printed, kept, None),
            claims=claims[["id", CLUSTER]].assign(mdd=claims["id"].map(mdd)),
        )

    def truths(self, rerun: Gathered) -> pd.Series:
        """Return the verdict of each claim, by id, if the numbers of `rerun` are the truth."""
        rows = rerun.rows.drop(columns="sampling", errors="ignore")
        printed = self.printed
        as_printed = cells.as_printed(self.spec, rows, printed)
        empty = Gathered(rows[:0], rerun.counts[:0], rerun.runs[:0])
        reruns = {LAPTOP: empty, CLUSTER: replace(rerun, rows=rows)}
        scopes = with_own_rows(self.spec, self.root, reruns, as_printed, printed)
        stated = [
            {name: one[name] for name in ("id", "claim", "source", "section")}
            | {"published": predicate(one, CLUSTER)}
            for one in self.stated
        ]
        numbers = scopes[CLUSTER].assign(seed=np.nan, run_id=None)
        numbers = numbers.drop_duplicates([*KEY, "step"])  # every seed's truth is the same
        averages = {}
        verdicts, _, _ = judge.judge(stated, {"published": numbers}, None, averages, brief=True)
        return verdicts.set_index("id")["published"]


def _metrics(node) -> list[str]:
    """Return the values of `metric` in all selectors of a predicate."""
    if isinstance(node, dict):
        own = node.get("metric", [])
        return [*([own] if isinstance(own, str) else own), *_metrics([*node.values()])]
    return [name for one in node for name in _metrics(one)] if isinstance(node, list) else []
