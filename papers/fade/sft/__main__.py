"""Make the files for the supervised fine-tuning of Qwen2.5-7B, where FADE starts at 7B (Sec. 3).

python -m papers.fade.sft prepare [sets.opencodereasoning2.share=0.3] [key=value ...]

The files go below results/fade/sft/data. Run the command where there is a network; run it again to
resume. It prints how many rows were left out, by reason. Its keys are in
papers/fade/configs/sft_data.yaml. The fine-tuning itself is a job of `rlvr submit paper=fade`:
papers/fade/sft/train.py, with verl's settings in papers/fade/configs/sft/qwen25_7b.yaml.
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
