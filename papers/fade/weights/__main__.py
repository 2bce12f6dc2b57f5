"""Measure the geometry of weight changes (FADE Sec. 4.2, 15).

python -m papers.fade.weights before=FOLDER after=[FOLDER,...] [full_up_to=4096] [key=value ...]
"""

from common.cli import main
from papers.fade.weights.tables import Geometry, run

if __name__ == "__main__":
    main(lambda config: print(run(config, progress=True)), Geometry, "fade", "weights")
