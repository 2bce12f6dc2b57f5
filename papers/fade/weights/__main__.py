"""Measure the geometry of weight changes (FADE Sec. 4.2, 15).

python -m papers.fade.weights before=FOLDER after=[FOLDER,...] [full_up_to=4096] [key=value ...]
python -m papers.fade.weights                       the laptop runs of FADE below results_dir
"""

from common.cli import main
from papers.fade.weights.config import Geometry
from papers.fade.weights.tables import HEAD, run


def command(config: Geometry) -> None:
    import pandas as pd

    for folder in run(config, progress=True):
        table = pd.read_csv(folder / "tensors.csv")
        shown = [
            "checkpoint",
            "tensor",
            "l2",
            "energy_share",
            "s1_over_s2",
            "rank1_fraction",
            "srank",
        ]
        print(table.loc[table.part == HEAD, shown].to_string(index=False, float_format="%.4g"))
        print(folder)


if __name__ == "__main__":
    main(command, Geometry, "fade", "weights")
