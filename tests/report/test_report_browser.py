"""The page in headless Chromium: the first screen is read, parts are unfolded, cells filtered,
points hovered, links followed, with a silent console; and the time that 2,000 cells take."""

import pytest
from chromium import CHROMIUM, Browser
from report_sources import cell, comparison, png, source
from test_answers import gap, made, verdict

from common.config.files import ROOT, papers
from common.report import page
from common.report.figures import pictures
from common.report.next_steps import Step
from common.report.sources import Second

pytestmark = pytest.mark.browser

if CHROMIUM is None:
    pytest.skip("needs a browser: apt-get install chromium", allow_module_level=True)

SLOW = 5  # times the second that we promise: the machine may be busy
RUNS = [(m, s, t) for m in ("GRPO", "FADE") for s in (1, 2) for t in (0, 50, 100)]
CURVES = "method,seed,run_id,step,accuracy,diversity\n" + "\n".join(
    f"{m},{s},r,{t},{20 + t / 10 + s},{60 - t / (5 if m == 'GRPO' else 9) - s}" for m, s, t in RUNS
)


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    """A page of 2,000 cells: 50 methods x 40 benchmarks, half of them rerun."""
    cells = [
        cell(f"m{i}", f"b{j}", "within noise" if j % 2 else "not run", "ok" if j % 2 else "")
        for i in range(50)
        for j in range(40)
    ]
    folder = tmp_path_factory.mktemp("report")
    (folder / "laptop_strong_matched.csv").write_text(CURVES)
    for name in ("laptop_strong_matched", "plain", "laptop_maze_plain"):
        (folder / f"{name}.png").write_bytes(png())
    (folder / "plain.csv").write_text("x\n1\n")
    drawn, _ = pictures(folder)
    figures = [one for one in drawn if "maze" not in one.name]
    second = Second(
        [{"method": "maze method", "seeds": "1", "natural pass@1": "27.6"}],
        [one for one in drawn if "maze" in one.name],
    )
    answer = made([verdict("focal", "holds")], [gap("focal")], focal={"headline": "F beats G"})
    step = Step("would settle it", "run --it", "an hour, predicted, not measured")
    shown = source(comparison(cells), figures=figures, answer=answer, step=step, second=second)
    text, _ = page.render([shown], [], [], folder)
    (folder / "index.html").write_text(text)
    return (folder / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    one = Browser(tmp_path_factory.mktemp("profile"))
    yield one
    one.close()


@pytest.fixture
def shown(browser, address) -> Browser:
    """The page as it comes, 1,400 pixels wide, anew for each test; console errors fail it."""
    browser.errors.clear()
    browser.wide(1400)
    browser.open("about:blank")
    browser.open(address)
    yield browser
    assert browser.errors == []


@pytest.fixture(params=[1400, 400])
def screen(shown, address, request) -> Browser:
    """The same on a desk and on a phone."""
    shown.wide(request.param)
    shown.open("about:blank")
    shown.open(address)
    return shown


def test_the_first_screen_says_it(screen):
    shown = screen
    said = shown.eval("document.getElementById('answer-paper_a').innerText")
    for words in (
        "F keeps more.",
        "Laptop, tiny: of 1 claim 1 holds; “F beats G” holds "
        "(10.0 [7.6, 12.4] points of rare pass@64).",
        "not run; a rerun could test 2 of 1 claim",
        "this command would settle it. It costs an hour, predicted, not measured.",
        "run --it",
    ):
        assert words in said, words
    assert shown.eval("document.querySelectorAll('details[open]').length") == 0
    assert shown.eval("document.querySelectorAll('img[src]').length") == 0  # nothing decoded yet


def test_a_legend_names_what_is_drawn_and_no_run_is(shown):
    keys = "[...document.querySelectorAll('.front .k')].map(e => e.innerText.trim()).sort()"
    lines = "[...document.querySelectorAll('.front g[data-name]')].map(e => e.dataset.name).sort()"
    assert shown.eval(keys) == shown.eval(lines) == ["FADE", "GRPO"]


@pytest.mark.parametrize("width", [1400, 400])
def test_the_committed_page_opens_as_it_is(browser, width):
    page_file = ROOT / "docs" / "page.html"
    assert page_file.stat().st_size < page.LIMIT
    browser.errors.clear()
    browser.wide(width)
    browser.open(page_file.as_uri())
    assert browser.errors == []
    for paper in papers():
        said = browser.eval(f"document.getElementById('answer-{paper}').innerText")
        assert "claims" in said, paper
        assert browser.eval(f"document.querySelectorAll('#answer-{paper} .drawn').length") == 1
    assert browser.eval("document.documentElement.scrollWidth") <= width
    assert browser.eval("document.querySelectorAll('.words dt').length") >= 10


def test_2000_cells_are_there_in_time(shown):
    assert "1 claims, 2001 cells" in shown.eval("document.getElementById('shown').textContent")
    assert int(shown.eval("document.documentElement.dataset.ready")) < 1000 * SLOW


def test_filters_hide_the_rest_and_unfold_what_they_name(screen):
    shown = screen
    for name, value in (("method", "m7"), ("benchmark", "b3")):
        shown.eval(
            f"(() => {{ const s = document.querySelector('select[name={name}]');"
            f"s.value = '{value}';"
            "s.dispatchEvent(new Event('change', {bubbles: true})) })()"
        )
    assert shown.eval("document.getElementById('shown').textContent") == "0 claims, 1 cells"
    visible = (
        "[...document.querySelectorAll('.data tbody td[class]')].filter(e => e.checkVisibility())"
    )
    assert shown.eval(f"{visible}.length") == 1
    assert shown.eval("location.hash") == "#?method=m7&benchmark=b3"


def test_a_part_unfolds_and_its_pictures_are_loaded_then(screen):
    shown = screen
    figures = "#paper-paper_a details:has(.plots)"
    assert shown.eval(f"document.querySelector('{figures} img').src") == ""
    shown.click(f"{figures} summary")
    shown.until(f"document.querySelector('{figures}').open")
    shown.until(f"document.querySelector('{figures} img').naturalWidth == 40")


def test_a_point_says_method_seed_step_and_values(screen):
    shown = screen
    shown.point(".front g[data-name=FADE] [data-s*='step 50']")
    assert shown.eval("document.getElementById('tip').hidden") is False
    said = shown.eval("document.getElementById('tip').textContent")
    assert said == (
        "FADE, mean of 2 seeds, step 50: natural pass@1 (%) 26.5, rare pass@64 (%) 52.9"
    )
    shown.point("h1")
    assert shown.eval("document.getElementById('tip').hidden") is True


def test_a_link_opens_the_claim_that_it_names(screen):
    shown = screen
    row = "document.getElementById('claim-paper_a-focal')"
    assert shown.eval(f"{row}.checkVisibility()") is False  # folded
    shown.click(".headlines a")
    shown.until(f"location.hash == '#claim-paper_a-focal' && {row}.checkVisibility()")
    box = shown.eval(f"(b => [b.top, b.height, innerHeight])({row}.getBoundingClientRect())")
    assert 0 <= box[0] < box[2]
    assert box[1] > 0


def test_a_phone_scrolls_only_downwards(shown):
    shown.wide(400)
    unfold = "for (const part of document.querySelectorAll('details')) part.open = true"
    for script in ("0", unfold):
        shown.eval(script)
        assert shown.eval("document.documentElement.scrollWidth") <= 400, script


def test_the_mazes_are_a_part_of_their_own(shown):
    part = "#mazes-paper_a"
    shown.click(f"{part} summary")
    shown.until(f"document.querySelector('{part}').open")
    said = shown.eval(f"document.querySelector('{part}').innerText")
    assert "1 seed a method; no claim is decided on it" in said
    assert "maze method" in said
    assert shown.eval(f"document.querySelectorAll('{part} figure').length") == 1
    outside = shown.eval(
        f"[...document.querySelectorAll('figure')].filter(e => !e.closest('{part}'))"
        ".map(e => e.innerText).join(' ')"
    )
    assert "laptop maze" not in outside


def test_paper_shows_every_part_without_its_controls(shown):
    shown.call("Page.printToPDF")
    assert shown.eval("document.querySelectorAll('details[open]').length") == 0  # closed again
    shown.call("Emulation.setEmulatedMedia", media="print")
    shown.eval("dispatchEvent(new Event('beforeprint'))")
    closed = "[...document.querySelectorAll('details.part')].filter(e => !e.open).length"
    assert shown.eval(closed) == 0
    assert shown.eval("document.getElementById('filters').checkVisibility()") is False
    shown.eval("dispatchEvent(new Event('afterprint'))")
    shown.call("Emulation.setEmulatedMedia", media="")


def test_each_verdict_has_a_sign_of_its_own(shown):
    sign = "getComputedStyle(document.querySelector('.legend .m-{}'), '::before').content"
    marks = ("good", "bad", "open", "idle", "none", "absent")
    signs = [shown.eval(sign.format(mark)) for mark in marks]
    assert len(set(signs)) == len(marks), signs


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_same_method_has_one_colour_on_light_and_on_dark(shown, theme):
    wanted = [{"name": "prefers-color-scheme", "value": theme}]
    shown.call("Emulation.setEmulatedMedia", features=wanted)
    colors = shown.eval(
        "[...document.querySelectorAll('.front .k path.l, .front [data-name=FADE] path.l')]"
        ".filter(e => !e.closest('.k') || e.closest('.k').innerText.includes('FADE'))"
        ".map(e => getComputedStyle(e).stroke)"
    )
    assert len(colors) == 2  # the line and its key
    assert set(colors) == {"rgb(213, 94, 0)" if theme == "light" else "rgb(255, 138, 76)"}
    ground = shown.eval("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(255, 255, 255)" if theme == "light" else "rgb(19, 22, 25)")
    shown.call("Emulation.setEmulatedMedia", features=[])
