"""A gap as text of 80 columns, markdown or JSON."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict

from common.evaluation.gap.split import Gap, Part
from common.results.tables import markdown as table

WIDTH = 80


def to_text(gap: Gap) -> str:
    lines = []
    for letter, side in (("A", gap.a), ("B", gap.b)):
        size = f"{side['problems']} problems x {side['samples']} samples"
        lines += [f"{letter}     {side['score']:7.2f} %  {size}", f"      {side['path']}"]
    lines += [f"B - A {gap.difference:+7.2f} points", ""]
    width = max(len(part.name) for part in gap.parts)
    for part in gap.parts:
        head = f"{part.name:<{width}}  {part.points:+7.2f}{_interval(part)}"
        lines += [head, *_wrapped(part.note, "", 4)]
    lines += [f"{'sum':<{width}}  {sum(part.points for part in gap.parts):+7.2f}", ""]
    lines += _wrapped(summary(gap), "", 0)
    lines += _wrapped(f"The judge: {gap.judge}.", "", 0)
    if gap.unknown:
        lines += ["", "What cannot be told"]
        lines += [line for one in gap.unknown for line in _wrapped(one, "  -", 4)]
    if any(part.examples for part in gap.parts):
        lines += ["", "Examples"]
    for part in gap.parts:
        lines += [f"  {part.name}"] if part.examples else []
        lines += [line for one in part.examples for line in _wrapped(one, "    -", 6)]
    return "\n".join(lines)


def summary(gap: Gap) -> str:
    """Return one sentence that says which part is the largest."""
    most = gap.most
    if abs(most.points) < 0.005:
        return "The two scores are equal, part by part."
    return f"The largest part is {most.name}: {most.points:+.2f} points."


def to_markdown(gap: Gap) -> str:
    rows = [
        [part.name, f"{part.points:+.2f}", _interval(part).strip(), part.note] for part in gap.parts
    ]
    total = sum(part.points for part in gap.parts)
    rows.append(["sum", f"{total:+.2f}", "", f"A {gap.a['score']:.2f}, B {gap.b['score']:.2f}"])
    parts = [
        "# Why the scores differ\n\n",
        f"A: `{gap.a['path']}`, B: `{gap.b['path']}`. {summary(gap)} The judge: {gap.judge}.\n\n",
        table(["part", "points", "95 % interval", "counts"], rows, "lrll"),
    ]
    parts += ["\nWhat cannot be told:\n\n"] if gap.unknown else []
    parts += [f"- {one}\n" for one in gap.unknown]
    for part in gap.parts:
        parts += [f"\nExamples of {part.name}:\n\n"] if part.examples else []
        parts += [f"- {one}\n" for one in part.examples]
    return "".join(parts)


def to_json(gap: Gap) -> str:
    return json.dumps(asdict(gap) | {"most": gap.most.name}, indent=1)


def _interval(part: Part) -> str:
    return "" if part.low is None else f" [{part.low:+.2f}, {part.high:+.2f}]"


def _wrapped(text: str, first: str, indent: int) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{first:<{indent}}" if indent else "",
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
