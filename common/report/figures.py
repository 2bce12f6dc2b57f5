"""The figures of a results folder, made small enough to be embedded in the page."""

from __future__ import annotations

import base64
import gzip
import io
import re
from dataclasses import dataclass
from pathlib import Path

from common.report.plots import Plot, methods, plot

COLORS = 64  # of the palette: plots have few colours, so the loss cannot be seen


@dataclass(frozen=True)
class Picture:
    """One figure: its PNG, and the numbers that it draws."""

    name: str
    path: Path
    png: bytes
    width: int
    height: int
    numbers: bytes | None  # the CSV beside it, gzipped
    caption: str = ""  # of the paper's own figures (common/comparison/cluster_figures.py)
    plot: Plot | None = None  # drawn by the page itself, in the PNG's place


def pictures(
    folder: Path, captions: dict[str, str] | None = None
) -> tuple[list[Picture], list[str]]:
    """Return every figure of a folder (a cluster's first, then a laptop's) and what could not be
    read. `captions` are by the figure's name."""
    captions = captions or {}
    drawn, left_out = [], []
    for path in sorted(folder.glob("*.png"), key=_order):
        name = "/".join(path.parts[-3:])
        table = path.with_suffix(".csv")
        drawing = plot(table, _compared(table))
        try:
            png, width, height = (b"", 0, 0) if drawing else shrink(path.read_bytes())
        except (OSError, ValueError, SyntaxError) as error:  # PIL's name for a broken chunk
            left_out.append(f"{name}: not a picture ({error})")
            continue
        if not table.exists():
            left_out.append(f"{name}: the CSV of its numbers is not there")
        numbers = gzip.compress(table.read_bytes(), mtime=0) if table.exists() else None
        caption = captions.get(path.stem, "")
        drawn.append(Picture(path.stem, path, png, width, height, numbers, caption, drawing))
    return drawn, left_out


def _compared(table: Path) -> set[str] | None:
    """Return the methods that the training figure beside a matched figure compares, else None."""
    along = table.with_name(table.name.replace("_matched.csv", "_training.csv"))
    return methods(along) or None if along != table else None


def shrink(png: bytes) -> tuple[bytes, int, int]:
    """Return (the picture, with a palette of 64 colours if that is smaller; width; height)."""
    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    few = picture.quantize(COLORS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    out = io.BytesIO()
    few.save(out, "PNG", compress_level=6)
    return min(out.getvalue(), png, key=len), picture.width, picture.height


def data_uri(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def fitting(sizes: list[int], budget: int) -> list[bool]:
    """Return which of the items, in order of importance, fit into `budget` bytes as base64."""
    chosen, left = [], budget
    for size in sizes:
        needed = 4 * ((size + 2) // 3)
        chosen.append(needed <= left)
        left -= needed if needed <= left else 0
    return chosen


def _order(path: Path) -> tuple:
    """Sort key: trained results before computed ones, then by name, with numbers as numbers."""
    pieces = re.split(r"(\d+)", path.stem)
    scale = [path.stem.startswith(word) for word in ("cluster", "laptop")]
    return *(not one for one in scale), [
        (int(piece), "") if piece.isdigit() else (0, piece) for piece in pieces
    ]
