"""Write what is generated in the documentation.

    rlvr docs

docs/methods.md comes from the method files and the docstrings of their functions, the deviations in
the papers' READMEs from their configurations, their smallest rows from the dry run, and README.md's
table and figure from results/reference.
"""

from common.config.files import ROOT
from common.config.words import options


def main(words: list[str]) -> None:
    options(words, {})
    from common.comparison import deviations
    from common.methods import catalogue
    from common.report.readme import draw, written
    from common.results.files import write
    from common.sweeps import smallest

    write(ROOT / "docs" / "methods.md", catalogue.page())
    for paper in deviations.PAPERS:
        write(*deviations.readme(paper))
    for paper in smallest.SMALLEST:
        write(*smallest.readme(paper))
    readme, where = ROOT / "README.md", (ROOT / "papers", ROOT / "results" / "reference")
    write(readme, written(readme.read_text(), *where))
    draw(*where)
