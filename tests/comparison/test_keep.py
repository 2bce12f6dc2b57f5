"""`rlvr keep`: tables and pictures of finished runs are copied, run folders and PDFs are not."""

import pytest

from common.comparison import keep
from common.errors import UserError


def test_tables_and_pictures_are_kept(tmp_path):
    home = tmp_path / "results" / "fade"
    for name in ("figures/a.png", "figures/a.pdf", "laptop/metrics.csv", "run-s1/DONE"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    (home / "claims.csv").write_text("claim")
    stored = tmp_path / "stored" / "fade"
    (stored / "laptop").mkdir(parents=True)
    (stored / "laptop" / "older.csv").write_text("stays")
    words = ["paper=fade", f"results_dir={tmp_path / 'results'}", f"into={tmp_path / 'stored'}"]
    keep.main(words)
    found = {str(path.relative_to(stored)) for path in stored.rglob("*") if path.is_file()}
    assert found == {"figures/a.png", "laptop/metrics.csv", "laptop/older.csv", "claims.csv"}
    with pytest.raises(UserError, match="paper=other"):
        keep.main(["paper=other", *words[1:]])
