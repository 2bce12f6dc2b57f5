"""Tab completion in bash: verbs, keys, and the values of keys that name files of ours."""

from collections.abc import Iterable

from common.config.files import names, papers
from common.config.rows import stated

# bash runs the command with the line in COMP_LINE, and takes its lines as the words to choose from
SCRIPT = "complete -o nospace -o default -C 'rlvr --complete' rlvr"


def choices(line: str, verbs: Iterable[str]) -> list[str]:
    """Return what the last word of a command line may become. bash splits words at "=", so a value
    comes without its key."""
    before, _, word = line.rpartition(" ")
    if len(before.split()) < 2:
        return [f"{verb} " for verb in verbs if verb.startswith(word)]
    key, equals, value = word.partition("=")
    paper = next((x.removeprefix("paper=") for x in before.split() if x.startswith("paper=")), "")
    of_paper = stated(paper)
    scales = of_paper.get("scales", {})
    tables = [sweep["table"] for one in scales.values() for sweep in one["sweeps"]]
    known = {
        "paper": papers(),
        "experiment": of_paper.get("rows", {}),
        "scale": scales,
        "table": [name for name in dict.fromkeys(tables) if " " not in name],
        **{group: names(group) for group in ("method", "model", "data", "eval")},
        "profile": names("slurm"),
        "results_dir": [],
    }
    if not equals:
        return [f"{one}=" for one in known if one.startswith(key)]
    return [f"{one} " for one in known.get(key, []) if one.startswith(value)]
