"""Made-up data for the sets that this machine cannot have: as many rows as the set has, with
lengths like those of a similar set.

The rows are written in our format to a folder that becomes $RLVR_DATA. `common.datasets.load` reads
them like any local copy: counts are checked, references made, prompts rendered and filtered.
"""

import itertools
import json
from pathlib import Path

from common.datasets.hub import snapshot
from common.errors import UserError
from common.results.files import read_jsonl, write
from slurm.rehearsal.model import DIGITS

MATH = "deepscaler_sample.jsonl"
# a set without a copy -> the file whose rows are repeated for it
LIKE = {
    "deepscaler": MATH,
    "openrs": MATH,
    "gpqa_diamond": "mmlu_pro.jsonl",
    "synlogic": "synlogic_sample.jsonl",
    "taco": "code_samples.jsonl",
    "codecontests": "code_samples.jsonl",
    "livecodebench_v5": "code_samples.jsonl",
    "livecodebench_v6": "code_samples.jsonl",
}


def prepare(nodes: list[dict], folder: Path, copies: Path) -> dict[str, str]:
    """Provide each set. Return its name -> where its rows come from: the hub's cache, a true copy
    from `copies`, or made-up rows; `folder` then has a link to the copy or the made-up rows. Raises
    UserError for a set that has none of these."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    sets = [one for node in nodes for one in node.get("parts", [node])]
    for node in {one["name"]: one for one in sets}.values():
        name, file = node["name"], node.get("local") or f"{node['name']}.jsonl"
        here, copy = folder / file, copies / file
        here.unlink(missing_ok=True)
        if _cached(node):
            found[name] = "the hub's own rows, from the cache"
        elif copy.exists():
            here.symlink_to(copy.resolve())
            found[name] = f"true rows, {copy.name}"
        elif name in LIKE and (copies / LIKE[name]).exists():
            answers = DIGITS if LIKE[name] == MATH else ""
            rows = made(node, read_jsonl(copies / LIKE[name]), answers=answers)
            write(here, "".join(json.dumps(row) + "\n" for row in rows))
            own = ", with answers that the stand-in gives" if answers else ""
            found[name] = f"stub: {len(rows)} rows made of {LIKE[name]}{own}"
        else:
            raise UserError(f"{name}: neither in the hub's cache nor in {copies}; prefetch it")
    return found


def sentences(folder: Path) -> bool:
    """Write NLTK's sentence model as empty files into `folder` if this machine has no such model:
    some of IFEval's instructions count sentences. Return whether it has none; then this process
    finds the empty files too."""
    import nltk

    from common.verifiers.ifeval.verifier import has_punkt

    if has_punkt():
        return False
    english = folder / "tokenizers" / "punkt_tab" / "english"
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        write(english / name, "")
    nltk.data.path.append(str(folder))
    has_punkt.cache_clear()
    return True


def _cached(node: dict) -> bool:
    try:
        snapshot(node["hub"], node["revision"], node.get("files"), offline=True)
    except UserError:
        return False
    return True


def made(node: dict, source: list[dict], *, answers: str = "") -> list[dict]:
    """Return as many rows as the set has (if unknown: as the source has). They repeat the source's
    rows in turn, each with an id of its own. As many rows as the set keeps are inside its date
    window or, if it has no window, have a gold answer. If `answers` are given (for a training set),
    each gold answer is one of them: dynamic sampling draws until enough groups are neither all
    right nor all wrong."""
    gold, window = node.get("gold") or "answer", node.get("window")
    usable = [row | {gold: row.get(gold) or row.get("tests")} for row in source]
    usable = [row for row in usable if row[gold] not in ("", None, [])]
    # a text with two golds would be dropped
    usable = list({" ".join(row["problem"].split()): row for row in usable}.values())
    count = node["rows"] or len(usable)
    least = node.get("kept") or count
    kept = min(count, least[0] if isinstance(least, list) else least)
    rows = itertools.islice(itertools.cycle(usable), count)
    dates = [{"date": window[0] if window and i < kept else "1970-01-01"} for i in range(count)]
    named = zip(rows, dates, strict=True)
    found = []
    for i, (row, date) in enumerate(named):
        # equal texts are dropped, also between two sets of a mixture
        again = f" ({node['name']} {i // len(usable) + 1})" if i >= len(usable) else ""
        ours = {"id": f"{node['name']}-{i}", "problem": row["problem"] + again}
        if answers:
            ours[gold] = answers[i % len(answers)]
        if window is None and i >= kept:
            ours[gold] = ""
        found.append(row | date | ours)
    return found
