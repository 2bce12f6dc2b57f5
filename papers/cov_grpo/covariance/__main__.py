"""Covariance statistics of real rollouts (sec 2.2): Fig. 3, Table 1, weights, entropy drift.

python -m papers.cov_grpo.covariance [row=grpo] [steps=50] [seeds=[1,2,3]]
                                     ["overrides=['model=huggingface',...]"]
"""

from common.cli import main
from papers.cov_grpo.covariance.config import Covariance


def command(config: Covariance) -> None:
    from papers.cov_grpo.covariance.tables import run  # --help does not wait for torch

    print(run(config))


if __name__ == "__main__":
    main(command, Covariance, "cov_grpo", "covariance")
