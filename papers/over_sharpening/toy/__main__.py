"""The softmax toy of over_sharpening (Sec. 2.4, App. G, H).

python -m papers.over_sharpening.toy [G=[4,8]] [lr=[0.1,1]] [seeds=20] [key=value ...]
"""

from common.cli import main
from papers.over_sharpening.toy.config import Toy
from papers.over_sharpening.toy.tables import run

if __name__ == "__main__":
    main(run, Toy, "over_sharpening", "toy")
