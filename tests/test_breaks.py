"""The texts of breaks.yaml and of slurm/defects.yaml still stand in the code, each once."""

import breaks
import yaml

TEXTS = breaks.sources(breaks.ROOT)


def test_every_break_stands_once():
    entries = breaks.read()
    counts = {one.id: len(breaks.places(TEXTS, one.old)) for one in entries}
    assert {name: count for name, count in counts.items() if count != 1} == {}
    folders = breaks.ROOT / "tests"
    assert [one.id for one in entries if not (folders / one.package).exists()] == []


def test_every_defect_stands_once():
    entries = yaml.safe_load((breaks.ROOT / "tests/slurm/defects.yaml").read_text())
    texts = [change["old"] for entry in entries for change in entry["changes"]]
    assert [text for text in texts if len(breaks.places(TEXTS, text)) != 1] == []
