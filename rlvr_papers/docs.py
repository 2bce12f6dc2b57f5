"""Write the generated parts of the documentation.

    rlvr docs

docs/methods.md comes from the method files and the docstrings of their functions. The deviations in
the papers' READMEs come from the papers' configurations, and the smallest rows (experiments) in
these READMEs from the dry run. The dry run also gives results/reference/<paper>/costs.csv and
budget.csv: what the rows of a cluster cost, and which claims they could decide.

The committed results give the rest:

    README.md                          the table, the figure and the yardstick's answer
    docs/yardstick.md                  the yardstick's answer
    docs/evidence.md                   the counts of verdicts; how many seeds would settle the
                                       open ones
    docs/page.html                     the page of `rlvr report`, for readers without an
                                       environment
"""

from common.config.files import ROOT, papers
from common.config.words import options

REFERENCE = ROOT / "results" / "reference"


def main(words: list[str]) -> None:
    options(words, {})
    from common.comparison import deviations
    from common.methods import catalogue
    from common.report import kinds, page, power
    from common.report.readme import draw, written
    from common.report.readme import papers as committed
    from common.results.files import write
    from common.sweeps import smallest
    from common.yardstick import answer
    from slurm import prices

    write(ROOT / "docs" / "methods.md", catalogue.page())
    for paper in deviations.PAPERS:
        write(*deviations.readme(paper))
    for paper in smallest.SMALLEST:
        write(*smallest.readme(paper))
    for paper in papers():
        if (REFERENCE / paper).is_dir():
            prices.write(paper, REFERENCE)
    readme, where = ROOT / "README.md", (ROOT / "papers", REFERENCE)
    write(readme, written(readme.read_text(), *where))
    draw(*where)
    docs = ROOT / "docs"
    for file in (readme, docs / "yardstick.md"):
        write(file, answer.written(file, REFERENCE))
    evidence = docs / "evidence.md"
    for table in (kinds, power):
        write(evidence, table.written(evidence.read_text(), committed(*where), *where))
    text, _ = page.build(REFERENCE, reference=REFERENCE, folder=docs)
    write(docs / "page.html", text)
