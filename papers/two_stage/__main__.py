"""One experiment of the two-stage paper: `python -m papers.two_stage experiment=grpo_n seed=1`."""

from common.train import command

if __name__ == "__main__":
    command("two_stage")
