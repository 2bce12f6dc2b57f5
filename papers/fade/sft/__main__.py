"""FADE's start at 7B (Sec. 3): Qwen2.5-7B, fine-tuned on reasoning chains, by verl's own trainer.

python -m papers.fade.sft prepare [sets.opencodereasoning2.share=0.3] [key=value ...]
    the training files, below results/fade/sft/data; where there is a network. The same command
    resumes. What was left out is told, with the reason. Keys: papers/fade/configs/sft_data.yaml
python -m papers.fade.sft submit profile=h100-2x8 [dry_run=true]
    the training as a SLURM job, or its script and hours. It saves, requeues itself before its
    time is over and resumes; at its end the model is results/fade/sft/qwen25_7b, where the 7B
    rows look for it. Settings: papers/fade/configs/sft/qwen25_7b.yaml, verl's own keys
python -m papers.fade.sft node gpus=8 [trainer.KEY=VALUE ...]
    what the job runs on each node; by hand on a machine of so many GPUs, without SLURM
"""

from common.cli import main, run
from common.config.words import options, split
from common.errors import require


def _main(given: list[str]) -> None:
    verb, *rest = given or [""]
    require(verb in ("prepare", "submit", "node"), "command", verb, "see --help")
    if verb == "prepare":
        from papers.fade.sft.prepare import Prepare, prepare

        main(prepare, Prepare, "fade", "sft_data", rest)
        return
    from papers.fade.sft import train

    if verb == "submit":
        from common.sweeps.profiles import load_profile

        asked = options(rest, {"profile": "", "dry_run": "false"})
        require(asked["profile"] != "", "profile", "", "submit needs profile=NAME")
        require(asked["dry_run"] in ("true", "false"), "dry_run", asked["dry_run"], "true or false")
        train.submit(load_profile(asked["profile"]), asked["dry_run"] == "true")
        return
    asked, others = split(rest, {"gpus": ""})
    require(asked["gpus"].isdecimal(), "gpus", asked["gpus"], "a whole number above 0")
    train.refuse_unprepared()
    train.node(int(asked["gpus"]), others)


if __name__ == "__main__":
    run(_main, __doc__)
