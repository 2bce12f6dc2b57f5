"""Where a rerun's numbers come from: one row a run, and whether its files still stand.

States: `ok`, all files are there and have the hash of the run's DONE marker; `missing` or
`changed`, some are not or have not; `reference`, the tables were kept without the run folders
(results/reference/), so the hash of the table stands for them; `computed`, a closed form or a
simulation, which has no sampled run.
"""

import json
from pathlib import Path

import pandas as pd
import yaml

from common.results.checks import read_counts
from common.results.files import sha256
from common.results.run import SETS

SET = "set "  # begins the version of a public set
GREY = ("missing", "changed")
ORDER = ("changed", "missing", "reference", "computed", "ok", "")  # the worst first
COLUMNS = [
    *["scope", "run_id", "table", "model", "method", "seed", "config", "config_sha256", "commit"],
    *["diff_sha256", "versions", "samples", "samples_sha256", "imported", "state", "detail"],
]


def trace(root: Path, run: Path, damage: dict[str, str]) -> dict:
    """What a finished run folder says of itself; paths are relative to `root`. `damage` is
    results.damage's."""
    hashes = json.loads((run / "DONE").read_text())
    meta, damage = _meta(run), dict(damage)
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


def _meta(run: Path) -> dict | None:
    """What a run's meta.json holds, nothing where it has none; None where it cannot be read."""
    file = run / "meta.json"
    try:
        meta = json.loads(file.read_text()) if file.exists() else {}
    except ValueError:
        return None
    return meta if isinstance(meta, dict) else None


def table(root: Path, paper: str, scope: str, rows: pd.DataFrame) -> pd.DataFrame:
    """COLUMNS of every run in a scope's gathered `rows`: as `gather` wrote them to runs.csv, or
    what the rows alone can say. A run whose folder is not there is `reference`."""
    home = root / paper / scope
    written = pd.DataFrame(columns=COLUMNS)
    if (home / "runs.csv").exists():
        text = {name: str for name in COLUMNS if name not in ("seed",)}
        written = pd.read_csv(home / "runs.csv", dtype=text, keep_default_na=False)
    known = {row["run_id"]: row for row in written.to_dict("records")}
    digest = sha256((home / "metrics.csv").read_bytes()) if len(rows) else ""
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
                "detail": f"run files not kept; {paper}/{scope}/metrics.csv has sha256 {digest}",
            }
        table.append(row)
    return pd.DataFrame(table, columns=COLUMNS)


def sets_of(runs: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Of each run (COLUMNS) what it read each public set from."""
    return {
        row["run_id"]: dict(
            version.removeprefix(SET).split(" ", 1)
            for version in str(row["versions"]).split("; ")
            if version.startswith(SET)
        )
        for row in runs.to_dict("records")
    }


def worst(states) -> str:
    """The state that counts of several."""
    return min(states, key=ORDER.index, default="")


def states_of(runs: pd.DataFrame) -> dict[str, str]:
    """The state of each run."""
    return dict(zip(runs["run_id"], runs["state"], strict=True))


def of_runs(run_ids: str, states: dict[str, str]) -> str:
    """The worst state of runs joined by ";"; "computed" for a number without a run that is known,
    such as a closed form's."""
    return worst(states.get(run, "computed") for run in run_ids.split(";")) if run_ids else ""


def jobs(root: Path, paper: str) -> tuple[pd.DataFrame, list[str]]:
    """Cluster jobs without a result: key, kind, state, detail, and what they would have been, as
    table, model, method ("" where no stored configuration tells)."""
    columns = ["key", "kind", "state", "detail", "table", "model", "method"]
    path = root / paper / "cluster" / "missing.csv"
    if not path.exists():
        return pd.DataFrame(columns=columns), []
    lost, problems = read_counts(path)
    if problems or list(lost.columns) != columns[:4]:
        return pd.DataFrame(columns=columns), [f"{path}: cannot be read; jobs without a result"]
    lost = lost.fillna("").astype(str)
    named = [planned(root / paper, key) for key in lost["key"]]
    for name in columns[4:]:
        lost[name] = [one.get(name, "") for one in named]
    return lost, []


def planned(home: Path, key: str) -> dict[str, str]:
    """table, model and method of a run, from its folder or the configuration it was submitted with;
    empty where neither is there."""
    files = [home / key / "config.yaml", *sorted(home.glob(f"cluster/*/configs/{key}.yaml"))[::-1]]
    for file in files:
        if not file.exists():
            continue
        try:
            config = yaml.safe_load(file.read_text())
            row = config.get("row") or {}
            model = config["model"]["name"] if isinstance(config["model"], dict) else ""
            named = {"table": row.get("table") or config.get("table")}
            named |= {"model": config["label"] if row else model}
            named |= {"method": row.get("method") or config.get("label")}
            return {name: str(value) for name, value in named.items() if value}
        except (OSError, ValueError, LookupError, AttributeError, TypeError, yaml.YAMLError):
            continue
    return {}
