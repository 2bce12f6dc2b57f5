"""The page in headless Chromium: no console errors, filters, and the time that 2,000 cells take."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from report_sources import cell, comparison, source

from common.report import page

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("needs a browser: apt-get install chromium", allow_module_level=True)

SLOW = 5  # times the second that we promise: the machine may be busy


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A page of 2,000 cells: 50 methods x 40 benchmarks, half of them rerun."""
    cells = [
        cell(f"m{i}", f"b{j}", "within noise" if j % 2 else "not run", "ok" if j % 2 else "")
        for i in range(50)
        for j in range(40)
    ]
    folder = tmp_path_factory.mktemp("report")
    text, _ = page.render([source(comparison(cells))], None, [], folder)
    (folder / "index.html").write_text(text)
    return folder / "index.html"


def dump(made: Path, fragment: str = "") -> tuple[str, list[str]]:
    """The page as the browser has it once loaded, and what the console said."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    flags += [f"--user-data-dir={made.parent / 'profile'}", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run(
        [CHROMIUM, *flags, made.as_uri() + fragment], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, re.findall(r"CONSOLE.*", done.stderr)


def test_it_loads_without_errors_and_2000_cells_are_there_in_time(made):
    text, console = dump(made)
    assert console == []
    assert "1 claims, 2001 cells" in text  # and the laptop's one
    assert int(re.search(r'data-ready="(\d+)"', text)[1]) < 1000 * SLOW


def test_filters_of_the_address_hide_the_rest(made):
    text, console = dump(made, "#?method=m7&benchmark=b3")
    assert console == []
    assert "0 claims, 1 cells" in text
    number = {
        kind: re.search(rf'<option value="{name}" data-i="(\d+)"', text)[1]
        for kind, name in (("method", "m7"), ("benchmark", "b3"))
    }
    for kind, i in number.items():
        assert f'[data-{kind}]:not([data-{kind}~="{i}"]){{display:none!important}}' in text
    assert re.search(r'<figure class="tbl" id="table-paper_a-laptop-laptop_strong" hidden', text)
    assert not re.search(r'<figure class="tbl" id="table-paper_a-published-table1" hidden', text)
