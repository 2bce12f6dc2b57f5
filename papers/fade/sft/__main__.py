"""The training files of FADE's start at 7B (Sec. 3), a supervised fine-tuning of Qwen2.5-7B.

python -m papers.fade.sft prepare [sets.opencodereasoning2.share=0.3] [key=value ...]

They are made below results/fade/sft/data, where there is a network. The same command resumes. It
tells what was left out, with the reason. Keys: papers/fade/configs/sft_data.yaml. The fine-tuning
itself is a job of `rlvr submit paper=fade`: papers/fade/sft/train.py, with verl's settings in
papers/fade/configs/sft/qwen25_7b.yaml.
"""

from common.cli import main, run
from common.errors import require


def _main(given: list[str]) -> None:
    verb, *rest = given or [""]
    require(verb == "prepare", "command", verb, "see --help")
    from papers.fade.sft.prepare import Prepare, prepare

    main(prepare, Prepare, "fade", "sft_data", rest)


if __name__ == "__main__":
    run(_main, __doc__)
