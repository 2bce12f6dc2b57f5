"""The toy example of the two-stage paper (Algorithm 1, App. C.4). Finished parts are not run again.

python -m papers.two_stage.toy [seeds=200] [steps=10000] [optimizers=[sgd,adam]]
"""

from common.cli import main
from papers.two_stage.toy.config import Toy
from papers.two_stage.toy.tables import run

if __name__ == "__main__":
    main(run, Toy, "two_stage", "toy")
