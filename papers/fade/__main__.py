"""One experiment of FADE: `python -m papers.fade experiment=fade seed=1`."""

from common.cli import main
from common.experiment import Experiment


def run(x: Experiment) -> None:
    from common.backends import run_experiment

    print(run_experiment(x))


if __name__ == "__main__":
    main(run, Experiment, "fade")
