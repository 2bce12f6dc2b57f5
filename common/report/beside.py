"""A user's own comparison beside the committed one.

Committed results stay, and the user's results fill cells that were empty. The user's laptop results
have a scope of their own, OWN, which is shown after the laptop's.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from common.claims.file import SCOPES
from common.comparison.compare import Comparison
from common.comparison.gather import CLUSTER, LAPTOP

OWN = "own"
SHOWN = (*SCOPES[: SCOPES.index(LAPTOP) + 1], OWN, *SCOPES[SCOPES.index(LAPTOP) + 1 :])
PARTS = ("", "_numbers", "_runs", "_state")  # of a scope, in verdicts


def beside(stored: Comparison, own: Comparison) -> Comparison:
    """Merge two comparisons: printed cells and cluster claims are the user's where the user has
    run them, and everything else is taken from `stored`."""
    ran = len(own.cluster.rows) > 0
    verdicts, mine = stored.verdicts.copy(), own.verdicts.set_index("id")
    mine = mine.reindex(verdicts["id"])
    for part in PARTS:
        verdicts[OWN + part] = mine[LAPTOP + part].to_numpy()
        if ran:
            verdicts[CLUSTER + part] = mine[CLUSTER + part].to_numpy()
    here = stored.cells["rerun"].notna() & own.cells["rerun"].isna()
    cells = pd.concat([own.cells[~here], stored.cells[here]]).sort_index()
    return replace(
        own,
        verdicts=verdicts,
        gaps=_scopes(stored.gaps, own.gaps, ran),
        cells=cells,
        summary=_scopes(stored.summary, own.summary, ran),
        detectable=_scopes(stored.detectable, own.detectable, ran),
        notes=stored.notes,
        runs=pd.concat([own.runs, stored.runs]).drop_duplicates("run_id"),
        left_out=list(dict.fromkeys([*stored.left_out, *own.left_out])),
    )


def _scopes(stored: pd.DataFrame, own: pd.DataFrame, ran: bool) -> pd.DataFrame:
    """Join two tables. The user's laptop rows become scope OWN. If `ran`, the user's cluster rows
    replace the stored ones."""
    kept = stored[stored["scope"] != CLUSTER] if ran else stored
    more = [own[own["scope"] == LAPTOP].assign(scope=OWN)]
    more += [own[own["scope"] == CLUSTER]] * ran
    return pd.concat([kept, *(part for part in more if len(part))], ignore_index=True)
