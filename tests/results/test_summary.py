import pandas as pd

from common.results.summary import summary


def test_the_last_step_is_shown(tmp_path):
    rows = [("b", "pass@1", 99.0, 1.0, 4), ("b", "pass@1", 12.34, 1.25, 5)]
    rows += [("b", "pass@4", 50.0, 2.0, 5), ("b", "pass@16", 60.0, 2.5, 5)]
    rows += [("b", "valid", 100.0, 0.0, 5)]
    frame = pd.DataFrame(rows, columns=["benchmark", "metric", "value", "stderr", "step"])
    frame.assign(n_problems=6).to_csv(tmp_path / "metrics.csv", index=False)
    lines = summary(tmp_path, "the next command").splitlines()
    assert lines[1].split() == ["b", "6", "12.3", "+-", "1.2", "60.0", "+-", "2.5", "(k=16)"]
    assert max(map(len, lines[:2])) <= 80
    assert lines[-1] == "next:  the next command"
    frame = frame[frame["metric"] != "pass@1"].assign(n_problems=6)
    frame.to_csv(tmp_path / "metrics.csv", index=False)
    assert summary(tmp_path, "").splitlines()[1].split()[:3] == ["b", "6", "-"]
