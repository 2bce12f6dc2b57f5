"""What every figure has in common."""

import pandas as pd

from common.plotting import panels, save


def test_a_panel_without_runs_says_so_and_has_no_axes(tmp_path):
    figure, ((full, empty),) = panels(2)
    full.plot([1, 2], [3, 4])
    save(figure, tmp_path / "one", pd.DataFrame({"x": [1]}))
    assert [text.get_text() for text in empty.texts] == ["no runs"]
    assert not [*empty.get_xticks(), *empty.get_yticks()]
    assert not full.texts
    assert len(full.get_xticks()) > 1
