"""rlvr: every command of this package in one.

    rlvr COMMAND [key=value ...]       rlvr COMMAND --help       rlvr --version

{table}

paper=NAME is one of {papers}. `rlvr X ...` and the `python -m ...` beside it are the same command.
Functions and files of your own are looked for in the folder where you start it, after everything
that is installed. To complete words in bash: complete -W "$(rlvr words)" rlvr
"""

import os
import runpy
import sys
from importlib import metadata
from pathlib import Path

COMMANDS = {  # command: (module, words that stand before the user's, what it does)
    "train": ("common.train", "", "a model of yours on data of yours; with paper=NAME its testbed"),
    "evaluate": ("common.evaluate", "", "sample a model on a benchmark, verify, measure; rescore="),
    "verify": ("common.verifiers", "", "verdicts on a file of responses"),
    "explain-gap": ("common.explain_gap", "", "why two scores of one model differ"),
    "passk": ("common.metrics", "passk", "pass@k of a table of counts"),
    "metrics": ("common.metrics", "", "the paired test, intervals, fits, Holm, of such tables"),
    "theory": ("common.theory", "", "a method's gradient masses, exactly"),
    "methods": ("common.methods.catalogue", "", "all methods: formula, source, parameters"),
    "data": ("common.datasets", "", "list, download and show the public sets"),
    "import": ("common.import_runs", "", "results that were made elsewhere"),
    "reproduce": ("papers.NAME.reproduce", "", "all of a paper that this machine can do"),
    "compare": ("papers.NAME.compare", "", "published against rerun"),
    "report": ("common.report", "", "one page for all papers"),
    "yardstick": ("common.yardstick", "", "all methods under one protocol"),
    "pretrained": ("common.pretrained", "", "the methods on small pretrained models"),
    "submit": ("slurm", "submit", "a paper's experiments to SLURM"),
    "status": ("slurm", "status", "of its jobs"),
    "cancel": ("slurm", "cancel", "its jobs"),
    "preflight": ("slurm", "preflight", "look at a GPU node as a job does"),
}


def papers() -> list[str]:
    """The papers, by name."""
    home = Path(__file__).resolve().parents[1] / "papers"
    return sorted(path.parent.name for path in home.glob("*/reproduce.py"))


def chosen(words: list[str]) -> tuple[str, list[str]]:
    """(module, its words) of a command line. Raises ValueError, in one line, for one that is
    none."""
    command, *rest = words
    if command not in COMMANDS:
        raise ValueError(f"{command}: no such command; known: {', '.join(COMMANDS)} (rlvr --help)")
    module, before, _ = COMMANDS[command]
    if command in ("train", "reproduce", "compare"):
        asked = [word.removeprefix("paper=") for word in rest if word.startswith("paper=")]
        if asked and asked[-1] not in papers():
            raise ValueError(f"paper={asked[-1]}: use one of {', '.join(papers())}")
        if asked:
            rest = [word for word in rest if not word.startswith("paper=")]
            module = {"train": "papers.NAME"}.get(command, module).replace("NAME", asked[-1])
        elif "NAME" in module:
            raise ValueError(f"{command}: give paper=NAME, one of {', '.join(papers())}")
    return module, [*before.split(), *rest]


def main() -> None:
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        rows = (
            f"  {name:11} {f'python -m {module} {before}':33} {said}"
            for name, (module, before, said) in COMMANDS.items()
        )
        print(__doc__.strip().format(table="\n".join(rows), papers=", ".join(papers())))
        return
    if words[0] == "--version":
        print(f"rlvr-papers {metadata.version('rlvr-papers')}")
        return
    if words[0] == "words":
        print(" ".join(COMMANDS))
        return
    try:
        module, rest = chosen(words)
    except ValueError as error:
        sys.exit(f"error: {error}")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last: nothing of the user's hides a package
    sys.argv = [f"rlvr {words[0]}", *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
