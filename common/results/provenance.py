"""Where a rerun's numbers come from: one row for each run, and whether its files are unchanged.

States: `ok`, all files are there and have the hash of the run's DONE marker; `missing` or
`changed`, some files are not there or have another hash; `reference`, the tables were kept without
the run folders (results/reference/), so the hash of the table replaces theirs; `computed`, a closed
form or a simulation, which has no sampled run.
"""

import json
from pathlib import Path

import pandas as pd

from common.results.files import sha256
from common.results.run import SETS

SET = "set "  # prefix of a public set in the column `versions`
GREY = ("missing", "changed")
ORDER = ("changed", "missing", "reference", "computed", "ok", "")  # worst first
COLUMNS = [
    *["scope", "run_id", "table", "model", "method", "seed", "config", "config_sha256", "commit"],
    *["diff_sha256", "versions", "samples", "samples_sha256", "imported", "state", "detail"],
]


def trace(root: Path, run: Path, damage: dict[str, str]) -> dict:
    """Return the columns that a finished run folder determines, with paths relative to `root`;
    `damage` is from `collect.damage`."""
    hashes = json.loads((run / "DONE").read_text())
    meta, damage = meta_of(run), dict(damage)
    if meta is None:
        meta, damage["meta.json"] = {}, "changed"
    home = run.relative_to(root).as_posix()
    samples = sorted(name for name in hashes if name.startswith("samples/"))
    packages = {"python": meta.get("python"), **meta.get("packages", {})}
    sets = json.loads((run / SETS).read_text()) if (run / SETS).exists() else {}
    packages |= {f"{SET}{name}": what for name, what in sets.items()}
    state = worst(damage.values()) if damage else "ok"
    return {
        "config": f"{home}/config.yaml",
        "config_sha256": hashes.get("config.yaml", ""),
        "commit": meta.get("commit") or "",
        "diff_sha256": meta.get("diff_sha256") or "",
        "versions": "; ".join(f"{name} {version}" for name, version in packages.items() if version),
        "samples": ";".join(f"{home}/{name}" for name in samples),
        "samples_sha256": ";".join(hashes[name] for name in samples),
        "imported": meta.get("imported") or "",
        "state": state,
        "detail": "; ".join(f"{name} is {what}" for name, what in damage.items()),
    }


def meta_of(run: Path) -> dict | None:
    """Return the content of a run's meta.json: {} without the file, None if it cannot be read."""
    file = run / "meta.json"
    try:
        meta = json.loads(file.read_text()) if file.exists() else {}
    except ValueError:
        return None
    return meta if isinstance(meta, dict) else None


def table(root: Path, paper: str, scope: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return COLUMNS for every run in the gathered `rows` of a scope, as `gather` wrote them to
    runs.csv, or with only what the rows say. A run without a finished folder is `reference`."""
    home = root / paper / scope
    written = pd.DataFrame(columns=COLUMNS)
    if (home / "runs.csv").exists():
        text = {name: str for name in COLUMNS if name not in ("seed",)}
        written = pd.read_csv(home / "runs.csv", dtype=text, keep_default_na=False)
    known = {row["run_id"]: row for row in written.to_dict("records")}
    digest = sha256((home / "metrics.csv.gz").read_bytes()) if len(rows) else ""
    table = []
    for run_id, part in rows.groupby("run_id", sort=False):
        first = part.iloc[0]
        row = {"scope": scope, "run_id": run_id} | {
            name: first[name] for name in ("table", "model", "method", "seed")
        }
        row |= {name: known.get(run_id, {}).get(name, "") for name in COLUMNS if name not in row}
        if not (root / paper / str(run_id) / "DONE").exists():
            row |= {
                "state": "reference",
                "detail": f"run files not kept; {paper}/{scope}/metrics.csv.gz has sha256 {digest}",
            }
        table.append(row)
    return pd.DataFrame(table, columns=COLUMNS)


def sets_of(runs: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Return what each run (a row of COLUMNS) read public sets from: run_id -> set -> source."""
    return {
        row["run_id"]: dict(
            version.removeprefix(SET).split(" ", 1)
            for version in str(row["versions"]).split("; ")
            if version.startswith(SET)
        )
        for row in runs.to_dict("records")
    }


def worst(states) -> str:
    """Return the worst of several states; "" if there are none."""
    return min(states, key=ORDER.index, default="")


def states_of(runs: pd.DataFrame) -> dict[str, str]:
    return dict(zip(runs["run_id"], runs["state"], strict=True))


def of_runs(run_ids: str, states: dict[str, str]) -> str:
    """Return the worst state of `run_ids`, joined by ";"; a closed form's is "computed"."""
    return worst(states.get(run, "computed") for run in run_ids.split(";")) if run_ids else ""
