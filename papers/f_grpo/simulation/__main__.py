"""F-GRPO's categorical simulation (App. J). Parts that are already finished are not run again.

python -m papers.f_grpo.simulation [objective=score] [optimizer=adam] [N=[2,1024]] [gamma=[0,1]]
"""

from common.cli import main
from papers.f_grpo.simulation.config import Simulation


def command(config: Simulation) -> None:
    from papers.f_grpo.simulation.tables import run  # --help does not wait for torch

    run(config)


if __name__ == "__main__":
    main(command, Simulation, "f_grpo", "simulation")
