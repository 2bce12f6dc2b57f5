"""Tables as markdown, and words as LaTeX wants them. Markdown is written by hand: pandas writes it
through tabulate, which pads its columns, so that a longer word in one cell would change every line
of a committed table."""

from common.errors import require


def markdown(head: list[str], rows: list[list[str]], align: str = "") -> str:
    """A table of words. `align`: l or r for each of the first columns; the others are l."""
    rule = ["---:" if side == "r" else "---" for side in align.ljust(len(head), "l")]
    head, *rows = [[escaped(str(word)) for word in line] for line in (head, *rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))


def escaped(text: str) -> str:
    """Without what would end a cell."""
    return text.replace("|", "\\|")


def latex_escaped(text: object) -> str:
    """With its special characters as LaTeX wants them."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {character: "\\" + character for character in "&%$#_{}"}
    special |= {"<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$", "≠": r"$\neq$"}
    return "".join(special.get(character, character) for character in str(text))


def latex(head: list[str], rows: list[list[str]], columns: str) -> str:
    """A tabular of booktabs, by pandas; the words are escaped here: it leaves <, > and ± as they
    are."""
    import pandas as pd

    words = pd.DataFrame([[latex_escaped(word) for word in row] for row in rows], columns=head)
    names = [latex_escaped(word) for word in head]
    return words.to_latex(index=False, header=names, column_format=columns)


def replaced(name: str, text: str, marks: tuple[str, str], part: str) -> str:
    """The `text` of a page, `name`, with `part` between its marks. Raises UserError where these are
    not there."""
    start, end = marks
    require(start in text and end in text, name, "marks", f"keep {start} and {end} in it")
    before, rest = text.split(start, 1)
    return f"{before}{start}\n{part}{end}{rest.split(end, 1)[1]}"
