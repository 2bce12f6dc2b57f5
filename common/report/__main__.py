"""One page for all papers, from result files alone: `make report`.

    python -m common.report [results_dir=results]

Writes <results_dir>/report/index.html: claims, published and rerun numbers, figures, where each
number comes from, and how to rerun it. Where <results_dir> has no finished comparison of a paper,
the committed one of results/reference is shown, and the page says so. What is damaged or absent is
named on the page and left out.
"""

import sys
from pathlib import Path

from common.cli import guard, options
from common.config.compose import ROOT


def main() -> None:
    chosen = options(__doc__, {"results_dir": "results"})
    from common.report import page
    from common.results.files import write

    root = Path(chosen["results_dir"])
    target = root / "report" / "index.html"
    text, left_out = page.build(
        root, reference=ROOT / "results" / "reference", folder=target.parent, say=_progress
    )
    write(target, text)
    for reason in left_out:
        print(f"left out: {reason}", file=sys.stderr)
    print(f"{target}: {len(text.encode()) / 1e6:.1f} MB")


def _progress(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    guard(main)
