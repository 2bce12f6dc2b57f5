"""The page without a browser: what is on it, what may never be, and what stops it (nothing)."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from report_sources import CLAIM, cell, comparison, picture, png, source
from tiny import ROOT

from common.errors import UserError
from common.report import figures, page, plots, reruns, sources, views
from common.results.files import write
from common.sweeps.cost import Range
from common.yardstick import third

PRICES = ROOT / "results" / "reference"
VOID = {"meta", "link", "img", "br", "input"}
CELLS = [
    cell("F", "AIME", "within noise", "ok", notes="INC001"),
    cell("F", "AMC", "differs", "reference"),
    cell("G", "AIME", "within noise", "missing"),
    cell("G", "AMC", "differs", "changed"),
    cell("G2", "AIME", "not run", "", reason="no run"),
    cell("G2", "AMC", "not reproducible", "", reason="needs o1"),
]


class Page(HTMLParser):
    """Elements with their attributes and their own text; fails where tags do not match."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict, list[str]]] = []
        self.open: list[tuple[str, dict, list[str]]] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        element = (tag, dict(attributes), [])
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        for element in self.open:
            element[2].append(data)

    def find(self, tag: str, **wanted) -> list[tuple[dict, str]]:
        return [
            (attributes, " ".join(" ".join(text).split()))
            for name, attributes, text in self.elements
            if name == tag and all(attributes.get(k.rstrip("_")) == v for k, v in wanted.items())
        ]


def render(*shown, yardsticks=(), folder=Path("folder")) -> tuple[str, Page]:
    text, _ = page.render(list(shown), list(yardsticks), [], folder)
    return text, Page(text)


def links(made: Page, folder: Path) -> list[str]:
    """Links that lead nowhere, inside the page or beside it."""
    ids = [attributes["id"] for _, attributes, _ in made.elements if "id" in attributes]
    assert len(ids) == len(set(ids)), "an id is there twice"
    wrong = []
    for _, attributes, _ in made.elements:
        for key in ("href", "src", "data-src"):
            link = attributes.get(key, "data:")
            if link.startswith("data:"):
                continue
            here = link.startswith("#")
            if not (link[1:] in ids if here else (folder / unquote(link)).exists()):
                wrong.append(link)
    return wrong


def test_the_page_is_whole_and_its_links_lead_somewhere(tmp_path):
    run = tmp_path / "paper_a" / "run-a"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("a: 1\n")
    (tmp_path / "report").mkdir()
    made = source(comparison(CELLS), root=tmp_path)
    _, html = render(made, folder=tmp_path / "report")
    assert links(html, tmp_path / "report") == []
    assert html.find("a", href="../paper_a/run-a/config.yaml")
    assert html.find("a", href="#run-paper_a-run-a")  # from a cell to its run
    assert html.find("a", href="#note-paper_a-INC001")  # and to the paper's inconsistency
    assert html.find("a", href="#command-paper_a-0")  # from a row to its command
    assert not [a for tag, a, _ in html.elements if "://" in a.get("href", a.get("src", ""))]


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><b data-x='"


def test_every_text_is_escaped(tmp_path):
    cells = [cell(HOSTILE, HOSTILE, "differs", "ok", reason=HOSTILE, model=HOSTILE, metric=HOSTILE)]
    hostile = source(comparison(cells, words=HOSTILE), words=HOSTILE, fallback=HOSTILE)
    yardstick = sources.Yardstick("third_maze", HOSTILE, HOSTILE, HOSTILE, [[HOSTILE]], [])
    text, html = render(hostile, yardsticks=[yardstick])
    assert text.count("alert(1)") > 40  # it is there, as text
    assert len(html.find("script")) == 1
    assert "alert(1)" not in html.find("script")[0][1]
    assert all(image["data-src"].startswith("data:") for image, _ in html.find("img"))
    names = {name for _, attributes, _ in html.elements for name in attributes}
    assert not {name for name in names if name.startswith("on") or name == "data-x"}


def test_cells_are_coloured_by_verdict_but_grey_without_their_files():
    _, html = render(source(comparison(CELLS)))
    classes = [
        attributes["class"]
        for attributes, _ in html.find("td")
        if attributes.get("class", "").startswith("c-") and "data-benchmark" in attributes
    ]
    assert classes == [
        *["c-grey s-missing"],  # the laptop's row
        *["c-good s-ok", "c-bad s-reference", "c-grey s-missing", "c-grey s-changed"],
        *["c-none", "c-never"],
    ]
    said = [
        text for attributes, text in html.find("td") if attributes.get("class") == "c-good s-ok"
    ]
    assert said[0].startswith("within noise 70.3 rerun 71.0 † published")  # not by colour alone
    assert "published 70.3 percent rerun 71.0 [69.0, 73.0] (3 seeds, 30 problems)" in said[0]
    assert "difference +0.7" in said[0]


def test_a_claim_shows_each_verdict_and_the_numbers_behind_it():
    lost = comparison(CELLS)
    _, html = render(source(lost))
    row = html.find("tr", class_="claim")[0]
    assert row[0]["data-verdict"] == "good bad none"
    assert "holds 2 > 1" in row[1]
    assert "fails plain" in row[1]
    assert "smallest detectable 3.2" in row[1]
    assert "95 % interval 7.64 to 12.3" in row[1]
    lost.verdicts["laptop_state"] = "changed"
    _, html = render(source(lost))
    assert html.find("tr", class_="claim")[0][0]["data-verdict"] == "good grey none"


def test_filters_know_what_a_claim_speaks_of():
    made = source(comparison(CELLS))
    known = views.facets([made])
    assert list(known["method"]) == ["F", "G", "G2", "plain"]
    assert views.mentioned(CLAIM, "method") == {"F", "G", "G2"}
    claim = views.claims(made, known)[0]
    assert claim.facets == {"model": "0", "method": "0 1 2", "benchmark": "0"}
    _, html = render(made)
    assert html.find("option", value="G2", data_i=None)
    rows = html.find("tr", class_=None)
    assert [a["data-method"] for a, _ in rows if "data-method" in a] == ["3", "0", "1", "2"]


def test_figures_of_cluster_rows_come_first_with_their_captions(tmp_path, monkeypatch):
    home, root = tmp_path / "papers", tmp_path / "results"
    folder = root / "paper_a" / "figures"
    for name in ("fig_2", "laptop_x", "cluster_fig_1"):
        write(folder / f"{name}.png", png())
        write(folder / f"{name}.csv", "x\n1\n")
    table = "name,caption,left_out\ncluster_fig_1,A <b> at k = 4,\ncluster_fig_3,,no row of GRPO\n"
    write(root / "paper_a" / "cluster" / "figures.csv", table)
    monkeypatch.setattr(sources, "spec_of", lambda paper: paper)
    monkeypatch.setattr(sources, "assess", lambda *_: comparison(CELLS))
    monkeypatch.setattr(sources, "reruns", lambda *_: [])
    made = sources.read("paper_a", home, root, tmp_path / "none")
    assert [p.name for p in made.figures] == ["cluster_fig_1", "laptop_x", "fig_2"]
    assert [p.caption for p in made.figures] == ["A <b> at k = 4", "", ""]
    assert "paper_a/cluster_fig_3: not drawn: no row of GRPO" in made.left_out
    text, html = render(made, folder=tmp_path)
    captions = [said for _, said in html.find("figcaption")]
    assert sum("A <b> at k = 4" in said for said in captions) == 1
    assert "A &lt;b&gt; at k = 4" in text


def test_what_is_absent_or_damaged_never_stops_the_page(tmp_path, monkeypatch):
    home, root = tmp_path / "papers", tmp_path / "results"
    (home / "paper_a" / "published").mkdir(parents=True)
    (root / "paper_a" / "figures").mkdir(parents=True)
    (root / "paper_a" / "figures" / "broken.png").write_bytes(png()[:-30])
    (root / "paper_a" / "figures" / "whole.png").write_bytes(png())
    (home / "paper_a" / "published" / "hyperparameters.csv").write_bytes(b"\xff\xfe a,b\n\x00")
    monkeypatch.setattr(sources, "spec_of", lambda paper: paper)

    def damaged(*_):
        raise UserError(f"{ROOT}/results/x.csv:3: value 137 %")

    monkeypatch.setattr(sources, "assess", damaged)
    monkeypatch.setattr(sources, "reruns", damaged)
    made = sources.read("paper_a", home, root, tmp_path / "none")
    text, html = render(made, folder=tmp_path)
    assert "results/x.csv:3: value 137 %" in made.left_out  # and no machine's folder
    named = [text for _, text in html.find("li")]
    assert not any("missing.csv" in reason for reason in named)  # a paper may have none
    for words in ("figures/broken.png", "hyperparameters.csv"):
        assert any(words in reason for reason in named), words
    assert any("claims.yaml" in reason for reason in named)
    assert [p.name for p in made.figures] == ["whole"]
    assert "paper_a/figures/whole.png: the CSV of its numbers is not there" in made.left_out
    assert "could not be compared" in text


def test_the_yardsticks_answer_is_shown_where_more_than_the_controls_has_run(tmp_path):
    assert sources.read_yardstick(tmp_path, tmp_path) == ([], [])
    (tmp_path / "third_maze").mkdir()
    file = tmp_path / "third_maze" / "ranking.csv"
    numbers = "lr 1e-4,lr 1e-5,3.0,1.0,5.0,.01"
    lines = [
        f"best rates,{equal},{benchmark},{metric},{method},{numbers},{word},3,.8"
        for equal in third.READ
        for metric in ("pass@64", "distinct_correct")
        for benchmark in ("rare", "natural")
        for method, word in (("FADE", "better"), ("IAC", "undecided"))
    ]
    head = "reading,equal,benchmark,metric,method,rate,against,difference,difference_low,"
    head += "difference_high,p_holm,verdict,n_seeds,reliability"
    file.write_text("\n".join([head, *lines]))
    (one,), left_out = sources.read_yardstick(tmp_path, tmp_path)
    assert left_out == []
    assert "1 of 2 methods, each at its best rate, keeps more" in one.answer
    assert [line[:3] for line in one.lines] == [
        ["FADE", "lr 1e-4", "+3.0 [1.0, 5.0]"],
        ["IAC", "lr 1e-4", "+3.0 [1.0, 5.0]"],
    ]
    _, html = render(yardsticks=[one])
    assert [text for _, text in html.find("td")][:3] == one.lines[0][:3]
    file.write_text("method\ngrpo\n")  # not ours
    shown, left_out = sources.read_yardstick(tmp_path, tmp_path)
    assert shown == []
    assert len(left_out) == 1


def test_without_a_finished_comparison_the_committed_one_is_shown_and_named(tmp_path):
    root, reference = tmp_path / "results", tmp_path / "reference"
    (reference / "paper_a").mkdir(parents=True)
    assert sources.choose(root, reference, "paper_a", "claims.csv")[0] == reference
    (root / "paper_a").mkdir(parents=True)
    chosen, why = sources.choose(root, reference, "paper_a", "claims.csv")
    assert chosen == reference
    _, html = render(source(comparison(CELLS), fallback=why))
    assert any("paper_a/ holds no finished comparison in results/" in t for _, t in html.find("p"))
    (root / "paper_a" / "claims.csv").write_text("claim\n")
    assert sources.choose(root, reference, "paper_a", "claims.csv") == (root, "")
    assert sources.choose(root, reference, "paper_b", "claims.csv") == (root, "")


def test_figures_that_do_not_fit_are_linked_and_the_page_stays_under_three_megabytes(tmp_path):
    many = [picture(f"fig{i}", 400_000, tmp_path) for i in range(12)]
    for p in many:
        p.path.write_bytes(b"")
        p.path.with_suffix(".csv").write_bytes(b"")
    text, html = render(source(comparison(CELLS), figures=many), folder=tmp_path)
    assert 2_000_000 < len(text.encode()) < page.LIMIT == 3_000_000
    shown = [image["data-src"] for image, _ in html.find("img")]  # loaded when unfolded
    inside = sum(src.startswith("data:") for src in shown)
    assert 0 < inside < 12 == len(shown)
    beside = [a["href"] for a, _ in html.find("a") if a["href"].endswith(".png")]
    assert beside == [src for src in shown if not src.startswith("data:")]
    assert links(html, tmp_path) == []


def test_a_curve_without_pass_at_64_is_not_drawn(tmp_path):
    head, row = "method,seed,run_id,step,accuracy,diversity", "GRPO,1,r,3,2.5,"
    file = tmp_path / "smoke_matched.csv"
    file.write_text(f"{head}\n{row}\n")
    assert plots.plot(file) is None
    file.write_text(f"{head}\n{row}\n{row}7\n")
    (panel,) = plots.plot(file).panels
    assert [len(line.points) for line in panel.lines] == [1]


def test_a_figure_gets_smaller_not_other():
    from PIL import Image

    small, width, height = figures.shrink(png())
    assert (width, height) == (40, 20)
    import io

    assert Image.open(io.BytesIO(small)).convert("RGB").getpixel((3, 3)) == pytest.approx(
        (0, 114, 178), abs=4
    )


def test_the_same_input_gives_the_same_bytes():
    texts = {render(source(comparison(CELLS)))[0] for _ in range(2)}
    assert len(texts) == 1


def test_a_command_makes_the_row_that_it_stands_beside():
    import shlex

    from common.experiment import load

    rows = reruns.reruns("f_grpo", reruns.costs(PRICES / "f_grpo" / "costs.csv"))
    chosen = [
        rows[1],
        next(r for r in rows if r.model == "Qwen2.5-1.5B-Math" and r.method == "F-GRPO"),
    ]
    for row in chosen:
        python, _, module, *words = shlex.split(row.command)
        words = [word for word in words if word != "--multirun"]
        seed = next(word for word in words if word.startswith("seed="))
        assert len(seed.split(",")) == row.seeds
        x = load([*words[:-1], seed.split(",")[0]], module.removeprefix("papers."))
        assert (x.scope, x.table, x.model.name, x.label) == (
            row.scope,
            row.table,
            row.model,
            row.method,
        )
        assert ("cluster" in python) == (x.backend == "verl")


def test_costs_are_those_of_the_dry_run_and_none_is_guessed():
    prices = reruns.costs(PRICES / "two_stage" / "costs.csv")
    rows = [row for row in reruns.reruns("two_stage", prices) if row.scope == "cluster"]
    trained = next(row for row in rows if row.method == "GRPO-N")
    base = next(row for row in rows if row.method == "Base Model")
    assert trained.cost.low > 10 * base.cost.low  # as the row itself, not as the model before it
    assert page.cost(trained) == f"{trained.cost} GPU-hours with its evaluations"
    assert all(row.cost for row in reruns.reruns("two_stage", prices))
    unknown = reruns.reruns("two_stage", reruns.costs(PRICES / "none.csv"))
    assert page.cost(unknown[0]) == "cost not predicted"
    one = reruns.Rerun("laptop", "t", "tiny", "GRPO", 3, "", Range(0.2, 0.25))
    assert page.cost(one) == "about 15 minutes of one core"
