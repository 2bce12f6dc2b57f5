"""One page for all papers, from result files alone.

    rlvr report [results_dir=results]

Writes <results_dir>/report/index.html: claims, published and rerun numbers, figures, where each
number comes from, and how to rerun it. The committed results of results/reference are always shown;
those of a finished comparison in <results_dir> stand beside them. What is damaged or absent is
named on the page and left out. Where nothing has changed since the last time, the page is left as
it is (made_of.json beside it; delete it to have the page made again).
"""

import sys
from pathlib import Path

from common.config.files import ROOT
from common.config.words import options


def main(words: list[str]) -> None:
    chosen = options(words, {"results_dir": "results"})
    from common.report import cache

    root = Path(chosen["results_dir"])
    target = root / "report" / "index.html"
    reference = ROOT / "results" / "reference"

    def build() -> tuple[str, list[str]]:
        from common.report import page

        return page.build(root, reference=reference, folder=target.parent, say=_progress)

    left_out, made = cache.page(target, root, reference, build)
    for reason in left_out:
        print(f"left out: {reason}", file=sys.stderr)
    state = "" if made else ", unchanged: so is all that it is made of"
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB{state}")


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
