"""The command `python -m common.train`: a model of your own on data of your own (docs/your-own.md);
the values are those of configs/train.yaml."""

from common.backends import command
from common.config.compose import CONFIGS

if __name__ == "__main__":
    command(CONFIGS, "train")
