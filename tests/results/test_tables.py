import pytest

from common.errors import UserError
from common.results.tables import escaped, markdown, replaced


def test_a_table_by_hand():
    text = markdown(["method", "value", "note"], [["GRPO", 1.5, "a|b"], ["F-GRPO", "", ""]], "lr")
    assert text == (
        "| method | value | note |\n"
        "| --- | ---: | --- |\n"
        "| GRPO | 1.5 | a\\|b |\n"
        "| F-GRPO |  |  |\n"
    )
    assert escaped("|B|") == "\\|B\\|"


def test_a_part_is_written_between_its_own_marks_alone(tmp_path):
    page, end = tmp_path / "page.md", "<!-- end of b -->"
    text = f"a\n<!-- b: written by `make docs` -->\nold\n{end}\n<!-- end of c -->\n"
    page.write_text(text)
    assert replaced(page, "b", "new\n") == text.replace("old", "new")
    page.write_text(text.replace(end, ""))
    with pytest.raises(UserError, match=f"page.md.*{end}"):
        replaced(page, "b", "new\n")
