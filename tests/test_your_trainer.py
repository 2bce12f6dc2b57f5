import re

import pytest
from tiny import ROOT

from common.errors import UserError
from common.methods.binding import bind
from rlvr_papers import method, method_names

pytest.importorskip("trl")
from rlvr_papers.trl import keys

pytestmark = pytest.mark.trains
PAGE = (ROOT / "docs" / "your-trainer.md").read_text()


def in_trl(name: str) -> str:
    m = method(name, max_tokens=8, steps=3)
    try:
        own, plain = keys(m), keys(method("grpo"))
    except UserError:
        return "no"
    parts = ["own loss"] * any(plain.get(key) != value for key, value in own.items())
    return ", ".join([*parts, *["one update"] * bool(bind(m).token_weights)]) or "yes"


def test_the_table_has_each_method_once_and_what_trl_can():
    rows = [line.split("|")[1:4] for line in PAGE.splitlines() if line.startswith("| `")]
    found = {name: trl for names, _, trl in rows for name in re.findall(r"`(\w+)`", names)}
    assert sorted(re.findall(r"`(\w+)`", " ".join(row[0] for row in rows))) == sorted(
        method_names()
    )
    assert {name: text.strip().split(":")[0] for name, text in found.items()} == {
        name: in_trl(name) for name in method_names()
    }
