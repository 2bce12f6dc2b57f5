"""Run everything of one paper that this machine can run, and end with the comparison.

    rlvr reproduce paper=NAME [scale=smoke|laptop|full] [workers=2] [budget=4h]
                   [rows=NAME,NAME] [seeds=10] [results_dir=results]
    rlvr reproduce paper=study method=mine.yaml [seeds=12-14]

papers/NAME/configs/reproduce.yaml says what a scale runs: rows (named experiment configurations),
seeds and the paper's own parts. With paper=NAME, --help shows it. seeds=10 runs the seeds 1 to 10
of each row instead; seeds=6-10 and seeds=1,3 work too. Seeds run in turn, so those already passed
are complete whenever you stop.

With method=FILE the study trains your method (or one of ours, by name) on five seeds, and GRPO at
both rates where the repository lacks its runs. It ends with the exploratory table of all methods
and yours.
"""

from pathlib import Path

from common.cli import main as hydra
from common.config.files import REFERENCE, STUDY, papers, studies
from common.config.words import split
from common.errors import one_of, require
from common.sweeps.chosen import only, with_method
from common.sweeps.declared import is_kept, queue
from common.sweeps.plan import Reproduce, experiments
from common.sweeps.reproduce import reproduce

OWN = "own"  # the study's scale for a user's method


def main(words: list[str]) -> None:
    given, others = split(words, {"paper": "", "rows": "", "seeds": "", "method": ""})
    if given["method"]:
        require(given["paper"] == STUDY, "method", given["method"], f"needs paper={STUDY}")
        others = [f"scale={OWN}", *others]

    def run(config: Reproduce) -> None:
        config = with_method(config, given["method"]) if given["method"] else config
        config = only(config, given["rows"], given["seeds"])
        if all(one.part for one in config.sweeps):
            queue(config)
            return
        runs = [x for x in experiments(config) if config.scale != OWN or not is_kept(x)]
        if given["seeds"]:
            runs.sort(key=lambda x: (x.seed, x.optim.steps > 0))
        reproduce(config, finish, runs)

    one_of("paper", given["paper"], studies())
    hydra(run, Reproduce, given["paper"], "reproduce", others)


def finish(config: Reproduce) -> None:
    from common.comparison.compare import compare
    from common.comparison.figures import draw_paper
    from common.comparison.spec import spec_of

    paper, root = config.paper, Path(config.root)
    draw_paper(paper, root)
    if paper in papers():  # the others have no claims
        compare(spec_of(paper), root)
    if config.scale == OWN:
        from common.report.readme import METHODS_HEAD, own_methods
        from common.results.tables import markdown

        (*_, (testbed, lines)), said = own_methods(root, REFERENCE)
        print(markdown([f"method, on {testbed}", *METHODS_HEAD], lines, "lrrrrrrll"))
        print(*said, sep="\n")
    if config.scale == "smoke":
        print("scale=smoke ran every part once, with a few steps: its numbers mean nothing")
