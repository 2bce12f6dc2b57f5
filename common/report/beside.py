"""A user's own comparison beside the committed one: what is committed stays, and what only the user
has run fills what was empty. Own laptop results are the scope OWN, after the laptop's."""

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
    """Printed cells and the cluster's claims are the user's where he has run them, all else is
    `stored`'s."""
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
    """Rows by their scope: the user's of a laptop as OWN, the cluster's of who ran it."""
    kept = stored[stored["scope"] != CLUSTER] if ran else stored
    more = [own[own["scope"] == LAPTOP].assign(scope=OWN)]
    more += [own[own["scope"] == CLUSTER]] * ran
    return pd.concat([kept, *(part for part in more if len(part))], ignore_index=True)
