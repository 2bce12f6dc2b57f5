"""rlvr VERB [key=value ...]        rlvr VERB --help        rlvr --version
eval "$(rlvr --completion)" completes verbs, keys and names in bash.

{verbs}
paper=NAME is one of {papers}.
"""

import os
import sys
from importlib import import_module, metadata
from typing import NamedTuple

from common.cli import HELP, guard
from common.config.files import papers
from common.errors import one_of
from rlvr_papers.completion import SCRIPT, choices


class Verb(NamedTuple):
    module: str  # its function `main` takes the command-line arguments
    about: str


SLURM = "slurm.__main__"  # its main takes the verb as its first argument
GROUPS = {
    "run": {
        "train": Verb("common.train", "one experiment: paper=NAME experiment=ROW, or your model"),
        "reproduce": Verb("common.reproduce", "all of a paper that this machine can run"),
        "evaluate": Verb("common.evaluation.command", "sample a model on a benchmark and score it"),
        "rescore": Verb("common.evaluation.rescore", "score stored samples by another verifier"),
        "keep": Verb("common.sweeps.declared", "store the finished runs of a declared study"),
        "import": Verb("common.comparison.import_runs", "add counts made elsewhere to a paper"),
    },
    "measure": {
        "verify": Verb("common.evaluation.verify", "verdicts on a file of responses"),
        "theory": Verb("common.methods.theory", "gradient masses of a method, exactly"),
        "methods": Verb("common.methods.catalogue", "all methods: formula, source, parameters"),
        "data": Verb("common.datasets.command", "list, download and show the public sets"),
        "figures": Verb("common.comparison.figures", "a paper's figures, from its tables"),
        "compare": Verb("common.comparison.compare", "published against rerun, with verdicts"),
        "diff": Verb(
            "common.comparison.difference", "A - B, paired, or the mean of A: methods or runs"
        ),
        "calibrate": Verb("common.comparison.calibrate", "what reruns say when the truth is known"),
        "runs": Verb("common.report.runs", "the runs in a results folder, and their progress"),
        "report": Verb("common.report.page", "one page for all papers"),
    },
    "cluster": {
        "submit": Verb("slurm.launch", "send a paper's tables or rows to SLURM"),
        "status": Verb(SLURM, "queue, progress and failures of its jobs"),
        "cancel": Verb(SLURM, "end its jobs"),
        "preflight": Verb(SLURM, "check a GPU node as a job does"),
    },
}
VERBS = {name: verb for group in GROUPS.values() for name, verb in group.items()}
COMPOSED = ("train", "reproduce", "evaluate")  # their own --help shows the configuration


def main() -> None:
    words = sys.argv[1:]
    if not words or words[0] in (*HELP, "help"):
        print(help_text())
    elif words[0] == "--version":
        print(f"rlvr-papers {metadata.version('rlvr-papers')}")
    elif words[0] == "--completion":
        print(SCRIPT)
    elif words[0] == "--complete":
        print("\n".join(choices(os.environ.get("COMP_LINE", ""), VERBS)))
    else:
        sys.path.append(os.getcwd())  # last, so that no file of the user hides a package
        guard(lambda: call(words))


def help_text() -> str:
    lines = []
    for group, verbs in GROUPS.items():
        heads = [group, *[""] * len(verbs)]
        lines += [f"{h:10}{n:17}{v.about}" for h, (n, v) in zip(heads, verbs.items(), strict=False)]
    return __doc__.strip().format(verbs="\n".join(lines), papers=", ".join(papers()))


def call(words: list[str]) -> None:
    """Run a command line. Raises UserError for an unknown verb or paper."""
    name, *rest = words
    one_of("verb", name, VERBS)
    verb = VERBS[name]
    found = import_module(verb.module)
    rest = [name, *rest] if verb.module == SLURM else rest
    sys.argv[:2] = [f"rlvr {name}"]  # a run's meta.json keeps the command
    unnamed = name == "reproduce" and not any(word.startswith("paper=") for word in rest)
    if HELP & set(rest) and (name not in COMPOSED or unnamed):
        print((found.__doc__ or "").strip())
    else:
        found.main(rest)


if __name__ == "__main__":
    main()
