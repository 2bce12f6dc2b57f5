"""Which runs stand for the rows of a printed table."""

from common.comparison.published import published
from common.comparison.spec import Spec, spec_of
from common.config.files import ROOT


def same_rows(spec: Spec, table: str, method: str) -> set[tuple[str, str]]:
    """(table, label) of the runs that stand for a printed row: its own, those of the rows that the
    paper's comparison calls the same run, and those that make a cell of it together."""
    same = {
        (one.of_table, one.of_method)
        for one in spec.same_runs
        if (one.table, one.method) == (table, method)
    }
    parts = [one.of for one in spec.joined if (one.table, one.method) == (table, method)]
    return {(table, method), *(of for some in parts for of in some)} | same


def stand_for(paper: str, table: str) -> set[tuple[str, str, str]]:
    """(model, table, label) of the runs that stand for any row of a printed table; empty where the
    paper prints no such table."""
    spec, printed = spec_of(paper), published(ROOT / "papers" / paper / "published")
    rows = printed[printed["table"] == table][["model", "method"]].drop_duplicates()
    return {
        (model, of_table, label)
        for model, method in rows.itertuples(index=False)
        for of_table, label in same_rows(spec, table, method)
    }
