"""The common style of all figures, and the function that saves them: as pdf, png and a CSV of
exactly what is drawn."""

import io
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from PIL import Image

from common.palette import COLORS, GREY
from common.results.files import write, write_csv

matplotlib.use("Agg")
import matplotlib.pyplot as plt

STYLE: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.prop_cycle": plt.cycler(color=COLORS),
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "pdf.fonttype": 42,
    "svg.hashsalt": "rlvr-papers",
}


def panels(columns: int, rows: int = 1, width: float = 3.4, height: float = 2.7, **options):
    """Return a figure of `rows` x `columns` panels in the project's style, sized in inches each."""
    plt.rcParams.update(STYLE)
    return plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False, **options
    )


def save(figure, path: Path, drawn: pd.DataFrame | None) -> None:
    """Save `figure` as `path`.pdf and .png beside `path`.csv, which holds exactly the numbers
    `drawn`; no CSV where they are None: those of a stored table, as they are.

    Time stamps are left out, so the same numbers give the same bytes.
    """
    for axis in figure.axes:
        if axis.axison and not axis.has_data():  # else an empty frame from -0.04 to 0.04 is drawn
            axis.set(xticks=[], yticks=[])
            axis.text(0.5, 0.5, "no runs", transform=axis.transAxes, ha="center", color=GREY)
    figure.draw_without_rendering()
    with plt.rc_context({"figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)  # laid out once above, not for every file
        for suffix, stamp in ((".pdf", {"CreationDate": None}), (".png", {"Software": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix[1:], metadata=stamp)
            data = buffer.getvalue()
            write(path.with_suffix(suffix), quantised(data) if suffix == ".png" else data)
    if drawn is not None:
        write_csv(path.with_suffix(".csv"), drawn)
    plt.close(figure)


def quantised(png: bytes) -> bytes:
    """Return the picture with a palette of 64 colours, a third of its size, if that is smaller.
    Plots have few colours, so the loss cannot be seen."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    few = picture.quantize(64, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    out = io.BytesIO()
    few.save(out, "PNG", optimize=True)
    return min(out.getvalue(), png, key=len)
