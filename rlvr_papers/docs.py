"""Write the generated tables of the documentation.

    make docs

README.md has the table of headline claims, and docs/evidence.md the counts of verdicts, both from
the committed results. The deviations in the papers' READMEs come from the papers' configurations.
"""

from common.config.files import ROOT
from common.report import readme, verdicts
from common.results.files import write
from common.results.tables import replaced

HOME, REFERENCE = ROOT / "papers", ROOT / "results" / "reference"


def pages() -> dict[str, str]:
    """Return {file below ROOT: its text with the generated tables}."""
    names = verdicts.papers(HOME, REFERENCE)
    found = [verdicts.paper(name, HOME, REFERENCE / name) for name in names]
    parts = {
        "README.md": (readme.MARKS, readme.table(found, REFERENCE)),
        "docs/evidence.md": (readme.VERDICT_MARKS, readme.verdicts(found)),
        "papers/study/README.md": (readme.STUDY_MARKS, readme.study(REFERENCE)),
    }
    return {
        name: replaced(name, (ROOT / name).read_text(), marks, part)
        for name, (marks, part) in parts.items()
    }


def main() -> None:
    from common.comparison import deviations

    for name, text in pages().items():
        write(ROOT / name, text)
    for paper in deviations.PAPERS:
        write(*deviations.readme(paper))


if __name__ == "__main__":
    main()
