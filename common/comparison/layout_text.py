"""The blocks of layout.py in a terminal, in markdown and in LaTeX."""

from collections.abc import Iterable

from common.comparison.layout import LEGEND, Block, Line, Table
from common.results.tables import latex_escaped
from common.results.tables import markdown as to_markdown


def plain(block: Block) -> list[str]:
    """Return the lines of a block for a terminal, padded to its `widths`."""
    lines = [block.title]
    for words in zip(*block.head, strict=True):
        lines.append(_line("", "", words, block.widths))
    for one in block.lines:
        lines.append(_line(one.label, one.kind, one.cells, block.widths))
    return lines


def _line(label: str, kind: str, cells: Iterable[str], widths: tuple[int, ...]) -> str:
    left = [label.ljust(widths[0]), kind.ljust(widths[1])]
    right = [cell.rjust(width) for cell, width in zip(cells, widths[2:], strict=False)]
    return " ".join([*left, *right]).rstrip()


def legend(shown: list[tuple[Table, list[Block]]]) -> str:
    """Return what the marks in these blocks mean."""
    lines = [line for _, blocks in shown for block in blocks for line in block.lines]
    ends = {cell[-1] for line in lines for cell in line.cells if cell}
    return "; ".join(f"{mark} {text}" for mark, text in LEGEND.items() if mark in ends)


def markdown(block: Block) -> str:
    head = ["", "", *(" ".join(filter(None, words)) for words in block.head)]
    rows = []
    for one in block.lines:
        rows.append([one.label if one.kind else f"**{one.label}**", one.kind, *_filled(one, block)])
    return f"{block.title}\n\n" + to_markdown(head, rows, "ll" + "r" * len(block.head))


def latex(block: Block, name: str) -> str:
    """Return a block as a floating booktabs table for an appendix."""
    columns = len(block.head)
    lines = [r"\begin{table*}[t]\centering\small", rf"\caption{{{latex_escaped(block.title)}.}}"]
    lines += [rf"\label{{tab:{name}}}", rf"\begin{{tabular}}{{ll{'r' * columns}}}", r"\toprule"]
    for words in zip(*block.head, strict=True):
        lines.append(" & ".join(["", "", *map(latex_escaped, words)]) + r" \\")
    for i, one in enumerate(block.lines):
        if i == 0 or not one.kind:
            lines.append(r"\midrule")
        if one.kind:
            words = [one.label, one.kind, *_filled(one, block)]
            lines.append(" & ".join(map(latex_escaped, words)) + r" \\")
        else:
            lines.append(rf"\multicolumn{{{columns + 2}}}{{l}}{{{latex_escaped(one.label)}}} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table*}", ""])


def _filled(line: Line, block: Block) -> list[str]:
    return [*line.cells, *[""] * (len(block.head) - len(line.cells))]
