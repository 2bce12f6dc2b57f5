import pytest
from compositions import PAPERS, asked
from tiny import ROOT

from common.claims.file import load
from common.comparison.frontier import AT_EQUAL, BASE, GRPO, LOWER, LOWER_GRPO, RATE
from common.config.rows import rows
from common.sweeps.plan import OF_STUDY, STUDY

LABELS = {OF_STUDY + name: row["label"] for name, row in rows(STUDY).items()}


def spoken(paper: str) -> set[tuple[str, str]]:
    """(table, method) of the study that the paper's claims read."""
    found = set()
    for claim in load(ROOT / "papers" / paper / "claims.yaml"):
        for one in claim.laptop.selectors if claim.laptop else ():
            table, methods = str(one.get("table")), one.get("method")
            if pair := AT_EQUAL.fullmatch(table):
                assert methods in pair.groups()
                found.add((LOWER, GRPO) if methods == LOWER_GRPO else (RATE, methods))
            elif table in (BASE, RATE, LOWER):
                found |= {(table, x) for x in ([methods] if isinstance(methods, str) else methods)}
    return found


@pytest.mark.parametrize("paper", PAPERS)
def test_claims_speak_of_methods_that_the_full_scale_trains(paper):
    sweeps = asked(paper).scales["full"].sweeps
    trained = {
        (sweep.table, LABELS[row]) for sweep in sweeps for row in sweep.rows if row in LABELS
    }
    assert spoken(paper) | {(BASE, BASE)} == trained
