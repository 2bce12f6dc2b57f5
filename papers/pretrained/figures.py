"""The tables and the figure of each scale: `rlvr figures paper=pretrained [results_dir=...]`.

<results_dir>/pretrained/laptop/          metrics, counts and shares of the finished runs
<results_dir>/pretrained/<scale>/         crossing.{csv,png,pdf}, against_grpo.csv, gain.csv
"""

from pathlib import Path

from common.comparison.gather import LAPTOP, gather, read
from common.results.files import read_csv, write_csv
from papers.pretrained import gain
from papers.pretrained.differences import against_grpo, crossing
from papers.pretrained.differences import draw as draw_crossing

PAPER = "pretrained"


def draw(root: Path) -> None:
    """Make everything that the results below `root` allow."""
    home = root / PAPER
    found = gather(root, PAPER)
    found.write(root, PAPER)
    for one in found.scopes.values():  # there is one
        write_csv(home / LAPTOP / "shares.csv", gain.of_runs(home, one.rows))
    _, counts = read(root, PAPER, LAPTOP)
    counts = counts[
        counts["step"] == counts.groupby(["table", "method", "seed"])["step"].transform("max")
    ]
    for table, here in counts.groupby("table"):
        ks = [k for k in (2**i for i in range(12)) if k <= here["n"].min()]
        compared = crossing(here, ks)
        if compared.empty:
            continue
        shares = read_csv(home / LAPTOP / "shares.csv", [])
        folder = home / table
        draw_crossing(compared, folder / "crossing")  # also writes crossing.csv
        write_csv(folder / "against_grpo.csv", against_grpo(here, ks))
        write_csv(folder / "gain.csv", gain.split(shares[shares["table"] == table]))
