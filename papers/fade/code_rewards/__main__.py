"""Train with code rewards on a laptop (FADE Sec. 3).

python -m papers.fade.code_rewards [seeds=[1,2,3]] [key=value ...]
"""

from common.cli import main
from papers.fade.code_rewards.runs import CodeRewards, run


def command(config: CodeRewards) -> None:
    for folder in run(config, progress=True):
        print(folder)


if __name__ == "__main__":
    main(command, CodeRewards, "fade", "code_rewards")
