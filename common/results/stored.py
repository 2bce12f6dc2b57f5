"""Tables that came without their run folders, as results/reference/ holds them: they stay as they
are, and their runs are not made again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from common.experiment import Experiment


def run_ids(path: Path) -> set[str]:
    """The runs that a table holds; none where it is not there."""
    import pandas as pd

    return set(pd.read_csv(path, usecols=["run_id"])["run_id"]) if path.exists() else set()


def with_stored(table: pd.DataFrame, path: Path, runs: Sequence[Experiment]) -> pd.DataFrame:
    """`table`, and the rows that the table at `path` holds of those `runs` whose folders are not
    there, run by run in the order of `runs`."""
    import pandas as pd

    gone = {x.run_id for x in runs if not Path(x.results_dir, x.paper, x.run_id).exists()}
    both = [table]
    if gone & run_ids(path):
        before = pd.read_csv(path, dtype={"problem_id": str})
        both = [part for part in (table, before[before["run_id"].isin(gone)]) if len(part)]
    order = {x.run_id: i for i, x in enumerate(runs)}
    joined = pd.concat(both, ignore_index=True)
    return joined.sort_values("run_id", key=lambda ids: ids.map(order), kind="stable")
