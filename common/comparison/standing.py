"""The runs that stand for the rows of a printed table, that is, count as their reruns."""

from common.comparison.published import published
from common.comparison.spec import Spec, spec_of
from common.config.files import ROOT


def same_rows(spec: Spec, table: str, method: str) -> set[tuple[str, str]]:
    """Return (table, label) of the runs that stand for a printed row: its own runs, the runs of
    rows that `Spec.same_runs` calls the same run, and the runs that make one of its cells together
    (`Spec.joined`)."""
    same = {
        (one.of_table, one.of_method)
        for one in spec.same_runs
        if (one.table, one.method) == (table, method)
    }
    parts = [one.of for one in spec.joined if (one.table, one.method) == (table, method)]
    return {(table, method), *(of for some in parts for of in some)} | same


def stand_for(paper: str, table: str) -> set[tuple[str, str, str]]:
    """Return (model, table, label) of the runs that stand for any row of a printed table; empty
    where the paper prints no such table."""
    spec, printed = spec_of(paper), published(ROOT / "papers" / paper / "published")
    rows = printed[printed["table"] == table][["model", "method"]].drop_duplicates()
    return {
        (model, of_table, label)
        for model, method in rows.itertuples(index=False)
        for of_table, label in same_rows(spec, table, method)
    }
