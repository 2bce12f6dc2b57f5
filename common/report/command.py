"""One page for all papers, from result files alone.

    rlvr report [results_dir=results]

Writes <results_dir>/report/index.html: claims with their numbers, and figures. A paper with
a finished comparison in <results_dir> is shown from there, every other one from the committed
results. The figures are links to files, so the page belongs where it is written.
"""

from pathlib import Path

from common.config.files import ROOT
from common.config.words import options
from common.results.files import write


def main(words: list[str]) -> None:
    root = Path(options(words, {"results_dir": "results"})["results_dir"])
    from common.report import page  # Jinja and pandas: --help need not wait

    target = root / "report" / "index.html"
    write(target, page.build(ROOT / "papers", root, ROOT / "results" / "reference", target.parent))
    print(target)
