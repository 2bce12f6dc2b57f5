"""The page: everything that was read is put into templates/page.html, and none of it is trusted.

jinja2 escapes every value. Styles and script are part of the file, figures and their numbers too as
far as they fit, so that the page can be sent as a single file. The same input gives the same bytes.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote

import jinja2

from common.comparison import gains_text, layout
from common.config.files import ROOT
from common.palette import FAMILIES, LINES, of_family
from common.report import plots, sources, views
from common.report.beside import SHOWN
from common.report.figures import Picture, data_uri, fitting
from common.report.reruns import Rerun
from common.yardstick.third_page import BEST_HEAD

LIMIT = 3_000_000  # bytes of the page
MARKUP = 300  # bytes of markup around an embedded figure or link
HERE = Path(__file__).parent / "templates"


def build(
    root: Path, *, reference: Path, folder: Path, say: Callable = lambda words: None
) -> tuple[str, list[str]]:
    """Return (the page on the results in `root`, to be written to `folder`; what was left out)."""
    yardsticks, left_out = sources.read_yardstick(root, reference)
    papers = []
    for paper in sources.papers(ROOT / "papers"):
        say(f"{paper} ...")
        papers.append(sources.read(paper, ROOT / "papers", root, reference))
    return render(papers, yardsticks, left_out, folder)


def render(
    shown: list[sources.Source],
    yardsticks: list[sources.Yardstick],
    left_out: list[str],
    folder: Path,
) -> tuple[str, list[str]]:
    """Return (the page, what was left out)."""
    left_out = [*left_out, *(reason for source in shown for reason in source.left_out)]
    known = views.facets(shown)
    drawn = [p for one in yardsticks for p in one.figures]
    drawn += [p for s in shown for p in s.figures]
    drawn += [p for s in shown if s.second for p in s.second.figures]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"slug": views.slug, "three": three}
    environment.filters["href"] = partial(href, folder=folder)
    environment.filters["groupby_order"] = views.by_section
    environment.tests["there"] = Path.exists
    environment.globals |= {"mark": views.mark, "dashes": plots.DASHES}
    papers = [_paper(source, known) for source in shown]
    write = partial(
        environment.get_template("page.html").render,
        style=(HERE / "style.css").read_text() + _colours(),
        script=(HERE / "page.js").read_text(),
        papers=papers,
        yardsticks=yardsticks,
        yardstick_head=BEST_HEAD,
        scopes=SHOWN,
        facets=known,
        cells=sum((p["cells"] for p in papers), Counter()),
        states=views.STATES,
        left_out=left_out,
        index=lambda kind, name: views.indices(known, kind, [name]),
        cost=cost,
        words=words(),
    )
    bare = _tight(write(pictures=_pictures(drawn, folder, 0)))  # everything beside the page
    text = write(pictures=_pictures(drawn, folder, LIMIT - len(bare.encode())))
    return _tight(text), left_out


def _tight(text: str) -> str:
    """Remove the templates' indentation and empty lines, a tenth of a large page."""
    return re.sub(r"\n\s+", "\n", text)


def _colours() -> str:
    """Return the palette as CSS rules, for a white and for a black background."""
    looks = [of_family(i, place) for i in range(len(FAMILIES)) for place in range(len(LINES))]
    light, dark = (
        "".join(f".{one.name}{{--c:{getattr(one, shade)}}}" for one in looks)
        for shade in ("color", "dark")
    )
    return f"{light}@media screen and (prefers-color-scheme:dark){{{dark}}}"


def href(path: Path, folder: Path) -> str:
    """A link to a file beside the page."""
    return quote(Path(os.path.relpath(path, folder)).as_posix())


def three(value: object) -> object:
    """A fraction with three digits; all else as it is."""
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else value


def words() -> list[tuple[str, str]]:
    """The glossary of docs/testbeds.md; empty in an installed package, which has no docs."""
    file = ROOT / "docs" / "testbeds.md"
    table = file.read_text().split("## The training loop")[0] if file.exists() else ""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return [(word, meaning) for word, meaning in rows if word not in ("word", "---")]


def cost(row: Rerun) -> str:
    """What rerunning a row takes, all its seeds, in words."""
    if row.cost is None:
        return "cost not predicted"
    if row.scope == "cluster":
        return f"{row.cost} GPU-hours with its evaluations"
    return f"about {max(1, 60 * row.cost.high):.0f} minutes of one core"


def _paper(source: sources.Source, known: views.Facets) -> dict:
    """What the template of one paper needs; without a comparison, all that rests on it is empty."""
    comparison = source.comparison
    claims = views.claims(source, known) if comparison else []
    tables = views.published(source) if comparison else []
    shown = [c for t in tables for _, rows in t.bodies for r in rows for c in r.cells if c]
    gains = gains_text.shown(comparison.gains) if comparison else []
    verdicts = [verdict for claim in claims for verdict in claim.verdicts]
    counts = {s: Counter(v.mark for v in verdicts if v.scope == s) for s in SHOWN}
    frames = ("runs", "notes", "detectable", "missing")
    rows = {key: layout.objects(getattr(comparison, key)) if comparison else [] for key in frames}
    for run in rows["runs"]:
        run["root"] = Path(run.get("root", source.root))
    extras = {"hyperparameters": source.hyperparameters, "unread": source.missing}
    return {
        "source": source,
        "answer": source.answer,
        "unkept": _unkept(rows["runs"]),
        "step": source.step,
        "front": _front(source.figures),
        "gains": gains,
        "gain_columns": [(name, name) for name in gains[0]] if gains else [],
        "claims": claims,
        "claimed": _claimed(counts),
        "counts": counts,
        "cells": Counter(cell.mark for cell in shown),
        "tables": tables,
        "reruns": views.rerun(source) if comparison else [],
        "run_ids": {run["run_id"] for run in rows["runs"]},
        "command": partial(_command, source),
        **rows,
        **{key: [] if t is None else t.to_dict("records") for key, t in extras.items()},
    }


def _unkept(runs: list[dict]) -> dict[str, list[dict]]:
    """Group the runs that are kept only as committed tables by what is said of them."""
    kept: dict[str, list[dict]] = {}
    for run in runs:
        if run["state"] == "reference" and not run["config"]:
            kept.setdefault(str(run["detail"]), []).append(run)
    return kept


def _front(figures: list[Picture]) -> plots.Plot | None:
    """Return the first screen's figure: diversity against accuracy in the paper's main table."""
    drawn = [p for p in figures if p.plot and p.name.endswith("_matched")]
    drawn.sort(key=lambda p: "_strong_" not in p.name)
    return drawn[0].plot if drawn else None


def _claimed(counts: dict[str, Counter]) -> list[str]:
    """Return the scopes in which at least one claim is made."""
    return [scope for scope in SHOWN if counts[scope].total() > counts[scope]["absent"]]


def _command(source: sources.Source, table: str, row: views.Row) -> str:
    """Return the anchor of the command that reruns a row, best in this table; "" if none does."""
    same = [
        (i, r)
        for i, r in enumerate(source.reruns)
        if (r.model, r.method) == (row.model, row.method)
    ]
    same.sort(key=lambda pair: pair[1].table != table)
    return views.slug("command", source.paper, same[0][0]) if same else ""


def _pictures(drawn: list[Picture], folder: Path, budget: int) -> dict[Path, dict]:
    """Return where the browser finds each figure and its numbers.

    They are embedded in the page as long as they fit into `budget` bytes: figures first, in the
    order given, then numbers, the smallest first. The others are links to files beside the page.
    """
    images = [p for p in drawn if not p.plot]
    small = sorted((p for p in drawn if p.numbers), key=lambda p: (len(p.numbers), str(p.path)))
    sizes = [len(p.png) + MARKUP for p in images] + [len(p.numbers) + MARKUP for p in small]
    fits = fitting(sizes, budget)
    inside = {p.path: fit for p, fit in zip(images, fits, strict=False)}
    whole = fits[len(images) :]
    numbers = {}
    for p, fit in zip(small, whole, strict=True):
        table = p.path.with_suffix(".csv")
        link = data_uri("application/gzip", p.numbers) if fit else href(table, folder)
        name = p.name + (".csv.gz" if fit else ".csv")
        numbers[p.path] = {"href": link, "inside": fit, "name": name}
    return {
        p.path: {
            "name": p.name,
            "caption": p.caption,
            "plot": p.plot,
            "src": data_uri("image/png", p.png) if inside.get(p.path) else href(p.path, folder),
            "inside": inside.get(p.path, False),
            "width": p.width,
            "height": p.height,
            "numbers": numbers.get(p.path),
        }
        for p in drawn
    }
