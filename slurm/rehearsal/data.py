"""Rows for the sets that this machine cannot have: the true count, lengths of rows like them.

Written in our shape below a folder that becomes $RLVR_DATA, where `common.datasets.load` reads
them as any local copy: counts are checked, references made, prompts rendered and filtered.
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
    """Name of each set -> where its rows come from: the hub's cache, a true copy of `copies`, or
    made ones, the last two in `folder`. Raises UserError for a set that has none."""
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
    """NLTK's sentence model as empty files in `folder`, where it has none: some of IFEval's
    instructions count sentences. Returns whether it has none; then this process finds them too."""
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
    """As many rows as the set has (of unknown size: as the source has), each of the source in turn
    with an id of its own; the set's own window, or its gold field, holds as many as it keeps. The
    gold of a training set is one of `answers`, if there are any: dynamic sampling draws until
    enough groups are neither right nor wrong throughout."""
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
        # equal texts are dropped, also those of two sets that are mixed
        again = f" ({node['name']} {i // len(usable) + 1})" if i >= len(usable) else ""
        ours = {"id": f"{node['name']}-{i}", "problem": row["problem"] + again}
        if answers:
            ours[gold] = answers[i % len(answers)]
        if window is None and i >= kept:
            ours[gold] = ""
        found.append(row | date | ours)
    return found
