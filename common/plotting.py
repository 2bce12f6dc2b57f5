"""The common style of all figures, and the function that saves them: as pdf, png and a CSV of
exactly what is drawn."""

import io
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from common.palette import COLORS, GREY
from common.results.files import write, write_csv

STYLE: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "pdf.fonttype": 42,
}


@cache
def pyplot():
    """Return matplotlib.pyplot in the project's style. Only the first figure loads it, because most
    commands that can draw have nothing to draw."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(STYLE | {"axes.prop_cycle": plt.cycler(color=COLORS)})
    return plt


def panels(columns: int, rows: int = 1, width: float = 3.4, height: float = 2.7, **options):
    """Return a figure of `rows` x `columns` panels in the project's style, sized in inches each."""
    size = (width * columns, height * rows)
    return pyplot().subplots(rows, columns, figsize=size, squeeze=False, **options)


def legend(figure, axis, columns: int) -> None:
    """Put one legend below all panels, with the entries of `axis`."""
    handles = axis.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=columns)


def band(axis, x, rows: pd.DataFrame, color, y: str = "mean", alpha: float = 0.2, **line) -> None:
    """Draw the column `y` by `x`, and a band between the columns `low` and `high`."""
    axis.plot(x, rows[y], color=color, **line)
    axis.fill_between(x, rows["low"], rows["high"], color=color, alpha=alpha, lw=0)


def save(figure, path: Path, drawn: pd.DataFrame | None) -> None:
    """Save `figure` as `path`.pdf and .png next to `path`.csv, which holds exactly the numbers
    `drawn`; no CSV where they are None: those of a stored table, as they are.

    Time stamps are left out, so the same numbers give the same bytes.
    """
    for axis in figure.axes:
        if axis.axison and not axis.has_data():  # else an empty frame from -0.04 to 0.04 is drawn
            axis.set(xticks=[], yticks=[])
            axis.text(0.5, 0.5, "no runs", transform=axis.transAxes, ha="center", color=GREY)
    figure.draw_without_rendering()
    with pyplot().rc_context({"figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)  # laid out once above, not for every file
        for suffix, stamp in ((".pdf", {"CreationDate": None}), (".png", {"Software": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix[1:], metadata=stamp)
            data = buffer.getvalue()
            write(path.with_suffix(suffix), quantised(data) if suffix == ".png" else data)
    if drawn is not None:
        write_csv(path.with_suffix(".csv"), drawn)
    pyplot().close(figure)


def quantised(png: bytes) -> bytes:
    """Return the picture with a palette of 256 colours, a third of its size, if that is smaller.
    With 64, methods of like colours became one colour."""
    from PIL import Image  # only what is drawn needs the extra `full`

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    few = picture.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    out = io.BytesIO()
    few.save(out, "PNG", optimize=True)
    return min(out.getvalue(), png, key=len)
