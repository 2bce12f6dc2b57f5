"""What a laptop decides a claim on."""

import pandas as pd

from common.claims.file import LAPTOP, Claim

RL, EXACT, TOY = KINDS = (
    "RL of a small model",
    "theory and single measurements",
    "toys and simulations",
)
TOYS = ("toy", "simulation")  # families of claims.yaml; their tables begin with these words


def kinds(claims: list[Claim], gaps: pd.DataFrame, trained: set[str]) -> dict[str, str]:
    """Return each claim's kind by its id, "" off laptops; `trained`: tables of trained models."""
    tables = gaps[gaps["scope"] == LAPTOP].groupby("claim")["table"].agg(lambda x: [*map(str, x)])
    return {x.id: _kind(x.family, tables.get(x.id), trained) if x.laptop else "" for x in claims}


def _kind(family: str, tables: list[str] | None, trained: set[str]) -> str:
    read = " ".join(tables or [])
    if family in TOYS or read.startswith(TOYS):
        return TOY
    # without a comparison it was not run, or its reading was refused
    trained = trained | {"at equal pass@1"}
    return RL if tables is None or any(table in read for table in trained) else EXACT
