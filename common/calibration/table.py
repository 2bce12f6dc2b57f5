"""The verdicts of many simulated reruns, as one table and in a few lines."""

from pathlib import Path

import pandas as pd

from common.calibration.judged import Verdicts
from common.calibration.world import AS_PRINTED, HALF, NO_EFFECT

CELL, GAIN, CLAIM = KINDS = ("cell", "gain", "claim")
KEY = ["what", "table", "model", "method", "baseline", "benchmark", "metric", "id"]
WORDS = {  # column -> the verdicts that it counts
    "within_noise": ("within noise",),
    "differs": ("differs",),
    "agrees": ("agrees",),
    "smaller": ("smaller",),
    "larger": ("larger",),
    "opposite": ("opposite",),
    "cannot_tell": ("cannot tell",),
    "holds": ("holds",),
    "fails": ("fails",),
    "inconclusive": ("inconclusive", "inconclusive (one run)"),
}
COLUMNS = [*KEY, "world", "draws", "seeds", "truth", *WORDS, "other", "mdd"]
FALSE = 0.05
FIRST = 2  # draws whose counts of verdicts are kept, for a test to draw again


def long(found: Verdicts) -> pd.DataFrame:
    """Return KEY, verdict and mdd of every cell, gain and claim of one draw."""
    cells = found.cells.assign(what=CELL, mdd=(found.cells["high"] - found.cells["rerun"]))
    gains = found.gains[found.gains["rerun"].notna()].assign(what=GAIN)
    claims = found.claims.rename(columns={"cluster": "verdict"}).assign(what=CLAIM)
    columns = [*KEY, "verdict", "mdd"]
    return pd.concat([x.reindex(columns=columns) for x in (cells, gains, claims)])


def shares(draws: list[pd.DataFrame], *, world: str, seeds: int, truths: pd.Series) -> pd.DataFrame:
    """Return COLUMNS for one world: the share of the draws with each verdict, and the median over
    the draws of the smallest effect that is found four times in five (for a cell, half the width of
    its interval)."""
    both = pd.concat(draws)
    both[KEY] = both[KEY].astype(object).fillna("")
    word = {verdict: column for column, verdicts in WORDS.items() for verdict in verdicts}
    both = both.assign(word=both["verdict"].map(word).fillna("other"))
    counted = both.groupby([*KEY, "word"], sort=False).size().unstack("word", fill_value=0)
    table = (counted.reindex(columns=[*WORDS, "other"], fill_value=0) / len(draws)).round(4)
    table["mdd"] = both.groupby(KEY, sort=False)["mdd"].median().round(2)
    table = table.reset_index().reindex(columns=[*KEY, *WORDS, "other", "mdd"])
    known = table["what"].map(
        {CELL: ["within_noise", "differs"], GAIN: [*WORDS][2:7], CLAIM: [*WORDS][7:]}
    )
    for name in WORDS:  # no share for the verdicts of the other kinds
        table[name] = table[name].where([name in own for own in known])
    truth = table["id"].map(truths).where(table["what"] == CLAIM)
    return table.assign(world=world, draws=len(draws), seeds=seeds, truth=truth)[COLUMNS]


def first(draws: list[pd.DataFrame], world: str) -> pd.DataFrame:
    """Return how many cells, gains and claims have each verdict in each of the FIRST draws."""
    parts = [
        one.groupby(["what", "verdict"]).size().rename("count").reset_index().assign(draw=number)
        for number, one in enumerate(draws[:FIRST])
    ]
    return pd.concat(parts).assign(world=world)[["world", "draw", "what", "verdict", "count"]]


# ---- in a few lines


def false_claims(table: pd.DataFrame) -> pd.DataFrame:
    """Return the claims whose verdict is wrong in more than the share FALSE of the draws: as
    printed, "fails" where the printed numbers meet the claim; without an effect, "holds" where the
    true numbers do not meet it."""
    claims = table[table["what"] == CLAIM]
    met, world = claims["truth"] == "holds", claims["world"]
    wrong = claims["fails"].where(met & (world == AS_PRINTED), 0.0)
    wrong = claims["holds"].where(~met & (world == NO_EFFECT), wrong)
    return claims.assign(wrong=wrong)[wrong > FALSE]


def summary(table: pd.DataFrame) -> dict:
    """Return the main shares and effect sizes, by world."""
    found: dict = {}
    for world, part in table.groupby("world", sort=False):
        cells, gains, claims = (part[part["what"] == kind] for kind in KINDS)
        wrong = false_claims(part)
        found[str(world)] = {
            "draws": int(part["draws"].iloc[0]),
            "seeds": int(part["seeds"].iloc[0]),
            "cells": len(cells),
            "cells_within_noise": round(float(cells["within_noise"].mean()), 4),
            "gains": len(gains),
            **{f"gains_{name}": round(float(gains[name].mean()), 4) for name in [*WORDS][2:7]},
            "gain_mdd": round(float(gains["mdd"].median()), 2) if len(gains) else None,
            "claims": len(claims),
            **{f"claims_{name}": round(float(claims[name].mean()), 4) for name in [*WORDS][7:]},
            "false_claims": dict(zip(wrong["id"], wrong["wrong"], strict=True)),
        }
    return found


NAMES = {AS_PRINTED: "as printed", NO_EFFECT: "no effect", HALF: "half the effect"}


def text(paper: str, table: pd.DataFrame) -> str:
    """Return the summary as text for a terminal."""
    lines = []
    for world, found in summary(table).items():
        seeds = f"{found['seeds']} seed{'s' * (found['seeds'] > 1)} a row"
        lines.append(f"{paper}, {NAMES[world]}: {found['draws']} reruns, {seeds}")
        lines.append(
            f"  cells within noise  {percent(found['cells_within_noise'])} of {found['cells']}"
        )
        if found["gains"]:
            gains = [
                f"{name.replace('_', ' ')} {percent(found[f'gains_{name}'])}"
                for name in [*WORDS][2:7]
            ]
            lines.append(f"  gains  {', '.join(gains)} of {found['gains']}; the smallest that is")
            lines.append(f"    found four times in five is {found['gain_mdd']:g} points (median)")
        claims = [f"{name} {percent(found[f'claims_{name}'])}" for name in [*WORDS][7:]]
        lines.append(f"  claims  {', '.join(claims)} of {found['claims']}")
        named = [f"{name} {percent(share)}" for name, share in found["false_claims"].items()]
        if world != HALF:
            lines.append(f"  wrong in more than 5 %: {', '.join(named) or 'no claim'}")
    return "\n".join(lines)


def rows(table: pd.DataFrame) -> list[dict[str, str]]:
    """Return the summary as table rows for a page, one for each world."""
    return [
        {
            "world": NAMES[world],
            "reruns": str(one["draws"]),
            "cells": percent(one["cells_within_noise"]),
            "agree": percent(one["gains_agrees"]),
            "open": percent(one["gains_cannot_tell"]),
            "mdd": f"{one['gain_mdd']:g}" if one["gains"] else "–",
            "hold": percent(one["claims_holds"]),
            "fail": percent(one["claims_fails"]),
            "wrong": ", ".join(one["false_claims"]) or ("–" if world == HALF else "none"),
        }
        for world, one in summary(table).items()
    ]


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def stored(*folders: Path) -> pd.DataFrame | None:
    """Return the table of `rlvr calibrate` in the first of a paper's folders that has one."""
    found = [path for folder in folders if (path := folder / "calibration.csv").exists()]
    return pd.read_csv(found[0]) if found else None
