"""One experiment of FADE: `python -m papers.fade experiment=fade seed=1`."""

from common.train import command

if __name__ == "__main__":
    command("fade")
