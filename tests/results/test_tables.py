"""The one writer of markdown tables."""

from common.results.tables import escaped, markdown


def test_a_table_by_hand():
    text = markdown(["method", "value", "note"], [["GRPO", 1.5, "a|b"], ["F-GRPO", "", ""]], "lr")
    assert text == (
        "| method | value | note |\n"
        "| --- | ---: | --- |\n"
        "| GRPO | 1.5 | a\\|b |\n"
        "| F-GRPO |  |  |\n"
    )
    assert escaped("|B|") == "\\|B\\|"
