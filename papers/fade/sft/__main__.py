"""FADE's start at 7B (Sec. 3): Qwen2.5-7B, fine-tuned on reasoning chains, by verl's own trainer.

python -m papers.fade.sft prepare [sets.opencodereasoning2.share=0.3] [key=value ...]
    the training files, below results/fade/sft/data; where there is a network. The same command
    resumes. What was left out is told, with the reason. Keys: papers/fade/configs/sft_data.yaml
"""

import sys

from common.cli import guard, main
from common.errors import require


def _main() -> None:
    words = sys.argv[1:]
    if not words or {"-h", "--help"} & set(words):
        print(__doc__.strip())
        return
    verb = words[0]
    require(verb in ("prepare",), "command", verb, "use prepare (see --help)")
    del sys.argv[1]
    from papers.fade.sft.prepare import Prepare, prepare

    main(prepare, Prepare, "fade", "sft_data")


if __name__ == "__main__":
    guard(_main)
